// Where samples are taken: one in each of equal stretches, at a hashed place in it.
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

// Coordinate of sample j, of one from every `stretch` elements.
__device__ __forceinline__ Offset sample_place(u32 j, Offset stretch) { return j * stretch + mix(j) % stretch; }

}  // namespace gpusort
