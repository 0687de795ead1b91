// Exclusive scans: of one value a thread, and of an array that many blocks share.
//
// Satish, Harris and Garland (IPDPS 2009, section 4) build the radix sort on these two; the work of both is linear
// in the number of values.
//
//   block   | t0 t1 t2 ... t31 | t32 ...      | ...     one value a thread
//           |  shuffles        |  shuffles    |         inclusive scan of each warp, in registers
//           |  warp total ──▶  |  warp total  |         shared; a thread adds the totals of the lower warps
//
//   array   | tile 0   | tile 1   | tile 2   |          values (n)
//           | sum      | sum      | sum      |          sum_tiles: one value a tile, scanned the same way
//           | scan from sum[tile]            |          scan_tiles: values (n), in place
#pragma once
#include "primitives/types.cuh"

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
    static_assert(kThreads % kWarpThreads == 0, "whole warps only: the shuffles name every lane");

    struct SharedStorage {
        T warp_totals[kWarps];
    };

    // Sum of the values of the threads with lower ids; `total` becomes the sum of all. Holds one barrier; the caller
    // puts another before the same storage is used again.
    static __device__ __forceinline__ T exclusive(T value, SharedStorage& shared, T& total) {
        const int warp = threadIdx.x / kWarpThreads;
        const T inclusive = scan_warp_inclusive(value);
        if (threadIdx.x % kWarpThreads == kWarpThreads - 1) shared.warp_totals[warp] = inclusive;
        __syncthreads();  // every warp's total is there before any is read
        T lower = 0;
        total = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            if (w == warp) lower = total;
            total += shared.warp_totals[w];
        }
        return lower + inclusive - value;
    }
};

// A tile of an array of 64-bit counts: kThreads strips of kValuesPerThread neighbours.
template <int kThreads, int kValuesPerThread>
struct ScanTile {
    static constexpr int kValues = kThreads * kValuesPerThread;
    using Scan = BlockScan<Offset, kThreads>;

    // Loads this thread's strip of the tile that starts at `first`, and gives its sum; past the end there is nothing
    // to add.
    static __device__ __forceinline__ Offset load(const Offset* values, Offset first, Offset n,
                                                  Offset (&strip)[kValuesPerThread]) {
        Offset sum = 0;
#pragma unroll
        for (int k = 0; k < kValuesPerThread; ++k) {
            const Offset i = first + threadIdx.x * kValuesPerThread + k;
            strip[k] = i < n ? values[i] : 0;
            sum += strip[k];
        }
        return sum;
    }

    // Replaces each value of the tile by `before` plus the sum of the tile's earlier values; gives the tile's sum.
    static __device__ __forceinline__ Offset scan(Offset* values, Offset first, Offset n, Offset before,
                                                  typename Scan::SharedStorage& shared) {
        Offset strip[kValuesPerThread];
        Offset total;
        Offset next = before + Scan::exclusive(load(values, first, n, strip), shared, total);
#pragma unroll
        for (int k = 0; k < kValuesPerThread; ++k) {
            const Offset i = first + threadIdx.x * kValuesPerThread + k;
            if (i < n) values[i] = next;
            next += strip[k];
        }
        return total;
    }
};

}  // namespace gpusort
