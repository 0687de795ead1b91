// Batcher's odd-even merge sort as comparators, for any n: what would reach past the end is absent, since every
// comparator puts the lesser key at the lower place, where keys past the end, taken as greatest, never go.
//
//   p = 1      p = 2        p = 4                    runs of p keys are merged to runs of 2p; k: distance of a layer
//   k = 1      k = 2, 1     k = 4, 2, 1
//   0-1 2-3    0-2 1-3 ; 1-2     ...                 the same layers as dask_gpusort/network.py
//
// Batcher, Sorting networks and their applications (AFIPS 1968). Networks are not stable: compare (key, position).
#pragma once
#include "keys/less.cuh"

namespace gpusort {

// Lower place of comparator i of the layer (p, k): strips of k lower places, 2 k apart, from k % p on.
template <class Index>
__device__ __forceinline__ Index lower_place(Index i, Index p, Index k) {
    return k % p + i / k * 2 * k + i % k;
}

// Whether the layer has the comparator that begins at `low`: both ends exist, in one run of 2p.
template <class Index>
__device__ __forceinline__ bool has_comparator(Index low, Index p, Index k, Index n) {
    return low + k < n && low / (2 * p) == (low + k) / (2 * p);
}

// Exchanges two keys unless they are in order; with values, which are positions, equal keys are in order by these.
template <class Less, class Code, class Value, class Index>
__device__ __forceinline__ void exchange(Code* codes, Value* values, Index low, Index high) {
    const Code first = codes[low], second = codes[high];
    bool wrong = Less::less(second, first);
    if constexpr (kHasPayload<Value>) {
        if (!wrong && !Less::less(first, second)) wrong = values[high] < values[low];
    }
    if (!wrong) return;
    codes[low] = second;
    codes[high] = first;
    if constexpr (kHasPayload<Value>) {
        const Value value = values[low];
        values[low] = values[high];
        values[high] = value;
    }
}

}  // namespace gpusort
