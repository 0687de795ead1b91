// Batcher, "Sorting networks and their applications" (AFIPS 1968): odd-even merge sort as comparators, for any n. Each
// comparator leaves the lesser key at the lower position. Comparators that reach past the end are left out: keys there,
// taken as the greatest, would never move.
//
//   p = 1      p = 2        p = 4                    runs of p keys are merged to runs of 2p; k: span of a comparator
//   k = 1      k = 2, 1     k = 4, 2, 1
//   0-1 2-3    0-2 1-3 ; 1-2     ...                 the same layers as dask_gpusort/network.py
//
// Networks are not stable: compare (key, position).
#pragma once
#include "keys/less.cuh"

namespace gpusort {

// Lower position of comparator i in layer (p, k): strips of k lower positions begin at k % p and every 2 k from there.
template <class Index>
__device__ __forceinline__ Index lower_position(Index i, Index p, Index k) {
    return k % p + i / k * 2 * k + i % k;
}

// Whether layer (p, k) has a comparator at `low`: both its ends exist, in the same run of 2p keys.
template <class Index>
__device__ __forceinline__ bool has_comparator(Index low, Index p, Index k, Index n) {
    return low + k < n && low / (2 * p) == (low + k) / (2 * p);
}

// Exchanges two keys that are out of order. Values, if any, are positions, and order equal keys.
template <class Less, class Code, class Value, class Index>
__device__ __forceinline__ void exchange(Code* codes, Value* values, Index low, Index high) {
    const Code first = codes[low], second = codes[high];
    bool wrong = Less::less(second, first);
    if constexpr (kHasValues<Value>) {
        if (!wrong && !Less::less(first, second)) wrong = values[high] < values[low];
    }
    if (!wrong) return;
    codes[low] = second;
    codes[high] = first;
    if constexpr (kHasValues<Value>) {
        const Value value = values[low];
        values[low] = values[high];
        values[high] = value;
    }
}

}  // namespace gpusort
