// The segment a block works on, when the tiles of many segments are numbered through.
#pragma once
#include "buckets/digits.cuh"

namespace gpusort {

// Segment of this block's tile: the last one that begins at or before it. Two rounds of all threads: the strides of
// blockDim segments, then the segments of one stride; more only past blockDim^2 segments.
__device__ __forceinline__ u32 find_segment(const Segment* segments, u32 num_segments, Offset tile) {
    u32 first = 0, length = num_segments;
    while (length > 1) {
        const u32 stride = (length + blockDim.x - 1) / blockDim.x;
        const u32 s = threadIdx.x * stride;
        const u32 begun = __syncthreads_count(s < length && segments[first + s].first_tile <= tile);
        first += (begun - 1) * stride;
        length = min(stride, length - (begun - 1) * stride);
    }
    return first;
}

}  // namespace gpusort
