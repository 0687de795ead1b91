// Histograms of the rows of a matrix over the digits of one quantile map, and their scan into the tables of the
// partition, whose segments are the rows.
//
//   keys (rows, length) -> count_rows -> counts (rows, digits) -> scan_rows -> cursors (rows, digits)
//                                                                             starts (rows * buckets + 1)
//                                                                             segments (rows)
//
// Few digits: lanes of a warp that shared their counters would wait for each other. So every lane has counters of its
// own, each digit's side by side, in as many banks.
#include "primitives/block.cuh"
#include "buckets/count.cuh"
#include "buckets/digits.cuh"

namespace gpusort {

constexpr int kRowThreads = 512;
constexpr int kRowRound = 2;  // vectors in flight a thread: one does not cover the latency of memory

// Replaces the counters of every digit by zeros, and adds their sums to the table.
__device__ __forceinline__ void flush_lanes(u32* counters, u32 num_digits, u32* counts) {
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

// A persistent grid: every block takes parts of rows, a grid apart; `num_items` are the parts of all rows. `counts` are
// zero. Nothing is counted where the map is of no use: the host learns so later.
template <class Source, class Domain>
__global__ void __launch_bounds__(kRowThreads)
    count_rows(const void* keys, Offset length, u32 parts, u32 num_items, const SplitterMap* map, u32 fine_bits,
               u32 num_digits, u32* counts) {
    using Raw = typename Source::Raw;
    using Vector = KeyVector<Raw>;
    constexpr int kKeys = kVectorBytes / sizeof(Raw);
    extern __shared__ __align__(16) u32 shared_words[];
    if (map->uneven) return;
    u32* counters = shared_words + kMapWords;
    const SampledMap<Domain> sampled(map, shared_words);
    for (u32 w = threadIdx.x; w < num_digits * kWarpThreads; w += kRowThreads) counters[w] = 0;
    __syncthreads();  // counters are zero and the map is copied before keys are counted
    const auto count = [&](const auto& loaded, Offset i) {
        constexpr int kLoaded = sizeof(loaded) / sizeof(Raw);
        typename Source::Code codes[kLoaded];
        u32 fine[kLoaded];
#pragma unroll
        for (int k = 0; k < kLoaded; ++k) codes[k] = Source::encode(loaded[k], i + k);
        sampled.find(codes, fine);
#pragma unroll
        for (int k = 0; k < kLoaded; ++k)
            atomicAdd(&counters[(fine[k] >> fine_bits) * kWarpThreads + threadIdx.x % kWarpThreads], 1u);
    };
    const auto count_one = [&](Raw key, Offset i) {
        const Raw keys_of_one[] = {key};
        count(keys_of_one, i);
    };
    const Offset part_keys = (length + parts - 1) / parts;
    for (u32 item = blockIdx.x; item < num_items; item += gridDim.x) {
        const u32 row = item / parts;
        const Offset begin = row * length + min(Offset(item % parts) * part_keys, length);
        const Offset end = min(begin + part_keys, (row + 1) * length);
        const Raw* first = static_cast<const Raw*>(keys) + begin;
        const Offset unaligned = (0 - reinterpret_cast<Offset>(first)) % kVectorBytes / sizeof(Raw);
        const u32 size = u32(end - begin), head = u32(min(unaligned, Offset(size)));
        const u32 num_vectors = (size - head) / kKeys;
        const Vector* vectors = reinterpret_cast<const Vector*>(first + head);
        for (u32 round = threadIdx.x; round < num_vectors; round += kRowRound * kRowThreads) {
            Vector loaded[kRowRound];
#pragma unroll
            for (int v = 0; v < kRowRound; ++v) {
                if (round + v * kRowThreads < num_vectors) loaded[v] = vectors[round + v * kRowThreads];
            }
#pragma unroll
            for (int v = 0; v < kRowRound; ++v) {
                if (round + v * kRowThreads >= num_vectors) break;
                const Offset i = begin + head + Offset(round + v * kRowThreads) * kKeys;
                count(loaded[v].keys, i);
            }
        }
        // What lies before the first whole vector, and after the last.
        const u32 tail = head + num_vectors * kKeys;
        if (threadIdx.x < head) count_one(first[threadIdx.x], begin + threadIdx.x);
        if (threadIdx.x < size - tail) count_one(first[tail + threadIdx.x], begin + tail + threadIdx.x);
        __syncthreads();  // the part is counted before its counts are added to the table
        flush_lanes(counters, num_digits, counts + Offset(row) * num_digits);
        __syncthreads();  // counters are zero before the next part is counted
    }
}

// A warp a row: places of its digits and of its buckets (`spread` digits each), and its segment, `tiles` of the
// partition long.
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
