// 4-way merge for the merge sort: plan and merge (four_way_merge.cuh).
#include "merge/four_way_merge.cuh"

namespace gpusort {

// Plans parts of kPartKeys keys, each of four neighbouring runs; codes (n) in runs of `width` keys.
template <class Code, class Less, int kPartKeys>
__global__ void __launch_bounds__(kPlanThreads)
    split_four_runs(const Code* codes, Offset n, Offset width, FourWayPart* parts, Offset num_parts) {
    __shared__ Offset cuts[kPlanThreads][kWays];
    const Offset parts_of_four = (kWays * width + kPartKeys - 1) / kPartKeys;
    const Offset part = part_of_thread();
    const FourRuns runs(part / parts_of_four, width, n);
    const Offset rank = min(part % parts_of_four * kPartKeys, runs.size());
    const u32 size = u32(min(runs.size() - rank, Offset(kPartKeys)));
    FourWaySelection<Less, Code> selection(codes, runs);
    selection.select(rank);
    for (int r = 0; r < kWays; ++r) cuts[threadIdx.x][r] = selection.low[r];
    __syncthreads();  // every cut is there before the neighbour reads it
    if (threadIdx.x == kPlanThreads - 1 || part >= num_parts) return;
    const bool last = rank + size == runs.size();
    Offset next[kWays];
    for (int r = 0; r < kWays; ++r) next[r] = last ? runs.bounds[r + 1] : cuts[threadIdx.x + 1][r];
    parts[part] = make_four_way_part(runs, selection.low, next, runs.bounds[0] + rank, size);
}

// Merges one part per block. In round 1 no thread's strip may straddle the two merges, which leaves up to one thread's
// strip unused: a part has at most (kThreads - 1) kItems keys.
template <class Sink, class Code, class Value, class Less, int kThreads, int kItems, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    merge_four_way(const Code* codes_in, const Value* values_in, const FourWayPart* parts, void* keys_out,
                   void* values_out) {
    using Tile = MergeTile<Code, Value, Less, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const FourWayPart part = parts[blockIdx.x];
    const int middle = int(part.count[0] + part.count[1]);
    Tile tile(shared_bytes, middle + int(part.count[2] + part.count[3]));
    tile.for_each_striped(
        [&](int k, int i) { load_four_way_element(part, codes_in, values_in, u32(i), tile.codes[k], tile.values[k]); });
    tile.put_striped();
    const RunPair pair = first_round_pair<kItems>(part, middle, tile.count);
    __syncthreads();  // all slices are there before they are searched
    tile.merge(pair);
    __syncthreads();  // all slices are read before the merged pairs overwrite them
    tile.put_between(pair.first(), pair.end);
    __syncthreads();  // both merged pairs are there before they are searched
    tile.merge_whole(middle);
    __syncthreads();  // both merged pairs are read before the merged keys overwrite them
    tile.put_strip();
    __syncthreads();  // the part is complete before it is stored
    tile.template store<Sink>(keys_out, values_out, part.out);
}

}  // namespace gpusort
