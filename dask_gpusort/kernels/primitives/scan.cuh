// A tile of the exclusive scan of an array that many blocks share.
//
//   array   | tile 0   | tile 1   | tile 2   |          values (n)
//           | sum      | sum      | sum      |          sum_tiles: one value per tile, scanned the same way
//           | scan from sum[tile]            |          scan_tiles: values (n), in place
//
// Satish, Harris and Garland (IPDPS 2009, section 4); the work is linear in the number of values.
#pragma once
#include "primitives/block.cuh"

namespace gpusort {

// A tile of 64-bit counts: thread t scans the strip of kValuesPerThread neighbours from t * kValuesPerThread on.
template <int kThreads, int kValuesPerThread>
struct ScanTile {
    static constexpr int kValues = kThreads * kValuesPerThread;
    using Scan = BlockScan<Offset, kThreads>;

    // Loads this thread's strip of the tile at `first` and returns its sum; values past the end count as 0.
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

    // Replaces each value of the tile by `before` plus the sum of the tile's earlier values; returns the tile's sum.
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
