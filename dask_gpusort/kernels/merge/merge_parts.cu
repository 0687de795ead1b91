// Merges planned parts of runs, one a block: both pieces are read coalesced, merged in shared memory and written
// coalesced, so that a level of merging reads and writes every key once.
//
// Satish, Harris and Garland, IPDPS 2009, section 5: the parts merge independently, with the same parallelism at every
// level.
#include "merge/merge_parts.cuh"

namespace gpusort {

template <class Sink, class Code, class Value, class Less, int kThreads, int kItems, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) merge_parts(const Part* parts, void* keys_out, void* values_out) {
    using Tile = MergeTile<Code, Value, Less, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    const Part part = parts[blockIdx.x];
    const int count = int(part.a_count + part.b_count);
    Code codes[kItems];
    Value values[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i < count) load_element(part, u32(i), codes[k], values[k]);
    }
    Tile::put_striped(codes, values, count, shared);
    __syncthreads();  // both pieces are there before they are searched
    Tile::merge_share(shared, 0, int(part.a_count), count, min(Tile::strip(), count), codes, values);
    __syncthreads();  // both are read before the merged keys take their places
    Tile::put(codes, values, shared);
    __syncthreads();  // the part is complete before it is stored
    Tile::template store<Sink>(shared, count, keys_out, values_out, part.out);
}

}  // namespace gpusort
