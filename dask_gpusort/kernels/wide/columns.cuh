// The codes of a wide key's columns, their ranges, and the bit fields that words are made of.
#pragma once
#include "primitives/block.cuh"

namespace gpusort {

constexpr int kColumnThreads = 256;

// The range of a column's codes: the complement of the least code, the greatest code, and the bits in which any two
// codes differ. All three words are zero at first.
struct CodeRange {
    u64 least_complement = 0, greatest = 0, differing = 0;

    // `first` is any code of the column, the same for all threads.
    __device__ __forceinline__ void include(u64 code, u64 first) {
        least_complement = max(least_complement, ~code);
        greatest = max(greatest, code);
        differing |= code ^ first;
    }

    // Adds the ranges of all lanes of the warp to `range`, in device memory.
    __device__ __forceinline__ void merge_into(u64* range) {
        least_complement = warp_max(least_complement);
        greatest = warp_max(greatest);
#pragma unroll
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            differing |= __shfl_xor_sync(kWholeWarp, differing, distance);
        }
        if (threadIdx.x % kWarpThreads != 0) return;
        raise_max(&range[0], least_complement);
        raise_max(&range[1], greatest);
        if (differing & ~*(volatile u64*)&range[2]) atomicOr(&range[2], differing);
    }
};
constexpr int kRangeWords = 3;
static_assert(sizeof(CodeRange) == kRangeWords * sizeof(u64), "the host allocates ranges as words");

// A field of a word: `bits` bits of (code - least), from bit `shift` on. `mask` has as many low bits set.
struct BitField {
    u64 least, shift, mask, bits;

    __device__ __forceinline__ u64 extract(u64 code) const { return (code - least) >> shift & mask; }
    __device__ __forceinline__ u64 append(u64 word, u64 code) const {
        // A shift by all 64 bits is undefined; a field as wide as the word has nothing before it.
        return (bits < 64 ? word << bits : word) | extract(code);
    }
};

}  // namespace gpusort
