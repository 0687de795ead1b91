// Harada and Howes, "Introduction to GPU radix sort", section 3: count, prefix scan and reorder, the three kernels of
// one pass over 4 bits. The array is cut into sections, one for each block that the GPU runs at once, so that the table
// is small enough for one block to scan it:
//
//   keys_in   (n)   | section 0: tile, tile, tile | section 1: tile, tile, tile | ...    one block a section
//   count_sections        table[digit * num_sections + section], column-major, so that
//   scan_in_one_block     (scan.cu) is equation 1: o = keys of lower digits + equal digits of lower sections
//   reorder_sections      tile after tile, sorted in shared memory by 2 bits twice, then written to
//   keys_out  (n)         d = i - lo + o, equation 2; o grows by the tile's counts
#include "papers/split_tile.cuh"

namespace gpusort {

// Harada and Howes, "Introduction to GPU radix sort", sections 3.1 and 3.3: packed counters, four 8-bit counts in one
// 32-bit word, so that one scan counts all four values of 2 bits.
//
//   word   | count of 3 | count of 2 | count of 1 | count of 0 |       8 bits each
//
// A count must stay below 256. The paper's tile has 256 keys, and 256 equal keys would overflow a counter. Here a word
// is scanned inside one warp (32 lanes x 4 keys = 128), and the counts of the warps are unpacked before they are added,
// so that tiles may hold 256 to 1024 keys.

constexpr int kPackedBits = 8;                           // of one counter
constexpr int kPackedCounters = 4;                       // in one word
constexpr int kPackedLimit = (1 << kPackedBits) - 1;     // the most one counter holds
constexpr int kPackedDigitBits = 2;                      // a digit with kPackedCounters values
constexpr int kReorderRadixBits = 2 * kPackedDigitBits;  // a pass sorts each tile by 2 bits twice
constexpr int kReorderRadix = 1 << kReorderRadixBits;
constexpr int kReorderKeysPerThread = 4;

__device__ __forceinline__ unsigned packed_one(int counter) { return 1u << kPackedBits * counter; }

__device__ __forceinline__ int unpack(unsigned word, int counter) {
    return int(word >> kPackedBits * counter) & kPackedLimit;
}

// Counters of every thread for the digits of one section, in shared memory: one row of words for each kPackedCounters
// digits, so that neighbouring threads count in neighbouring banks.
template <int kThreads>
struct PackedCounts {
    // Keys that a thread may count before a counter can overflow.
    static constexpr int kKeysBeforeFlush = kPackedLimit;
    unsigned words[kReorderRadix / kPackedCounters][kThreads];

    __device__ __forceinline__ void clear_mine() {
        for (auto& row : words) row[threadIdx.x] = 0;
    }

    __device__ __forceinline__ void count(int digit) {
        words[digit / kPackedCounters][threadIdx.x] += packed_one(digit % kPackedCounters);
    }

    __device__ __forceinline__ int sum_over_threads(int digit) const {
        int sum = 0;
        for (int t = 0; t < kThreads; ++t) sum += unpack(words[digit / kPackedCounters][t], digit % kPackedCounters);
        return sum;
    }
};

// A tile that is sorted by 2 bits at a time with packed counters.
template <class Key, class Value, int kThreads>
struct PackedTile {
    using Tile = SplitTile<Key, Value, kThreads, kReorderKeysPerThread>;
    static constexpr int kWarps = kThreads / kWarpThreads;
    static constexpr int kKeys = Tile::kKeys;
    static constexpr int kWarpCounts = kPackedCounters * kWarps;
    static_assert(kWarpCounts <= kWarpThreads, "one warp scans the counts of all warps: at most 256 threads");
    static_assert(kWarpThreads * kReorderKeysPerThread <= kPackedLimit, "a warp's keys fit one counter");

    struct SharedStorage {
        typename Tile::SharedStorage tile;
        int warp_begins[kWarpCounts];  // [value * kWarps + warp], column-major as equation 1 wants
    };

    // The first warp scans the counts of all warps (exclusive).
    static __device__ __forceinline__ void scan_warp_counts(SharedStorage& shared) {
        if (threadIdx.x >= kWarpThreads) return;
        const int count = threadIdx.x < kWarpCounts ? shared.warp_begins[threadIdx.x] : 0;
        const int inclusive = scan_warp_inclusive(count);
        if (threadIdx.x < kWarpCounts) shared.warp_begins[threadIdx.x] = inclusive - count;
    }

    // Sorts the tile by the 2 bits at `shift`, stably. The caller puts a barrier before it, after the last write of the
    // tile, and one after it.
    static __device__ __forceinline__ void sort(SharedStorage& shared, int valid, int shift) {
        Key keys[kReorderKeysPerThread];
        Value values[kReorderKeysPerThread];
        const int first = threadIdx.x * kReorderKeysPerThread;
        const int warp = threadIdx.x / kWarpThreads;
        unsigned counts = 0;
#pragma unroll
        for (int k = 0; k < kReorderKeysPerThread; ++k) {
            if (first + k >= valid) break;
            keys[k] = shared.tile.keys[first + k];
            if constexpr (kHasValues<Value>) values[k] = shared.tile.values[first + k];
            counts += packed_one(digit_of<kPackedDigitBits>(keys[k], shift));
        }
        const unsigned inclusive = scan_warp_inclusive(counts);
        if (threadIdx.x % kWarpThreads == kWarpThreads - 1)
            for (int v = 0; v < kPackedCounters; ++v) shared.warp_begins[v * kWarps + warp] = unpack(inclusive, v);
        __syncthreads();  // all counts are there before they are scanned; every key is in a register
        scan_warp_counts(shared);
        __syncthreads();  // the scan is complete before it is read
        scatter(shared, valid, shift, keys, values, inclusive - counts);
    }

    // Writes this thread's keys to their ranks: the warp's begin, plus `before`, the equal digits of lower lanes and of
    // earlier keys.
    static __device__ __forceinline__ void scatter(SharedStorage& shared, int valid, int shift,
                                                   const Key (&keys)[kReorderKeysPerThread],
                                                   const Value (&values)[kReorderKeysPerThread], unsigned before) {
        const int first = threadIdx.x * kReorderKeysPerThread;
        const int warp = threadIdx.x / kWarpThreads;
#pragma unroll
        for (int k = 0; k < kReorderKeysPerThread; ++k) {
            if (first + k >= valid) break;
            const int digit = digit_of<kPackedDigitBits>(keys[k], shift);
            const int rank = shared.warp_begins[digit * kWarps + warp] + unpack(before, digit);
            shared.tile.keys[rank] = keys[k];
            if constexpr (kHasValues<Value>) shared.tile.values[rank] = values[k];
            before += packed_one(digit);
        }
    }
};

template <class Key, int kThreads>
__global__ void __launch_bounds__(kThreads)
    count_sections(const Key* keys, Offset n, Offset section_keys, int shift, Offset* table) {
    using Counts = PackedCounts<kThreads>;
    constexpr Offset kKeysBeforeFlush = Offset(kThreads) * Counts::kKeysBeforeFlush;
    __shared__ Counts counts;
    const Offset first = blockIdx.x * section_keys;
    const Offset last = min(first + section_keys, n);
    Offset total = 0;  // keys with digit threadIdx.x
    for (Offset begin = first; begin < last; begin += kKeysBeforeFlush) {
        counts.clear_mine();
        const Offset end = min(begin + kKeysBeforeFlush, last);
        for (Offset i = begin + threadIdx.x; i < end; i += kThreads)
            counts.count(digit_of<kReorderRadixBits>(keys[i], shift));
        __syncthreads();  // every thread has counted before the counters are added up
        if (threadIdx.x < kReorderRadix) total += counts.sum_over_threads(threadIdx.x);
        __syncthreads();  // the counters are added up before they are cleared
    }
    if (threadIdx.x < kReorderRadix) table[Offset(threadIdx.x) * gridDim.x + blockIdx.x] = total;
}

template <class Key, class Value, int kThreads>
__global__ void __launch_bounds__(kThreads)
    reorder_sections(const Key* keys_in, const Value* values_in, Offset n, Offset section_keys, int shift,
                     const Offset* table, Key* keys_out, Value* values_out) {
    using Packed = PackedTile<Key, Value, kThreads>;
    __shared__ typename Packed::SharedStorage shared;
    __shared__ Buckets<kReorderRadixBits> buckets;
    __shared__ Offset ranks[kReorderRadix];  // of a digit's next key
    const int mine = threadIdx.x;            // the digit whose rank this thread advances
    if (mine < kReorderRadix) ranks[mine] = table[Offset(mine) * gridDim.x + blockIdx.x];
    const Offset last = min((blockIdx.x + 1) * section_keys, n);
    for (Offset first = blockIdx.x * section_keys; first < last; first += Packed::kKeys) {
        const int valid = Packed::Tile::count_valid(last, first);
        Packed::Tile::load(keys_in, values_in, first, valid, shared.tile);
        buckets.template clear<kThreads>();
        __syncthreads();  // the tile is loaded before it is sorted
        Packed::sort(shared, valid, shift);
        __syncthreads();  // the first 2 bits are sorted before the next are read
        Packed::sort(shared, valid, shift + kPackedDigitBits);
        __syncthreads();  // the tile is sorted, and every bucket empty, before the buckets are found
        buckets.template find<kThreads>(shared.tile.keys, valid, shift);
        __syncthreads();  // the buckets are found and the ranks advanced before keys are scattered
        for (int i = threadIdx.x; i < valid; i += kThreads) {
            const Key key = shared.tile.keys[i];
            const int digit = digit_of<kReorderRadixBits>(key, shift);
            const Offset rank = ranks[digit] + (i - buckets.begin[digit]);
            keys_out[rank] = key;
            if constexpr (kHasValues<Value>) values_out[rank] = shared.tile.values[i];
        }
        __syncthreads();  // all keys are scattered before the ranks advance and the tile is overwritten
        if (mine < kReorderRadix) ranks[mine] += buckets.end[mine] - buckets.begin[mine];
    }
}

}  // namespace gpusort
