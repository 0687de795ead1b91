// Scans and reductions of one value a thread over a block, with few shared-memory accesses a thread: warp totals are
// combined by one warp, and the others read one word each.
#pragma once
#include "primitives/scan.cuh"

namespace gpusort {

template <class T, int kThreads>
struct LeanScan {
    static constexpr int kWarps = kThreads / kWarpThreads;
    static_assert(kWarps <= kWarpThreads, "one warp scans the totals of all");

    struct SharedStorage {
        T before[kWarps + 1];  // totals of the warps, then sums of the lower ones; last: the sum of all
    };

    // Sum of the values of the threads with lower ids. Holds two barriers; the caller puts another before the same
    // storage is used again. shared.before[kWarps] becomes the sum of all.
    static __device__ __forceinline__ T exclusive(T value, SharedStorage& shared) {
        const int warp = threadIdx.x / kWarpThreads, lane = threadIdx.x % kWarpThreads;
        const T inclusive = scan_warp_inclusive(value);
        if (lane == kWarpThreads - 1) shared.before[warp] = inclusive;
        __syncthreads();  // every warp's total is there before they are scanned
        if (warp == 0) {
            const T total = lane < kWarps ? shared.before[lane] : T(0);
            const T up_to = scan_warp_inclusive(total);
            __syncwarp();  // all totals are read before they are overwritten
            if (lane < kWarps) shared.before[lane] = up_to - total;
            if (lane == kWarps - 1) shared.before[kWarps] = up_to;
        }
        __syncthreads();  // the sums of the lower warps are there before they are read
        return shared.before[warp] + inclusive - value;
    }
};

#if __CUDA_ARCH__ >= 800
// One instruction a word; wider values by their high words, and among the least of those by their low words.
template <class T>
__device__ __forceinline__ T warp_min(T value) {
    if constexpr (sizeof(T) <= sizeof(u32)) {
        return T(__reduce_min_sync(kWholeWarp, u32(value)));
    } else {
        const u32 high = u32(value >> 32), least = __reduce_min_sync(kWholeWarp, high);
        return T(least) << 32 | __reduce_min_sync(kWholeWarp, high == least ? u32(value) : ~0u);
    }
}

template <class T>
__device__ __forceinline__ T warp_max(T value) {
    return T(~warp_min(T(~value)));
}

__device__ __forceinline__ u32 warp_sum(u32 value) { return __reduce_add_sync(kWholeWarp, value); }
#else
template <class T>
__device__ __forceinline__ T warp_min(T value) {
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(kWholeWarp, value, distance);
        value = other < value ? other : value;
    }
    return value;
}

template <class T>
__device__ __forceinline__ T warp_max(T value) {
    return T(~warp_min(T(~value)));
}

__device__ __forceinline__ u32 warp_sum(u32 value) {
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}
#endif

// Raises a maximum that many warps share. A stale value only costs an atomic that changes nothing.
__device__ __forceinline__ void raise_max(u64* greatest, u64 value) {
    if (value > *(volatile u64*)greatest) atomicMax(greatest, value);
}

}  // namespace gpusort
