// Histograms of a whole array over fine buckets, and their scan into the tables of the partition passes.
//
//   keys (n) -> count_fine -> counts (F) -> scan_fine -> starts (F + 1), cursors (F)
//                                          describe_segments -> segments of both levels
//
// Satish, Harris and Garland, section 4, step 2 and 3, with one column: the partition passes claim the room of their
// tiles from one cursor a bucket (order within a bucket is free), so the table needs no column a tile.
#include "primitives/block.cuh"
#include "buckets/count.cuh"
#include "buckets/digits.cuh"

namespace gpusort {

// The top bits of the code are the bucket; all of them in a counting sort of 8- and 16-bit keys.
template <int kDropBits>
struct TopBuckets {
    static constexpr int kSharedWords = 1;
    __device__ __forceinline__ TopBuckets(const SplitterMap*, u32*) {}
    static __device__ __forceinline__ bool is_useless(const SplitterMap*) { return false; }
    template <class Code, int kCodes>
    __device__ __forceinline__ void find(const Code (&codes)[kCodes], u32 (&buckets)[kCodes]) const {
#pragma unroll
        for (int k = 0; k < kCodes; ++k) buckets[k] = u32(codes[k] >> kDropBits);
    }
    __device__ __forceinline__ void report(SplitterMap*) const {}
};

template <class Domain>
struct SplitterBuckets {
    static constexpr int kSharedWords = kMapWords;
    using Code = typename Domain::Code;
    SampledMap<Domain> map;
    u64 base;
    u32 strays = 0;

    __device__ __forceinline__ SplitterBuckets(const SplitterMap* splitters, u32* shared_intervals)
        : map(splitters, shared_intervals), base(splitters->base) {}
    static __device__ __forceinline__ bool is_useless(const SplitterMap* splitters) { return splitters->uneven; }
    template <int kCodes>
    __device__ __forceinline__ void find(const Code (&codes)[kCodes], u32 (&buckets)[kCodes]) {
#pragma unroll
        for (int k = 0; k < kCodes; ++k) {
            if constexpr (sizeof(Code) == sizeof(u64)) strays |= u32((codes[k] - base) >> kPositionBits);
        }
        map.find(codes, buckets);
    }
    // Tells of codes too far from the base to be narrow.
    __device__ __forceinline__ void report(SplitterMap* splitters) const {
        if (strays) splitters->strayed = 1;
    }
};

constexpr int kCountThreads = 1024;  // one block fills a multiprocessor: its counters take most shared memory

// Counts vectors of each thread of a whole warp; `places` of their first keys.
template <class Source, class Buckets, class Vector, int kVectors>
__device__ __forceinline__ void count_vectors(PackedCounters counters, Buckets& buckets,
                                              const Vector (&vectors)[kVectors], const Offset (&places)[kVectors]) {
    constexpr int kKeys = kVectorBytes / sizeof(typename Source::Raw);
    typename Source::Code codes[kVectors * kKeys];
    u32 fine[kVectors * kKeys];
#pragma unroll
    for (int i = 0; i < kVectors * kKeys; ++i) {
        codes[i] = Source::encode(vectors[i / kKeys].keys[i % kKeys], places[i / kKeys] + i % kKeys);
    }
    buckets.find(codes, fine);
    // Vector by vector: the keys of one may share a bucket.
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        u32 own[kKeys];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) own[k] = fine[v * kKeys + k];
        count_buckets(counters, own);
    }
}

// A persistent grid: every block reads vectors a grid apart. `head` keys precede the first aligned vector.
// Nothing is counted where the map is of no use: the host learns so later.
template <class Source, class Buckets>
__global__ void __launch_bounds__(kCountThreads)
    count_fine(const void* keys, Offset n, SplitterMap* map, u64* counts, u32 wide, u32 num_buckets) {
    using Raw = typename Source::Raw;
    using Vector = KeyVector<Raw>;
    constexpr int kKeys = kVectorBytes / sizeof(Raw);
    extern __shared__ __align__(16) u32 shared_words[];
    if (Buckets::is_useless(map)) return;
    PackedCounters counters{shared_words + Buckets::kSharedWords, counts, wide != 0};
    Buckets buckets(map, shared_words);
    for (u32 w = threadIdx.x; w < (num_buckets + 1) / 2; w += kCountThreads) counters.words[w] = 0;
    __syncthreads();  // counters are zero and the map is copied before keys are counted
    const Offset address = reinterpret_cast<Offset>(keys);
    Offset head = (kVectorBytes - address % kVectorBytes) % kVectorBytes / sizeof(Raw);
    head = head < n ? head : n;
    const Offset num_vectors = (n - head) / kKeys;
    const Vector* vectors = reinterpret_cast<const Vector*>(static_cast<const Raw*>(keys) + head);
    // Two vectors a round: one load in flight a thread does not cover the latency of memory.
    const Offset half = Offset(gridDim.x) * kCountThreads, stride = 2 * half;
    const Offset lane = threadIdx.x % kWarpThreads;
    Offset warp_first = Offset(blockIdx.x) * kCountThreads + threadIdx.x - lane;
    for (; warp_first + kWarpThreads <= num_vectors; warp_first += stride) {
        const bool both = warp_first + half + kWarpThreads <= num_vectors;
        const Offset first = warp_first + lane, second = first + half;
        if (both) {
            const Vector loaded[] = {vectors[first], vectors[second]};
            const Offset places[] = {head + first * kKeys, head + second * kKeys};
            count_vectors<Source>(counters, buckets, loaded, places);
        } else {
            const Vector loaded[] = {vectors[first]};
            const Offset places[] = {head + first * kKeys};
            count_vectors<Source>(counters, buckets, loaded, places);
        }
    }
    // Whole warps of vectors are counted; block 0 counts what lies before, and after them.
    const Offset counted_end = head + num_vectors / kWarpThreads * kWarpThreads * kKeys;
    if (blockIdx.x == 0) {
        const auto count_one = [&](Offset i) {
            const typename Source::Code codes[] = {Source::load(keys, i, 0)};
            u32 fine[1];
            buckets.find(codes, fine);
            counters.add(fine[0], 1);
        };
        for (Offset i = threadIdx.x; i < head; i += kCountThreads) count_one(i);
        for (Offset i = counted_end + threadIdx.x; i < n; i += kCountThreads) count_one(i);
    }
    buckets.report(map);
    __syncthreads();  // all keys of the block are counted before the counters are added to the table
    counters.flush(num_buckets, kCountThreads);
}

constexpr int kScanThreads = 1024;

__device__ __forceinline__ Offset read_count(const u64* counts, bool wide, u32 bucket) {
    return wide ? counts[bucket] : reinterpret_cast<const u32*>(counts)[bucket];
}

// Exclusive scan of the counts, as starts and as cursors; `whole` (where wanted) becomes the segment of all keys. Block
// b scans buckets 1024 b and the following; it sums the earlier counts itself (they are in the second-level cache),
// which spares a second kernel.
__global__ void __launch_bounds__(kScanThreads)
    scan_fine(const u64* counts, u32 wide, u32 num_fine, Offset* starts, Offset* cursors, Segment* whole) {
    using Scan = LeanScan<Offset, kScanThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const u32 first = blockIdx.x * kScanThreads, f = first + threadIdx.x;
    Offset earlier = 0;
    for (u32 i = threadIdx.x; i < first; i += kScanThreads) earlier += read_count(counts, wide, i);
    Scan::exclusive(earlier, shared);
    const Offset before = shared.before[Scan::kWarps];
    __syncthreads();  // the sum is read before the storage is used again
    const Offset count = f < num_fine ? read_count(counts, wide, f) : 0;
    const Offset start = before + Scan::exclusive(count, shared);
    if (f >= num_fine) return;
    starts[f] = cursors[f] = start;
    if (f < num_fine - 1) return;
    starts[num_fine] = start + count;
    if (whole) {
        whole->start = whole->first_tile = whole->table = 0;
        whole->size = start + count;
    }
}

// One block: segment b is level-1 bucket b, whose cursors are those of its fine buckets.
template <int kTileKeys>
__global__ void __launch_bounds__(kScanThreads)
    describe_segments(const Offset* starts, u32 num_fine, u32 fine_bits, Offset* coarse_cursors, Segment* segments) {
    using Scan = LeanScan<Offset, kScanThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const u32 num_coarse = (num_fine + (1u << fine_bits) - 1) >> fine_bits;
    const u32 b = threadIdx.x;
    Offset start = 0, size = 0;
    if (b < num_coarse) {
        start = starts[b << fine_bits];
        size = starts[min((b + 1) << fine_bits, num_fine)] - start;
    }
    const Offset first_tile = Scan::exclusive((size + kTileKeys - 1) / kTileKeys, shared);
    if (b < num_coarse) {
        coarse_cursors[b] = start;
        Segment& segment = segments[b];
        segment.start = start;
        segment.size = size;
        segment.first_tile = first_tile;
        segment.table = Offset(b) << fine_bits;
    }
}

}  // namespace gpusort
