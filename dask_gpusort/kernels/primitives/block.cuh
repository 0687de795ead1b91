// Scans and reductions of one value per thread, over a warp and over a block.
//
//   block scan   | t0 t1 t2 ... t31 | t32 ...      | ...     one value per thread
//                |  shuffles        |  shuffles    |         inclusive scan of each warp, in registers
//                |  warp total ──▶  |  warp total  |         shared; the first warp scans the totals
//                |  + sum of lower warps           |         one shared-memory read per thread
//
// Satish, Harris and Garland (IPDPS 2009, section 4) build the radix sort on this scan; its work is linear.
#pragma once
#include "primitives/basics.cuh"

namespace gpusort {

// Sum of the values of this lane and the lanes below it.
template <class T>
__device__ __forceinline__ T scan_warp_inclusive(T value) {
    const int lane = threadIdx.x % kWarpThreads;
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
        const T lower = __shfl_up_sync(kWholeWarp, value, distance);
        if (lane >= distance) value += lower;
    }
    return value;
}

template <class T, int kThreads>
struct BlockScan {
    static constexpr int kWarps = kThreads / kWarpThreads;
    static_assert(kThreads % kWarpThreads == 0, "the shuffles name every lane of a warp");
    static_assert(kWarps <= kWarpThreads, "one warp scans the totals of all warps");

    struct SharedStorage {
        T before[kWarps + 1];  // warp totals, then sums of the lower warps; last: the sum of all
    };

    // Sum of the values of the threads with lower ids. Contains two barriers; the caller puts another before the same
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

    // The same; `total` becomes the sum of all.
    static __device__ __forceinline__ T exclusive(T value, SharedStorage& shared, T& total) {
        const T lower = exclusive(value, shared);
        total = shared.before[kWarps];
        return lower;
    }
};

#if __CUDA_ARCH__ >= 800
// One instruction for 32 bits. Of wider values, the least high word decides, then the least low word beside it.
template <class T>
__device__ __forceinline__ T warp_min(T value) {
    if constexpr (sizeof(T) <= sizeof(u32)) {
        return T(__reduce_min_sync(kWholeWarp, u32(value)));
    } else {
        const u32 high = u32(value >> 32), least = __reduce_min_sync(kWholeWarp, high);
        return T(least) << 32 | __reduce_min_sync(kWholeWarp, high == least ? u32(value) : ~0u);
    }
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

__device__ __forceinline__ u32 warp_sum(u32 value) {
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}
#endif

template <class T>
__device__ __forceinline__ T warp_max(T value) {
    return T(~warp_min(T(~value)));
}

// Raises a maximum that many warps share. A stale value costs only an atomic that changes nothing.
__device__ __forceinline__ void raise_max(u64* greatest, u64 value) {
    if (value > *(volatile u64*)greatest) atomicMax(greatest, value);
}

// Counting the lanes of a warp that hold the same digit: where many do, one atomic for all of them saves the
// same-address atomics of shared memory, which run one after the other.

// Counts the lanes that hold `frequent`, the most frequent digit among kProbes probed lanes. Missing a more frequent
// one costs only speed.
template <int kProbes>
__device__ __forceinline__ int count_most_frequent(unsigned digit, unsigned& frequent) {
    int most = 0;
#pragma unroll
    for (int probe = 0; probe < kProbes; ++probe) {
        const unsigned probed = __shfl_sync(kWholeWarp, digit, probe * (kWarpThreads / kProbes));
        const int lanes = __popc(__ballot_sync(kWholeWarp, digit == probed));
        if (lanes > most) {
            most = lanes;
            frequent = probed;
        }
    }
    return most;
}

}  // namespace gpusort
