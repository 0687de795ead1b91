// Merging listed runs, two by two: ragged, some empty, anywhere in memory. A round is one launch over all pairs.
//
//   runs       r0 | r1 | r2 | r3 | r4        pairs (num_pairs): host-made, as the sizes are known there
//   round 1    r0 + r1 | r2 + r3 | r4
//   round 2    r0 ... r3         | r4        equal keys in the order of the runs
#include "merge/merge_parts.cuh"

namespace gpusort {

// The pair of a part: the last that begins at or before it. Pairs of no keys have no part and are never last.
__device__ __forceinline__ Offset find_pair(const Pair* pairs, Offset num_pairs, Offset part) {
    Offset low = 0, high = num_pairs;
    while (high - low > 1) {
        const Offset middle = low + (high - low) / 2;
        if (pairs[middle].first_part <= part) low = middle;
        else high = middle;
    }
    return low;
}

template <class Code, class Value, class Less, int kPartKeys>
__global__ void __launch_bounds__(kPlanThreads)
    split_listed_runs(const Pair* pairs, Offset num_pairs, Part* parts, Offset num_parts) {
    const Offset part = part_of_thread();
    const Pair pair = pairs[find_pair(pairs, num_pairs, part)];
    plan_part<Code, Value, Less, kPartKeys>(pair, part, parts, num_parts);
}

}  // namespace gpusort
