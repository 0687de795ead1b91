// Histograms of a whole array over fine buckets, and their scan into the tables of the partition passes.
//
//   keys (n) -> count_fine -> counts (F) -> scan_fine -> starts (F + 1), cursors (F)
//                                          describe_segments -> segments of the second level
//
// Satish, Harris and Garland (IPDPS 2009), section 4, steps 2 and 3, with one column: a tile of a partition claims its
// output range from one cursor a bucket (order within a bucket is free), so the table needs no column a tile.
#include "buckets/count.cuh"
#include "buckets/segment_digits.cuh"
#include "buckets/splitter_map.cuh"
#include "keys/elements.cuh"
#include "policy/sizes.cuh"
#include "primitives/block.cuh"

namespace gpusort {

// The code is the bucket, in a counting sort of 8- and 16-bit keys.
struct CodeBuckets {
    static constexpr int kSharedWords = 1;
    __device__ __forceinline__ CodeBuckets(const SplitterMap*, u32*) {}
    static __device__ __forceinline__ bool is_imbalanced(const SplitterMap*) { return false; }
    template <class Code, int kCodes>
    __device__ __forceinline__ void find(const Code (&codes)[kCodes], u32 (&buckets)[kCodes]) const {
#pragma unroll
        for (int k = 0; k < kCodes; ++k) buckets[k] = u32(codes[k]);
    }
    __device__ __forceinline__ void report(SplitterMap*) const {}
};

// The fine buckets of a splitter map. Also checks whether all codes of 64 bits are within 2^32 from the map's base on.
template <class Domain>
struct SplitterBuckets {
    static constexpr int kSharedWords = kMapWords;
    using Code = typename Domain::Code;
    SampledMap<Domain> map;
    u64 base;
    u32 beyond = 0;  // high words of all distances from the base

    __device__ __forceinline__ SplitterBuckets(const SplitterMap* splitters, u32* shared_intervals)
        : map(splitters, shared_intervals), base(splitters->base) {}
    static __device__ __forceinline__ bool is_imbalanced(const SplitterMap* splitters) {
        return splitters->flags.is_imbalanced;
    }
    template <int kCodes>
    __device__ __forceinline__ void find(const Code (&codes)[kCodes], u32 (&buckets)[kCodes]) {
#pragma unroll
        for (int k = 0; k < kCodes; ++k) {
            if constexpr (sizeof(Code) == sizeof(u64)) beyond |= u32((codes[k] - base) >> kPositionBits);
        }
        map.find(codes, buckets);
    }
    __device__ __forceinline__ void report(SplitterMap* splitters) const {
        if (beyond) splitters->is_too_wide = 1;
    }
};

// The block that counts its share of the keys, in vectors of 16 bytes. `head` keys precede the first aligned vector.
template <class Source, class Buckets>
struct FineCounter {
    using Raw = typename Source::Raw;
    using Code = typename Source::Code;
    using Vector = KeyVector<Raw>;
    static constexpr int kKeys = kVectorBytes / sizeof(Raw);

    const Raw* keys;
    Offset n;
    Buckets& buckets;
    PackedCounters counters;
    Offset head, num_vectors;

    __device__ __forceinline__ FineCounter(const void* keys_, Offset n_, Buckets& buckets_, PackedCounters counters_)
        : keys(static_cast<const Raw*>(keys_)), n(n_), buckets(buckets_), counters(counters_) {
        const Offset address = reinterpret_cast<Offset>(keys_);
        head = (kVectorBytes - address % kVectorBytes) % kVectorBytes / sizeof(Raw);
        head = head < n ? head : n;
        num_vectors = (n - head) / kKeys;
    }

    // Count vectors of each thread of a whole warp; `positions` of their first keys.
    template <int kVectors>
    __device__ __forceinline__ void count(const Vector (&vectors)[kVectors], const Offset (&positions)[kVectors]) {
        Code codes[kVectors * kKeys];
        u32 fine[kVectors * kKeys];
#pragma unroll
        for (int i = 0; i < kVectors * kKeys; ++i) {
            codes[i] = Source::encode(vectors[i / kKeys].keys[i % kKeys], positions[i / kKeys] + i % kKeys);
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

    // Count whole warps of vectors. Two vectors a round: one load in flight a thread does not cover the latency of
    // memory. The many wide codes of one vector of narrow keys do, and two such vectors would not fit the registers.
    __device__ __forceinline__ void count_vectors() {
        constexpr bool kPairs = kKeys * sizeof(Code) <= 4 * kVectorBytes;
        const Vector* vectors = reinterpret_cast<const Vector*>(keys + head);
        const Offset half = Offset(gridDim.x) * kFineCountThreads, stride = (1 + kPairs) * half;
        const Offset lane = threadIdx.x % kWarpThreads;
        Offset warp_first = Offset(blockIdx.x) * kFineCountThreads + threadIdx.x - lane;
        for (; warp_first + kWarpThreads <= num_vectors; warp_first += stride) {
            const bool both = kPairs && warp_first + half + kWarpThreads <= num_vectors;
            const Offset first = warp_first + lane, second = first + half;
            if (both) {
                const Vector loaded[] = {vectors[first], vectors[second]};
                const Offset positions[] = {head + first * kKeys, head + second * kKeys};
                count(loaded, positions);
            } else {
                const Vector loaded[] = {vectors[first]};
                const Offset positions[] = {head + first * kKeys};
                count(loaded, positions);
            }
        }
    }

    __device__ __forceinline__ void count_one(Offset i) {
        const Code codes[] = {Source::load(keys, i, 0)};
        u32 fine[1];
        buckets.find(codes, fine);
        counters.add(fine[0], 1);
    }
    // Count the keys before and after the whole warps of vectors; for one block.
    __device__ __forceinline__ void count_rest() {
        const Offset counted_end = head + num_vectors / kWarpThreads * kWarpThreads * kKeys;
        for (Offset i = threadIdx.x; i < head; i += kFineCountThreads) count_one(i);
        for (Offset i = counted_end + threadIdx.x; i < n; i += kFineCountThreads) count_one(i);
    }
};

// Count keys a bucket. A persistent grid: every block reads vectors a grid apart. Nothing is counted where the map is
// imbalanced: the host, which has not read the flag yet, will not use the counts.
template <class Source, class Buckets>
__global__ void __launch_bounds__(kFineCountThreads)
    count_fine(const void* keys, Offset n, SplitterMap* map, u64* counts, u32 wide, u32 num_buckets) {
    extern __shared__ __align__(16) u32 shared_words[];
    if (Buckets::is_imbalanced(map)) return;
    const PackedCounters counters{shared_words + Buckets::kSharedWords, counts, wide != 0};
    Buckets buckets(map, shared_words);
    for (u32 w = threadIdx.x; w < (num_buckets + 1) / 2; w += kFineCountThreads) counters.words[w] = 0;
    __syncthreads();  // counters are zero and the map is copied before keys are counted
    FineCounter<Source, Buckets> counter(keys, n, buckets, counters);
    counter.count_vectors();
    if (blockIdx.x == 0) counter.count_rest();
    buckets.report(map);
    __syncthreads();  // all keys of the block are counted before the counters are added to the table
    counter.counters.flush(num_buckets, kFineCountThreads);
}

constexpr int kScanThreads = 1024;

__device__ __forceinline__ Offset read_count(const u64* counts, bool wide, u32 bucket) {
    return wide ? counts[bucket] : reinterpret_cast<const u32*>(counts)[bucket];
}

// Exclusive scan of the counts, as starts and as cursors; `whole`, unless null, becomes the segment of all keys. Block b
// scans buckets 1024 b and the following. It sums the earlier counts itself (they are in the second-level cache), which
// saves a second kernel. A template is compiled only in programs that launch it.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    scan_fine(const u64* counts, u32 wide, u32 num_fine, Offset* starts, Offset* cursors, Segment* whole) {
    using Scan = BlockScan<Offset, kThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const u32 first = blockIdx.x * kThreads, f = first + threadIdx.x;
    Offset earlier = 0;
    for (u32 i = threadIdx.x; i < first; i += kThreads) earlier += read_count(counts, wide, i);
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

// One block: coarse bucket b becomes segment b, whose table row is the cursors of its fine buckets.
template <int kTileKeys>
__global__ void __launch_bounds__(kScanThreads)
    describe_segments(const Offset* starts, u32 num_fine, u32 fine_bits, Offset* coarse_cursors, Segment* segments) {
    using Scan = BlockScan<Offset, kScanThreads>;
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

// Counting sort, second half: write every code as often as it was counted.
//
//   starts (F + 1)  | 0 | 3 | 3 | 5 |            first position of code 0, 1, 2, ...
//   keys_out (n)      0 0 0   2 2   3 ...        decoded

constexpr int kFillThreads = 256;
constexpr int kFillRounds = 4;  // vectors a thread writes: they share the search for the codes at the tile's ends
constexpr int kFillVectorBytes = 16;

// Code at output position p, among codes [low, high].
__device__ __forceinline__ u32 find_code(const Offset* starts, u32 low, u32 high, Offset p) {
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (starts[middle] <= p) low = middle;
        else high = middle - 1;
    }
    return low;
}

// One vector of kKeys consecutive keys of the output, from position p on.
template <class Order>
struct RunFiller {
    using Raw = typename Order::Raw;
    static constexpr int kKeys = kFillVectorBytes / sizeof(Raw);
    struct alignas(kFillVectorBytes) Vector {
        Raw keys[kKeys];
    };

    const Offset* starts;
    Raw* keys_out;
    Offset n;
    bool is_aligned;

    __device__ __forceinline__ RunFiller(const Offset* starts_, Raw* keys_out_, Offset n_)
        : starts(starts_),
          keys_out(keys_out_),
          n(n_),
          is_aligned(reinterpret_cast<Offset>(keys_out_) % kFillVectorBytes == 0) {}

    // `first` and `last`: codes at the ends of the tile.
    __device__ __forceinline__ void fill(Offset p, u32 first, u32 last) const {
        u32 code = find_code(starts, first, last, p);
        Vector vector;
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            while (code < last && starts[code + 1] <= p + k) ++code;
            vector.keys[k] = Order::decode(Raw(code));
        }
        if (is_aligned && p + kKeys <= n) {
            *reinterpret_cast<Vector*>(keys_out + p) = vector;
        } else {
            for (int k = 0; k < kKeys && p + k < n; ++k) keys_out[p + k] = vector.keys[k];
        }
    }
};

template <class Order>
__global__ void __launch_bounds__(kFillThreads)
    fill_runs(const Offset* starts, u32 num_codes, typename Order::Raw* keys_out, Offset n) {
    using Filler = RunFiller<Order>;
    constexpr int kTileKeys = kFillThreads * kFillRounds * Filler::kKeys;
    __shared__ u32 ends[2];
    const Offset first = Offset(blockIdx.x) * kTileKeys;
    const Offset last = min(first + kTileKeys, n) - 1;
    if (threadIdx.x < 2) ends[threadIdx.x] = find_code(starts, 0, num_codes - 1, threadIdx.x == 0 ? first : last);
    __syncthreads();  // the codes at the tile's ends are known before the codes between them are searched
    const Filler filler(starts, keys_out, n);
    for (int round = 0; round < kFillRounds; ++round) {
        const Offset p = first + (round * kFillThreads + threadIdx.x) * Filler::kKeys;
        if (p >= n) return;
        filler.fill(p, ends[0], ends[1]);
    }
}

}  // namespace gpusort
