// Types, constants, the thread index, searches and sampled positions: what all device code shares.
#pragma once

namespace gpusort {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// A position in an array, or a number of its keys: 64 bits, since an array may hold more than 2^32 keys.
using Offset = u64;

// The type of the values where keys are sorted alone.
struct NoValue {};

template <class Value>
constexpr bool kHasValues = true;
template <>
constexpr bool kHasValues<NoValue> = false;

constexpr int kWarpThreads = 32;
constexpr u32 kWholeWarp = 0xFFFFFFFFu;

// Index of this thread in the grid, for kernels with one thread per element.
__device__ __forceinline__ Offset thread_of_grid() { return Offset(blockIdx.x) * blockDim.x + threadIdx.x; }

// Searches for the point where a predicate changes (std::partition_point), by a thread or by a warp.

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

// Stratified sampling: one sample in each of equal strata, at a hashed position inside it.

// Murmur3's 32-bit finalizer: every input bit reaches every output bit.
__device__ __forceinline__ u32 mix(u32 x) {
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ x >> 16;
}

// Position of sample j, the one in stratum j of `stratum` elements.
__device__ __forceinline__ Offset sample_position(u32 j, Offset stratum) { return j * stratum + mix(j) % stratum; }

}  // namespace gpusort
