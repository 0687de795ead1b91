// The segment that a block works on. The tiles of all segments are numbered consecutively.
#pragma once
#include "buckets/segment_digits.cuh"

namespace gpusort {

// Index of the segment that holds a tile: the last one whose first tile is not after it. All threads search: first among
// strides of blockDim segments, then inside one stride; a third round is needed only past blockDim^2 segments.
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
