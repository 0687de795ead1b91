// Samples of keys that are in several parts: one of each stratum (stratified_sampling.cuh).
//
//   keys      | part 0    | part 1         | part 2  |      end to end
//   strata    |    |    |    |    |    |    |    |          a stratum may be in two parts
//   sample    one key of each
#include "primitives/stratified_sampling.cuh"

namespace gpusort {

// A thread a stratum, of those that overlap the part, which begins at `first` among all keys.
template <class Raw>
__global__ void draw_keys(const Raw* keys, Offset first, Offset length, Offset stratum, u32 begin, u32 end,
                          Raw* sample) {
    const u32 j = begin + blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= end) return;
    const Offset position = sample_position(j, stratum);
    if (first <= position && position < first + length) sample[j] = keys[position - first];
}

}  // namespace gpusort
