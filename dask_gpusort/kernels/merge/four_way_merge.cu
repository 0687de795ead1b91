// Four runs at a time, for the merge sort: plan and merge (see merge_four_way.cuh).
#include "merge/four_way_merge.cuh"

namespace gpusort {

// Parts of kPartKeys keys of each four runs; codes (n) in runs of `width` keys.
template <class Code, class Less, int kPartKeys>
__global__ void __launch_bounds__(kPlanThreads)
    split_quads(const Code* codes, Offset n, Offset width, FourWayPart* parts, Offset num_parts) {
    __shared__ Offset cuts[kPlanThreads][kWays];
    const Offset parts_of_quad = (kWays * width + kPartKeys - 1) / kPartKeys;
    const Offset part = part_of_thread();
    const Quad quad(part / parts_of_quad, width, n);
    const Offset rank = min(part % parts_of_quad * kPartKeys, quad.size());
    const u32 size = u32(min(quad.size() - rank, Offset(kPartKeys)));
    Offset first[kWays], next[kWays];
    select_first<Less>(codes, quad, rank, first);
    for (int r = 0; r < kWays; ++r) cuts[threadIdx.x][r] = first[r];
    __syncthreads();  // every cut is there before the neighbour reads it
    if (threadIdx.x == kPlanThreads - 1 || part >= num_parts) return;
    const bool last = rank + size == quad.size();
    for (int r = 0; r < kWays; ++r) next[r] = last ? quad.bounds[r + 1] : cuts[threadIdx.x + 1][r];
    parts[part] = make_four_way_part(quad, first, next, quad.bounds[0] + rank, size);
}

// Merges one part a block. Strips of round 1 do not straddle the two merges, so that one thread's strip is spare: a
// part has (kThreads - 1) kItems keys at most.
template <class Sink, class Code, class Value, class Less, int kThreads, int kItems, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    merge_four_way(const Code* codes_in, const Value* values_in, const FourWayPart* parts, void* keys_out,
                   void* values_out) {
    using Tile = MergeTile<Code, Value, Less, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    const FourWayPart part = parts[blockIdx.x];
    const int middle = int(part.count[0] + part.count[1]), count = middle + int(part.count[2] + part.count[3]);
    Code codes[kItems];
    Value values[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i < count) load_four_way_element(part, codes_in, values_in, u32(i), codes[k], values[k]);
    }
    Tile::put_striped(codes, values, count, shared);
    const int threads_of_ab = (middle + kItems - 1) / kItems;
    const bool of_ab = int(threadIdx.x) < threads_of_ab;
    const int a = of_ab ? 0 : middle, b = a + int(of_ab ? part.count[0] : part.count[2]), end = of_ab ? middle : count;
    const int diagonal = min((int(threadIdx.x) - (of_ab ? 0 : threads_of_ab)) * kItems, end - a);
    __syncthreads();  // all pieces are there before they are searched
    Tile::merge_share(shared, a, b, end, diagonal, codes, values);
    __syncthreads();  // all are read before the merged pairs take their places
    Tile::put_some(codes, values, a + diagonal, end, shared);
    __syncthreads();  // both pairs are there before they are searched
    Tile::merge_share(shared, 0, middle, count, min(Tile::strip(), count), codes, values);
    __syncthreads();  // both are read before the merged keys take their places
    Tile::put(codes, values, shared);
    __syncthreads();  // the part is complete before it is stored
    Tile::template store<Sink>(shared, count, keys_out, values_out, part.out);
}

}  // namespace gpusort
