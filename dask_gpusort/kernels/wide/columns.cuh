// The code of a wide key's column, and the range that a column's codes are in.
#pragma once
#include "primitives/block.cuh"
#include "keys/order.cuh"

namespace gpusort {

constexpr int kColumnThreads = 256;  // COLUMN_THREADS in columns.py

__device__ __forceinline__ Offset thread_of_grid() { return Offset(blockIdx.x) * blockDim.x + threadIdx.x; }

// Canonical float codes without the gap that the other zero leaves between negative and positive numbers, and with NaN
// in a place of its own: so that whole numbers, whose mantissas end in zeros, share the low bits of their codes.
template <class Raw, bool kDescending>
__device__ __forceinline__ Raw close_gap(Raw code) {
    using Floats = FloatOrder<Raw, kDescending>;
    if (code >= Floats::kNumbers) return Raw(Floats::kNumbers - 2 + (Raw(1) << kMantissaBits<Raw>));
    return code > Floats::kNegativeZero ? Raw(code - 1) : code;
}

template <class Order>
struct ColumnCode {
    static __device__ __forceinline__ u64 of(typename Order::Raw key) { return Order::canonical(Order::encode(key)); }
};

template <class Raw, bool kDescending>
struct ColumnCode<KeyOrder<Raw, Kind::kFloat, kDescending>> {
    static __device__ __forceinline__ u64 of(Raw key) {
        using Floats = FloatOrder<Raw, kDescending>;
        return close_gap<Raw, kDescending>(Floats::canonical(Floats::encode(key)));
    }
};

// What a column's codes lie in, as three words that start as zeros: the complement of the least code, the greatest, and
// the bits in which any two codes differ. (Whole numbers held as floats share most of their low bits.)
struct CodeRange {
    u64 least_complement = 0, greatest = 0, differing = 0;

    // `first` is one code of the column, the same in all threads.
    __device__ __forceinline__ void include(u64 code, u64 first) {
        least_complement = max(least_complement, ~code);
        greatest = max(greatest, code);
        differing |= code ^ first;
    }

    // Widens the range in device memory by those of a whole warp.
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

// A share of a word: bits of (code - least), from bit `drop` on, that `mask` keeps.
__device__ __forceinline__ u64 share_of(u64 code, u64 least, u64 drop, u64 mask) {
    return (code - least) >> drop & mask;
}

}  // namespace gpusort
