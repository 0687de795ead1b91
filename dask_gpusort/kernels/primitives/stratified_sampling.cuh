// Stratified sampling: one sample in each of equal strata, at a hashed position inside it.
#pragma once
#include "primitives/types.cuh"

namespace gpusort {

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
