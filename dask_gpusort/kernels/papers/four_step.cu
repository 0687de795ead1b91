// Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs" (IPDPS 2009), section 4.2: the
// four steps of one radix pass, one kernel each.
//
//   keys_in      (n)      | tile 0     | tile 1     | ...
//   1 sort_tiles          each tile by one digit, in shared memory, by kRadixBits splits
//   keys_sorted  (n)      | 0 0 1 3 3  | 0 1 1 2 3  | ...
//   2 count_buckets       table[digit * num_tiles + tile], column-major (radix x num_tiles)
//   3 scan (scan.cu)      table[...] = first global rank of the run of one digit in one tile
//   4 scatter_tiles       d = table[digit, tile] + i - begin of the digit's bucket in the tile
//   keys_out     (n)      | 0 0 0 | 1 1 1 | 2 | 3 3 3 |
//
// The keys of a bucket are neighbours in the sorted tile and in the output, so that the writes of step 4 are coalesced
// with at most one discontinuity per bucket. keys_out may be keys_in, which step 1 has read.
#include "papers/split_tile.cuh"

namespace gpusort {

template <class Key, class Value, int kThreads, int kKeysPerThread, int kRadixBits>
__global__ void __launch_bounds__(kThreads) sort_tiles(const Key* keys_in, const Value* values_in, Key* keys_sorted,
                                                       Value* values_sorted, Offset n, int shift) {
    using Tile = SplitTile<Key, Value, kThreads, kKeysPerThread>;
    __shared__ typename Tile::SharedStorage shared;
    const Offset first = Offset(blockIdx.x) * Tile::kKeys;
    const int valid = Tile::count_valid(n, first);
    Tile::load(keys_in, values_in, first, valid, shared);
    for (int bit = shift; bit < shift + kRadixBits; ++bit) {
        __syncthreads();  // the load or the previous split is complete before any key is read
        Tile::split(shared, valid, bit);
    }
    __syncthreads();  // the last split is complete before it is read
    for (int i = threadIdx.x; i < valid; i += kThreads) {
        keys_sorted[first + i] = shared.keys[i];
        if constexpr (kHasValues<Value>) values_sorted[first + i] = shared.values[i];
    }
}

template <class Key, int kThreads, int kKeysPerThread, int kRadixBits>
__global__ void __launch_bounds__(kThreads) count_buckets(const Key* keys_sorted, Offset n, int shift, Offset* table) {
    using Tile = SplitTile<Key, NoValue, kThreads, kKeysPerThread>;
    __shared__ typename Tile::SharedStorage shared;
    __shared__ Buckets<kRadixBits> buckets;
    const Offset first = Offset(blockIdx.x) * Tile::kKeys;
    const int valid = Tile::count_valid(n, first);
    Tile::load(keys_sorted, nullptr, first, valid, shared);
    buckets.template clear<kThreads>();
    __syncthreads();  // the tile is loaded and every bucket is empty before the buckets are found
    buckets.template find<kThreads>(shared.keys, valid, shift);
    __syncthreads();  // every bucket is found before its size is read
    buckets.template for_each_digit<kThreads>(
        [&](int digit) { table[Offset(digit) * gridDim.x + blockIdx.x] = buckets.end[digit] - buckets.begin[digit]; });
}

template <class Key, class Value, int kThreads, int kKeysPerThread, int kRadixBits>
__global__ void __launch_bounds__(kThreads)
    scatter_tiles(const Key* keys_sorted, const Value* values_sorted, Offset n, int shift, const Offset* table,
                  Key* keys_out, Value* values_out) {
    using Tile = SplitTile<Key, NoValue, kThreads, kKeysPerThread>;
    __shared__ typename Tile::SharedStorage shared;
    __shared__ Buckets<kRadixBits> buckets;
    __shared__ Offset ranks[1 << kRadixBits];  // of a digit's first key
    const Offset first = Offset(blockIdx.x) * Tile::kKeys;
    const int valid = Tile::count_valid(n, first);
    Tile::load(keys_sorted, nullptr, first, valid, shared);
    buckets.template for_each_digit<kThreads>(
        [&](int digit) { ranks[digit] = table[Offset(digit) * gridDim.x + blockIdx.x]; });
    __syncthreads();  // the tile and the ranks are loaded before they are used
    buckets.template find<kThreads>(shared.keys, valid, shift);
    __syncthreads();  // every bucket is found before ranks in it are computed
    for (int i = threadIdx.x; i < valid; i += kThreads) {
        const Key key = shared.keys[i];
        const int digit = digit_of<kRadixBits>(key, shift);
        const Offset rank = ranks[digit] + (i - buckets.begin[digit]);
        keys_out[rank] = key;
        if constexpr (kHasValues<Value>) values_out[rank] = values_sorted[first + i];
    }
}

}  // namespace gpusort
