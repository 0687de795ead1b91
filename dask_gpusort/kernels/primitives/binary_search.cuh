// Binary search for the point where a predicate changes (std::partition_point).
#pragma once

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

}  // namespace gpusort
