// Merging listed runs in pairs; runs may differ in length, be empty, and be anywhere in memory. A round is one launch
// over all pairs (merging.py).
//
//   runs       r0 | r1 | r2 | r3 | r4        pairs (num_pairs): made on the host, which knows the sizes
//   round 1    r0 + r1 | r2 + r3 | r4
//   round 2    r0 ... r3         | r4        equal keys in the order of the runs
#include "merge/merge_parts.cuh"

namespace gpusort {

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
