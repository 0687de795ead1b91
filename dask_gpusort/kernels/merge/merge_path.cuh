// Merge path: where two sorted runs are cut so that equal parts of the merged run can be made independently.
//
// Odeh, Green, Mwassi, Shmueli and Birk, "Merge Path - Parallel Merging Made Simple" (IPDPS workshops 2012); Green,
// McColl and Bader, "GPU Merge Path" (ICS 2012). It replaces the samples of Satish, Harris and Garland (IPDPS 2009,
// section 5), whose parts differ in size. The same search cuts runs of an array between blocks and runs of a tile
// between threads.
//
//          b0 b1 b2 b3      the merged run is a path from the upper left to the lower right: right takes from b,
//        +--+--+--+--+      down takes from a. On the diagonal d the path has taken d keys; it crosses where
//     a0 |  .  /            a[i - 1] <= b[d - i] and b[d - i - 1] < a[i]: at equal keys it goes down first, so
//     a1 |  /               that a's equal keys come before b's (stable).
//     a2 /
#pragma once
#include "primitives/binary_search.cuh"

namespace gpusort {

// Number of keys taken from `a` among the first `diagonal` of the merged run. Whatever the comparison returns, the
// result i has 0 <= i <= a_size and 0 <= diagonal - i <= b_size.
template <class Less, class Index, class Key>
__device__ __forceinline__ Index merge_path(const Key* a, Index a_size, const Key* b, Index b_size, Index diagonal) {
    const Index low = diagonal > b_size ? diagonal - b_size : 0;
    const Index high = diagonal < a_size ? diagonal : a_size;
    return partition_point(low, high, [&](Index i) { return !Less::less(b[diagonal - 1 - i], a[i]); });
}

// Merges kItems keys of the runs [a, middle) and [b, end) of one array, into registers; `from` gets their offsets. Past
// the end of both runs, `merged` holds anything, and `from` offsets of `end` or more.
template <class Less, int kItems, class Key>
__device__ __forceinline__ void merge_serially(const Key* keys, int a, int middle, int b, int end,
                                               Key (&merged)[kItems], int (&from)[kItems]) {
    Key a_key{}, b_key{};
    if (a < end) a_key = keys[a];
    if (b < end) b_key = keys[b];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const bool take_a = b >= end || (a < middle && !Less::less(b_key, a_key));
        merged[k] = take_a ? a_key : b_key;
        from[k] = take_a ? (a < middle ? a : end) : b;
        const int next = take_a ? ++a : ++b;
        if (k + 1 == kItems || next >= end) continue;
        if (take_a) a_key = keys[next];
        else b_key = keys[next];
    }
}

}  // namespace gpusort
