// How far the lanes of a warp crowd on one digit: same-address atomics of shared memory run one after the other.
#pragma once
#include "primitives/scan.cuh"

namespace gpusort {

// Lanes of this warp that hold one digit, `hot`: the most frequent of those that `kProbes` lanes hold (a sample: to miss
// a more frequent one costs only time).
template <int kProbes>
__device__ __forceinline__ int count_most_frequent(unsigned digit, unsigned& hot) {
    int most = 0;
#pragma unroll
    for (int probe = 0; probe < kProbes; ++probe) {
        const unsigned asked = __shfl_sync(kWholeWarp, digit, probe * (kWarpThreads / kProbes));
        const int lanes = __popc(__ballot_sync(kWholeWarp, digit == asked));
        if (lanes > most) {
            most = lanes;
            hot = asked;
        }
    }
    return most;
}

}  // namespace gpusort
