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

// Merging listed runs in pairs; runs may differ in length, be empty, and be anywhere in memory. A round is one launch
// over all pairs (merging.py).
//
//   runs       r0 | r1 | r2 | r3 | r4        pairs (num_pairs): made on the host, which knows the sizes
//   round 1    r0 + r1 | r2 + r3 | r4
//   round 2    r0 ... r3         | r4        equal keys in the order of the runs

// The pair of a part: the last one whose first part is at most that. Pairs of no keys have no part, and the next pair
// has the same first part.
__device__ __forceinline__ Offset find_pair(const Pair* pairs, Offset num_pairs, Offset part) {
    return partition_point(Offset(1), num_pairs, [&](Offset p) { return pairs[p].first_part <= part; }) - 1;
}

template <class Code, class Value, class Less, int kPartKeys>
__global__ void __launch_bounds__(kPlanThreads)
    split_listed_runs(const Pair* pairs, Offset num_pairs, Part* parts, Offset num_parts) {
    const Offset part = part_of_thread();
    const Pair pair = pairs[find_pair(pairs, num_pairs, part)];
    plan_part<Code, Value, Less, kPartKeys>(pair, part, parts, num_parts);
}

}  // namespace gpusort
