// Histograms of the rows of a matrix over the digits of one splitter map, and their scan into the tables of the
// partition, whose segments are the rows.
//
//   keys (rows, length) -> count_rows -> counts (rows, digits) -> scan_rows -> cursors (rows, digits)
//                                                                             starts (rows * buckets + 1)
//                                                                             segments (rows)
//
// Digits are few, so lanes of a warp that shared counters would often add to the same address, which serializes them.
// Every lane therefore has its own counter of each digit, in its own bank.
#include "primitives/block.cuh"
#include "keys/elements.cuh"
#include "buckets/count.cuh"
#include "buckets/segment_digits.cuh"
#include "buckets/splitter_map.cuh"

namespace gpusort {

constexpr int kRowThreads = 512;
constexpr int kRowRound = 2;  // vectors in flight a thread: one does not cover the latency of memory

// The block that counts parts of rows.
template <class Source, class Domain>
struct RowCounter {
    using Raw = typename Source::Raw;
    using Vector = KeyVector<Raw>;
    static constexpr int kKeys = kVectorBytes / sizeof(Raw);

    const Raw* keys;
    const SampledMap<Domain>& map;
    u32 fine_bits, num_digits;
    u32* counters;  // shared, [digit][lane]

    __device__ __forceinline__ void clear() {
        for (u32 w = threadIdx.x; w < num_digits * kWarpThreads; w += kRowThreads) counters[w] = 0;
    }

    // Count the keys of one thread, at consecutive positions from i on.
    template <int kLoaded>
    __device__ __forceinline__ void count(const Raw (&loaded)[kLoaded], Offset i) {
        typename Source::Code codes[kLoaded];
        u32 fine[kLoaded];
#pragma unroll
        for (int k = 0; k < kLoaded; ++k) codes[k] = Source::encode(loaded[k], i + k);
        map.find(codes, fine);
#pragma unroll
        for (int k = 0; k < kLoaded; ++k)
            atomicAdd(&counters[(fine[k] >> fine_bits) * kWarpThreads + threadIdx.x % kWarpThreads], 1u);
    }
    __device__ __forceinline__ void count_one(Raw key, Offset i) {
        const Raw keys_of_one[] = {key};
        count(keys_of_one, i);
    }

    // Count consecutive vectors; `i` is the position of the first key.
    __device__ __forceinline__ void count_vectors(const Vector* vectors, u32 num_vectors, Offset i) {
        for (u32 round = threadIdx.x; round < num_vectors; round += kRowRound * kRowThreads) {
            Vector loaded[kRowRound];
#pragma unroll
            for (int v = 0; v < kRowRound; ++v) {
                if (round + v * kRowThreads < num_vectors) loaded[v] = vectors[round + v * kRowThreads];
            }
#pragma unroll
            for (int v = 0; v < kRowRound; ++v) {
                if (round + v * kRowThreads >= num_vectors) break;
                count(loaded[v].keys, i + Offset(round + v * kRowThreads) * kKeys);
            }
        }
    }

    // Count the keys at positions [begin, end).
    __device__ __forceinline__ void count_part(Offset begin, Offset end) {
        const Raw* first = keys + begin;
        const Offset unaligned = (0 - reinterpret_cast<Offset>(first)) % kVectorBytes / sizeof(Raw);
        const u32 size = u32(end - begin), head = u32(min(unaligned, Offset(size)));
        const u32 num_vectors = (size - head) / kKeys;
        count_vectors(reinterpret_cast<const Vector*>(first + head), num_vectors, begin + head);
        // The keys before the first whole vector, and after the last.
        const u32 tail = head + num_vectors * kKeys;
        if (threadIdx.x < head) count_one(first[threadIdx.x], begin + threadIdx.x);
        if (threadIdx.x < size - tail) count_one(first[tail + threadIdx.x], begin + tail + threadIdx.x);
    }

    // Add the counters to a row of the table, and clear them.
    __device__ __forceinline__ void flush(u32* counts) {
        for (u32 d = threadIdx.x; d < num_digits; d += kRowThreads) {
            u32 sum = 0;
#pragma unroll 8
            for (u32 l = 0; l < kWarpThreads; ++l) {
                u32& counter = counters[d * kWarpThreads + (l + d) % kWarpThreads];  // neighbours read other banks
                sum += counter;
                counter = 0;
            }
            if (sum > 0) atomicAdd(&counts[d], sum);
        }
    }
};

// Count keys a digit of each row. A persistent grid: every block takes parts of rows, a grid apart; `num_items` is the
// number of parts of all rows. `counts` are zero. Nothing is counted where the map is imbalanced: the host, which has not
// read the flag yet, will not use the counts.
template <class Source, class Domain>
__global__ void __launch_bounds__(kRowThreads)
    count_rows(const void* keys, Offset length, u32 parts, u32 num_items, const SplitterMap* map, u32 fine_bits,
               u32 num_digits, u32* counts) {
    using Raw = typename Source::Raw;
    extern __shared__ __align__(16) u32 shared_words[];
    if (map->flags.is_imbalanced) return;
    const SampledMap<Domain> sampled(map, shared_words);
    RowCounter<Source, Domain> counter{static_cast<const Raw*>(keys), sampled, fine_bits, num_digits,
                                       shared_words + kMapWords};
    counter.clear();
    __syncthreads();  // counters are zero and the map is copied before keys are counted
    const Offset part_keys = (length + parts - 1) / parts;
    for (u32 item = blockIdx.x; item < num_items; item += gridDim.x) {
        const u32 row = item / parts;
        const Offset begin = row * length + min(Offset(item % parts) * part_keys, length);
        counter.count_part(begin, min(begin + part_keys, (row + 1) * length));
        __syncthreads();  // the part is counted before its counts are added to the table
        counter.flush(counts + Offset(row) * num_digits);
        __syncthreads();  // counters are zero before the next part is counted
    }
}

// A warp a row: first output positions of its digits and of its buckets (`spread` digits each), and its segment, which
// takes `tiles` tiles of the partition.
__global__ void scan_rows(const u32* counts, u32 num_rows, Offset length, u32 num_digits, u32 spread, u32 tiles,
                          Offset* cursors, Offset* starts, Segment* segments) {
    const u32 row = (blockIdx.x * blockDim.x + threadIdx.x) / kWarpThreads, lane = threadIdx.x % kWarpThreads;
    if (row >= num_rows) return;  // the whole warp leaves
    const Offset table = Offset(row) * num_digits;
    Offset before = row * length;
    for (u32 first = 0; first < num_digits; first += kWarpThreads) {
        const u32 d = first + lane;
        const u32 count = d < num_digits ? counts[table + d] : 0;
        const u32 up_to = scan_warp_inclusive(count);
        const Offset start = before + up_to - count;
        if (d < num_digits) cursors[table + d] = start;
        if (d < num_digits && d % spread == 0) starts[(table + d) / spread] = start;
        before += __shfl_sync(kWholeWarp, up_to, kWarpThreads - 1);
    }
    if (lane > 0) return;
    if (row == num_rows - 1) starts[(table + num_digits) / spread] = before;
    Segment& segment = segments[row];
    segment.start = row * length;
    segment.size = length;
    segment.first_tile = Offset(row) * tiles;
    segment.table = table;
}

}  // namespace gpusort
