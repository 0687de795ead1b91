// Merges planned parts of runs, one per block: both slices are read coalesced, merged in shared memory and written
// coalesced, so that a level of merging reads and writes every key once.
//
// Satish, Harris and Garland (IPDPS 2009, section 5): the parts merge independently, with the same parallelism at every
// level.
#include "merge/merge_parts.cuh"

namespace gpusort {

template <class Sink, class Code, class Value, class Less, int kThreads, int kItems, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) merge_parts(const Part* parts, void* keys_out, void* values_out) {
    using Tile = MergeTile<Code, Value, Less, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const Part part = parts[blockIdx.x];
    Tile tile(shared_bytes, int(part.a_count + part.b_count));
    tile.for_each_striped([&](int k, int i) { load_element(part, u32(i), tile.codes[k], tile.values[k]); });
    tile.put_striped();
    __syncthreads();  // both slices are there before they are searched
    tile.merge_whole(int(part.a_count));
    __syncthreads();  // both slices are read before the merged keys overwrite them
    tile.put_strip();
    __syncthreads();  // the part is complete before it is stored
    tile.template store<Sink>(keys_out, values_out, part.out);
}

}  // namespace gpusort
