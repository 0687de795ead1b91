// Counting the lanes of a warp that hold the same digit: where many do, one atomic for all of them saves the
// same-address atomics of shared memory, which run one after the other.
#pragma once
#include "primitives/types.cuh"

namespace gpusort {

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
