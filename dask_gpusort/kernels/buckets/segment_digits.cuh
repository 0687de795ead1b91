// Maps with digits of equal width over a range of codes, or of values.
//
//   LinearMap   over [least, greatest]; one code a digit (`exact`) where the range has no more codes than digits
//   CoarseMap   the same with a fraction inside the digit, for few digits
//   ValueMap    equal widths in value, for floats
#pragma once
#include "buckets/splitter_map.cuh"
#include "policy/sizes.cuh"

namespace gpusort {

constexpr float kTwoTo32 = 4294967296.0f;

struct LinearMap {
    static constexpr bool kTies = false;  // what breaks ties of codes has no part in the digit

    u64 least;
    int drop_bits;  // makes the range fit 32 bits, or fewer
    u32 slope;      // digits a code, times 2^32
    u32 exact;      // one code a digit

    template <class Code>
    __device__ __forceinline__ u32 digit(Code code) const {
        u32 distance;
        if constexpr (sizeof(Code) <= sizeof(u32)) distance = u32(code) - u32(least);
        else distance = u32((code - least) >> drop_bits);
        return exact ? distance : __umulhi(distance, slope);
    }
    template <class Code, class Value>
    __device__ __forceinline__ u32 digit(Code code, Value) const {
        return digit(code);
    }
    // The fraction of its digit below a code, times 2^32.
    template <class Code>
    __device__ __forceinline__ u32 fraction(Code code) const {
        return u32((u64(code) - least) >> drop_bits) * slope;
    }
    // The map of the range [least, greatest] to digits below `digits` (at least 2).
    static __device__ __forceinline__ LinearMap over(u64 least, u64 greatest, u32 digits) {
        return over_steps(least, greatest, digits, 32);
    }
    static __device__ __forceinline__ LinearMap over_steps(u64 least, u64 greatest, u32 digits, int distance_bits) {
        const u64 range = greatest - least;
        const int bits = bit_length(range);
        LinearMap map;
        map.least = least;
        map.drop_bits = bits > distance_bits ? bits - distance_bits : 0;
        const u64 steps = (range >> map.drop_bits) + 1;
        map.exact = range < digits;
        // Rounded down, so that no code gets a digit past the last. The 24 bits of a float are enough for digits of
        // nearly equal width, and a 64-bit division would cost a thread more than its keys do.
        map.slope =
            map.exact ? 0 : __float2uint_rz(__fdiv_rd(__uint2float_rd(digits) * kTwoTo32, __ull2float_ru(steps)));
        return map;
    }
};

// Distances of 24 bits make `slope` a large number, so that its rounding does not show even where digits are few.
struct CoarseMap : LinearMap {
    static constexpr int kDistanceBits = 24;

    // Digit and the fraction of it below the code, in the upper and the lower word.
    template <class Code>
    __device__ __forceinline__ u64 digit_and_fraction(Code code) const {
        return u64(u32(Code(code - Code(least)) >> drop_bits)) * slope;
    }
    template <class Code>
    __device__ __forceinline__ u32 digit(Code code) const {
        return exact ? u32(code) - u32(least) : u32(digit_and_fraction(code) >> 32);
    }
    static __device__ __forceinline__ CoarseMap over(u64 least, u64 greatest, u32 digits) {
        return {LinearMap::over_steps(least, greatest, digits, kDistanceBits)};
    }
};

// Digits of equal width between two values, for floats whose codes are in the domain's range.
template <class Domain>
struct ValueMap {
    using Code = typename Domain::Code;
    Domain domain;
    u32 digits;

    __device__ __forceinline__ u32 digit(Code code) const {
        return __umulhi(domain.coordinate_of_top(Domain::top(code)), digits);
    }
    // The fraction of its digit below a code, times 2^32.
    __device__ __forceinline__ u32 fraction(Code code) const {
        return domain.coordinate_of_top(Domain::top(code)) * digits;
    }
};

// Segments: buckets (or rows) that one more level partitions, each by a map of its range.

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
