// Harada and Howes, "Introduction to GPU radix sort", section 3: count, prefix scan and reorder, the three kernels of
// one pass over 4 bits. The array is cut into sections, one for each block that the GPU runs at once, so that the table
// is small enough for one block to scan it:
//
//   keys_in   (n)   | section 0: tile, tile, tile | section 1: tile, tile, tile | ...    one block a section
//   count_sections        table[digit * num_sections + section], column-major, so that
//   scan_in_one_block     (scan.cu) is equation 1: o = keys of lower digits + equal digits of lower sections
//   reorder_sections      tile after tile, sorted in shared memory by 2 bits twice, then written to
//   keys_out  (n)         d = i - lo + o, equation 2; o grows by the tile's counts
#include "papers/count_scan_reorder.cuh"

namespace gpusort {

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
