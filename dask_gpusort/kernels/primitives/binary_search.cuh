// Searches for the point where a predicate changes (std::partition_point), by a thread or by a warp.
#pragma once
#include "primitives/types.cuh"

namespace gpusort {

// First index in [low, high] at which `is_before` is false; it is true for indices below it and false from it on.
// Whatever `is_before` returns, the result is in [low, high]. Bounds are below half the range of `Index`.
template <class Index, class Predicate>
__device__ __forceinline__ Index partition_point(Index low, Index high, Predicate is_before) {
    while (low < high) {
        const Index middle = (low + high) / 2;
        if (is_before(middle)) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The same by all lanes of a warp: each step reads 32 indices, and leaves a 33rd of the range.
template <class Index, class Predicate>
__device__ __forceinline__ Index partition_point_by_warp(Index low, Index high, Predicate is_before) {
    const int lane = threadIdx.x % kWarpThreads;
    while (low < high) {
        const Index probe = low + (high - low) * (lane + 1) / (kWarpThreads + 1);
        const int passed = __popc(__ballot_sync(kWholeWarp, is_before(probe)));
        const Index last_before = __shfl_sync(kWholeWarp, probe, passed > 0 ? passed - 1 : 0);
        const Index first_after = __shfl_sync(kWholeWarp, probe, passed < kWarpThreads ? passed : 0);
        if (passed > 0) low = last_before + 1;
        if (passed < kWarpThreads) high = first_after;
    }
    return low;
}

}  // namespace gpusort
