// Segments: buckets (or rows) that one more level partitions, each by a map of its range.
#pragma once
#include "policy/sizes.cuh"
#include "buckets/linear_map.cuh"
#include "buckets/splitter_map.cuh"

namespace gpusort {

// How the digits of a segment are found.
enum SegmentMode : u32 {
    kBySplitters,  // by splitters of a sample of the segment
    kByWidth,      // digits of equal width: the sample is uniform
    kByCode,       // one code a digit: the range is short
    kByPosition,   // all codes are equal: digits of equal width over the positions, which break the ties
};

// Consecutive elements that are partitioned by one table row of cursors.
struct Segment {
    Offset start;
    Offset size;
    Offset first_tile;     // number of the segment's first tile, counted over the tiles of all segments
    Offset table;          // first cursor of the segment; its intervals begin at kIntervalsPerDigit times that
    u64 least_complement;  // of the codes: ~least and greatest, so that both are maxima from zero
    u64 greatest;
    u64 least_position_complement;  // the same of the positions, where they break ties
    u64 greatest_position;
    CoarseMap map;  // to digits; to intervals, where those are sampled
    u32 digits;     // none: all codes are equal, and there is nothing to sort
    SegmentMode mode;
};
constexpr int kSegmentBytes = 96;
static_assert(sizeof(Segment) == kSegmentBytes, "Python allocates segments of this size");

// Begin a segment whose range of codes is not measured yet.
__device__ __forceinline__ void begin_segment(Segment& segment, Offset start, Offset size) {
    segment.start = start;
    segment.size = size;
    segment.least_complement = segment.greatest = 0;
    segment.least_position_complement = segment.greatest_position = 0;
}

// The digits of one segment, as one thread uses them. kFilled: keys travel alone, so that a segment with one code a
// digit needs no partition (its counts are enough to write it).
template <class Code, bool kFilled>
struct SegmentDigits {
    static constexpr int kSharedWords = kSegmentMapWords;
    CoarseMap map;
    u32 digits;
    SegmentMode mode;
    const u32* intervals;  // in shared memory

    // Copies the intervals, where they are used, into shared memory; the caller's barrier comes after.
    __device__ __forceinline__ SegmentDigits(const void* all_intervals, const Segment* segment, u32, u64,
                                             u32* shared_words)
        : map(segment->map), digits(segment->digits), mode(segment->mode), intervals(shared_words) {
        if (mode != kBySplitters) return;
        const u32* row = static_cast<const u32*>(all_intervals) + segment->table * kIntervalsPerDigit;
        // An upper bound of the intervals in use.
        for (u32 i = threadIdx.x; i < digits * kIntervalsPerDigit; i += blockDim.x) shared_words[i] = row[i];
    }
    template <class Value>
    __device__ __forceinline__ u32 digit(Code code, Value value) const {
        if constexpr (sizeof(Value) == sizeof(u32)) {
            if (mode == kByPosition) return map.digit(value);
        }
        if (mode != kBySplitters) return map.digit(code);
        const u64 found = map.digit_and_fraction(code);
        return interpolate(intervals[u32(found >> 32)], u32(found));
    }
    __device__ __forceinline__ bool is_cheap() const { return mode != kBySplitters; }
    __device__ __forceinline__ bool is_empty() const { return digits == 0 || (kFilled && mode == kByCode); }
};

// The segment that a block works on. The tiles of all segments are numbered consecutively.

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
