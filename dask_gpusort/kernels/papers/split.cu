// Blelloch's split; Satish, Harris and Garland (IPDPS 2009), section 4.1: a radix sort of one bit per pass, each of
// which splits the whole array.
//
//   rank of a key whose bit is 0:  its position - ones before it
//                             is 1:  n - all ones + ones before it
//
// Storing the scan of the n flags would take 8 bytes per key. It is computed in tiles instead:
//
//   count_ones    tile_ones (num_tiles + 1)     ones in each tile, and a last entry of 0
//   scan.cu       tile_ones                     ones before each tile; the last entry is the number of all ones
//   split_keys    in shared memory              ones before each key of the tile, then coalesced writes
#include "papers/split_tile.cuh"

namespace gpusort {

template <class Key, int kThreads, int kKeysPerThread>
__global__ void __launch_bounds__(kThreads) count_ones(const Key* keys, Offset n, int bit, Offset* tile_ones) {
    using Tile = SplitTile<Key, NoValue, kThreads, kKeysPerThread>;
    __shared__ typename Tile::Scan::SharedStorage shared;
    const Offset first = Offset(blockIdx.x) * Tile::kKeys;
    unsigned ones = 0;
    for (int i = threadIdx.x, valid = Tile::count_valid(n, first); i < valid; i += kThreads)
        ones += unsigned(keys[first + i] >> bit) & 1;
    unsigned all_ones;
    Tile::Scan::exclusive(ones, shared, all_ones);
    if (threadIdx.x != 0) return;
    tile_ones[blockIdx.x] = all_ones;
    if (blockIdx.x == gridDim.x - 1) tile_ones[gridDim.x] = 0;
}

template <class Key, class Value, int kThreads, int kKeysPerThread>
__global__ void __launch_bounds__(kThreads)
    split_keys(const Key* keys_in, const Value* values_in, Offset n, int bit, const Offset* ones_before_tile,
               Key* keys_out, Value* values_out) {
    using Tile = SplitTile<Key, Value, kThreads, kKeysPerThread>;
    __shared__ typename Tile::SharedStorage shared;
    const Offset first = Offset(blockIdx.x) * Tile::kKeys;
    const int valid = Tile::count_valid(n, first);
    Tile::load(keys_in, values_in, first, valid, shared);
    __syncthreads();  // the tile is loaded before it is split
    const int zeros = Tile::split(shared, valid, bit);
    __syncthreads();  // the split is complete before it is written out
    const Offset ones_before = ones_before_tile[blockIdx.x];
    const Offset first_zero = first - ones_before;
    const Offset first_one = n - ones_before_tile[gridDim.x] + ones_before;
    for (int i = threadIdx.x; i < valid; i += kThreads) {
        const Offset rank = i < zeros ? first_zero + i : first_one + (i - zeros);
        keys_out[rank] = shared.keys[i];
        if constexpr (kHasValues<Value>) values_out[rank] = shared.values[i];
    }
}

}  // namespace gpusort
