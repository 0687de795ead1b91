// Monotone maps from codes to digits: what a most-significant-digit pass partitions by.
//
// A radix digit is the special case of a power-of-two width. Real keys crowd (half of all uniform floats in [0, 1)
// share one exponent), so the passes use other monotone maps, and any monotone map sorts:
//
//   SplitterMap   fine bucket                     2^11 equal intervals of the sampled range, each cut into as many
//                 |        .----                  fine buckets as its share of the sample asks for; linear inside
//                 |   .---'                       an interval, clamped outside of the range. Intervals that hold a
//                 |--'________ place              large share are cut into intervals once more
//   domains        where a code stands before it is mapped: at its own place, or a float at that of its value, since
//                 floats that are uniform or normal are uneven as codes and even as values
//   CoarseMap     two intervals a digit of one segment, or its digits; cut no further
//   LinearMap     digits of equal width over a range [least, greatest]; one code a digit (`exact`) when the range has
//                 no more codes than digits
#pragma once
#include "keys/order.cuh"
#include "buckets/domain.cuh"
#include "primitives/scan.cuh"

namespace gpusort {

constexpr int kIntervalBits = 11;  // 8 KiB of shared memory; 128 samples each of 2^18
constexpr int kIntervals = 1 << kIntervalBits;
constexpr int kSubIntervals = 1 << 11;  // of all skewed intervals together
constexpr int kMapWords = kIntervals + kSubIntervals;
constexpr int kHalfBits = 16;  // an interval packs its first bucket and their number
constexpr u32 kHalfMask = (1u << kHalfBits) - 1;
// Of values both are counted in eighths of a bucket: where they are rare an interval has a few buckets and a half. So
// none may have more than 2^10, and where values crowd codes are taken.
constexpr int kValueFraction = 3;
constexpr u32 kSubdivided = kHalfMask;  // in place of a number of buckets; the first word of its intervals beside it

__device__ __forceinline__ int bit_length(u64 value) { return 64 - __clzll((long long)value); }

struct SplitterMap {
    u64 least;             // place at which interval 0 begins
    u64 range;             // distance of the last place from it
    LinearTransform line;  // to places of values
    int width_bits;        // an interval covers 1 << width_bits places
    u32 step;              // of a plain map: fine buckets a place, times 2^(width_bits + kIntervalBits)
    u32 num_fine;          // fine buckets, at most 2^16
    u32 num_words;         // of `intervals` that are in use
    int sub_bits;          // a subdivided interval has 1 << sub_bits of its own
    u32 plain;             // the sample is uniform: equal buckets, found without the intervals
    u32 by_value;          // places are those of values
    u32 uneven;            // so many samples share so few buckets that partitions would gain nothing
    u32 narrow;            // the samples' codes lie within 2^32
    u32 strayed;           // where they do: some other code lies outside of the 2^32 from `base` on
    u64 base;
    u64 unused;                // so that the intervals are aligned to vectors
    u32 intervals[kMapWords];  // first bucket | number of buckets << 16
};
static_assert(sizeof(SplitterMap) == 96 + 4 * kMapWords, "histogram.py allocates maps by this size");

// Words that one access copies; the last ones may be past those in use.
struct alignas(16) WordVector {
    u32 words[4];
};
constexpr int kWordsPerVector = 4;

__device__ __forceinline__ void copy_words(const u32* from, u32* to, u32 num_words) {
    const WordVector* vectors = reinterpret_cast<const WordVector*>(from);
    for (u32 v = threadIdx.x; v < (num_words + kWordsPerVector - 1) / kWordsPerVector; v += blockDim.x)
        reinterpret_cast<WordVector*>(to)[v] = vectors[v];
}

// The intervals of a map into shared memory, where the map has any; the caller's barrier comes after.
__device__ __forceinline__ void copy_intervals(const SplitterMap* map, u32* shared_intervals) {
    if (!map->plain) copy_words(map->intervals, shared_intervals, map->num_words);
}

// Bucket of a code in an interval: `part` is the share of the interval below the code, of 2^32.
template <int kFraction = 0>
__device__ __forceinline__ u32 interpolate(u32 interval, u32 part) {
    constexpr int kFirstBits = kHalfBits + kFraction;
    return ((interval & ((1u << kFirstBits) - 1)) + __umulhi(part, interval >> kFirstBits)) >> kFraction;
}

// An interval, packed, from the numbers of samples before it and in it; `fraction` as of interpolate.
__device__ __forceinline__ u32 pack_interval(u32 before, u32 own, u32 num_samples, u32 num_buckets, int fraction = 0) {
    const u32 end = num_buckets << fraction, most = (kSubdivided >> fraction) - 1;
    const u32 first = u64(before) * end / num_samples, next = u64(before + own) * end / num_samples;
    return (first < end ? first : end - 1) | min(next - first, most) << (kHalfBits + fraction);
}

// The map, as one thread uses it: of codes that stand where `Domain` puts them.
template <class Domain>
struct FineMap {
    using Code = typename Domain::Code;
    using Coordinate = typename Domain::Coordinate;
    static constexpr int kCoordinateBits = int(sizeof(Coordinate)) * 8;
    Domain domain;
    Coordinate least, range;  // that the intervals cover; codes outside count as those at its ends
    bool bounded;             // not all places are covered
    int width_bits;
    u32 step;
    int sub_bits;
    const u32* intervals;

    // `base`: what narrow codes count from.
    __device__ __forceinline__ FineMap(const SplitterMap* map, const u32* intervals_, u64 base = 0)
        : domain(map->line),
          least(Coordinate(map->least - base)),
          range(Coordinate(map->range)),
          width_bits(map->width_bits),
          step(map->step),
          sub_bits(map->sub_bits),
          intervals(intervals_) {
        bounded = least > 0 || range < Coordinate(~Coordinate(0));
    }
    // Distance from the least place, as a fraction of the range of all intervals, of 2^32.
    __device__ __forceinline__ u32 position(Coordinate distance) const {
        const int range_bits = width_bits + kIntervalBits;
        if constexpr (kCoordinateBits <= 32) return u32(distance) << (32 - range_bits);
        else return range_bits > 32 ? u32(distance >> (range_bits - 32)) : u32(distance) << (32 - range_bits);
    }
    // The part of its interval below a place, as a fraction of 2^32.
    __device__ __forceinline__ u32 part(Coordinate distance) const {
        const Coordinate fraction = Coordinate(Coordinate(distance << 1) << (kCoordinateBits - 1 - width_bits));
        return kCoordinateBits > 32 ? u32(u64(fraction) >> 32) : u32(fraction);
    }
    // Distance of the code, as the map takes it, from the least place.
    __device__ __forceinline__ Coordinate distance(Code code) const {
        const Coordinate place = domain.place(code);
        if (!bounded) return place;
        const Coordinate far = place < least ? Coordinate(0) : Coordinate(place - least);
        return far > range ? range : far;
    }
    // Fine bucket of a code: of a plain map; of any other.
    __device__ __forceinline__ u32 fine_plain(Code code) const { return __umulhi(position(distance(code)), step); }
    __device__ __forceinline__ u32 fine_by_share(Code code) const {
        const Coordinate far = distance(code);
        u32 below = part(far);
        u32 interval = intervals[u32(far >> width_bits)];
        if constexpr (Domain::kHasValues) return interpolate<kValueFraction>(interval, below);
        if (interval >> kHalfBits == kSubdivided) {
            interval = intervals[(interval & kHalfMask) + (below >> (32 - sub_bits))];
            below <<= sub_bits;
        }
        return interpolate(interval, below);
    }
};

// The map that the sample asks for, for kernels that run before the host knows which.
template <class Domain>
struct SampledMap {
    using Code = typename Domain::Code;
    FineMap<CodeDomain<Code>> by_code;
    FineMap<Domain> by_value;
    bool plain, values;

    // Copies the intervals into shared memory; the caller's barrier comes after.
    __device__ __forceinline__ SampledMap(const SplitterMap* map, u32* shared_intervals)
        : by_code(map, shared_intervals),
          by_value(map, shared_intervals),
          plain(map->plain),
          values(Domain::kHasValues && map->by_value) {
        copy_intervals(map, shared_intervals);
    }
    // Fine buckets of several codes: the kind is asked for once, so that their look-ups are on their way together.
    template <int kCodes>
    __device__ __forceinline__ void find(const Code (&codes)[kCodes], u32 (&fine)[kCodes]) const {
        const auto each = [&](auto&& find_one) {
#pragma unroll
            for (int k = 0; k < kCodes; ++k) fine[k] = find_one(codes[k]);
        };
        if (values) {
            if (plain) each([&](Code code) { return by_value.fine_plain(code); });
            else each([&](Code code) { return by_value.fine_by_share(code); });
        } else {
            if (plain) each([&](Code code) { return by_code.fine_plain(code); });
            else each([&](Code code) { return by_code.fine_by_share(code); });
        }
    }
    __device__ __forceinline__ u32 fine(Code code) const {
        const Code codes[] = {code};
        u32 found[1];
        find(codes, found);
        return found[0];
    }
};

constexpr float kTwoTo32 = 4294967296.0f;

struct LinearMap {
    static constexpr bool kTies = false;  // what breaks them is not looked at

    u64 least;
    int drop_bits;  // makes the range fit 32 bits, or fewer
    u32 domain;     // digits per code, times 2^32
    u32 exact;      // one code a digit

    template <class Code>
    __device__ __forceinline__ u32 digit(Code code) const {
        u32 distance;
        if constexpr (sizeof(Code) <= sizeof(u32)) distance = u32(code) - u32(least);
        else distance = u32((code - least) >> drop_bits);
        return exact ? distance : __umulhi(distance, domain);
    }
    template <class Code, class Value>
    __device__ __forceinline__ u32 digit(Code code, Value) const {
        return digit(code);
    }
    // Coordinate inside the digit, as a fraction of 2^32.
    template <class Code>
    __device__ __forceinline__ u32 fraction(Code code) const {
        return u32((u64(code) - least) >> drop_bits) * domain;
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
        // Rounded down, so that no code gets a digit past the last; a float's 24 bits are enough for digits of even
        // width, and a 64-bit division would cost a thread more than its keys do.
        map.domain =
            map.exact ? 0 : __float2uint_rz(__fdiv_rd(__uint2float_rd(digits) * kTwoTo32, __ull2float_ru(steps)));
        return map;
    }
};

// Digits of equal width between two values, of floats whose codes lie between theirs.
template <class Domain>
struct ValueMap {
    using Code = typename Domain::Code;
    Domain domain;
    u32 digits;

    __device__ __forceinline__ u32 digit(Code code) const {
        return __umulhi(domain.place_of(Domain::top(code)), digits);
    }
    // Coordinate inside the digit, as a fraction of 2^32.
    __device__ __forceinline__ u32 fraction(Code code) const { return domain.place_of(Domain::top(code)) * digits; }
};

// A linear map whose digits are as wide as they should be even if they are few: `domain` is a large number.
struct CoarseMap : LinearMap {
    static constexpr int kDistanceBits = 24;

    template <class Code>
    __device__ __forceinline__ u64 position(Code code) const {
        return u64(u32(Code(code - Code(least)) >> drop_bits)) * domain;
    }
    template <class Code>
    __device__ __forceinline__ u32 digit(Code code) const {
        return exact ? u32(code) - u32(least) : u32(position(code) >> 32);
    }
    static __device__ __forceinline__ CoarseMap over(u64 least, u64 greatest, u32 digits) {
        return {LinearMap::over_steps(least, greatest, digits, kDistanceBits)};
    }
};

// How the digits of a segment are found.
enum SegmentMode : u32 {
    kByShare,     // a sampled map: even children whatever the codes are
    kByWidth,     // digits of equal width: the sample is uniform
    kByCode,      // one code a digit: the range is short
    kByPosition,  // all codes are equal and positions break the ties: digits of equal width over the positions
};

constexpr u32 kMaxSegmentDigits = 512;  // one digit a thread of the partition
constexpr u32 kIntervalsPerDigit = 2;   // a digit strays from its share by what lies unevenly in half of it

// Consecutive elements that are partitioned by one table row of cursors.
struct Segment {
    Offset start;
    Offset size;
    Offset first_tile;     // number of the segment's first tile among the tiles of all segments
    Offset table;          // first cursor of the segment; its intervals begin at kIntervalsPerDigit times that
    u64 least_complement;  // of the codes: ~least and greatest, so that both are maxima from zero
    u64 greatest;
    u64 least_position_complement;  // the same of the positions, where they break ties
    u64 greatest_position;
    CoarseMap map;  // to digits; to intervals of a sampled map
    u32 digits;     // none: all codes are equal, and nothing is left to sort
    SegmentMode mode;
};
static_assert(sizeof(Segment) == 96, "msd.py allocates segments by this size");

// The digits of one segment, as one thread uses them. Segments of one code a digit need no partition where keys travel
// alone (kFilled): their counts say all.
template <class Code, bool kFilled>
struct SegmentDigits {
    static constexpr int kSharedWords = kMaxSegmentDigits * kIntervalsPerDigit;
    CoarseMap map;
    u32 digits;
    SegmentMode mode;
    const u32* intervals;  // in shared memory

    // Copies the intervals into shared memory where they are needed; the caller's barrier comes after.
    __device__ __forceinline__ SegmentDigits(const void* all_intervals, const Segment* segment, u32, u64,
                                             u32* shared_words)
        : map(segment->map), digits(segment->digits), mode(segment->mode), intervals(shared_words) {
        if (mode != kByShare) return;
        const u32* row = static_cast<const u32*>(all_intervals) + segment->table * kIntervalsPerDigit;
        // As many are in use as the map has digits, and no more than this.
        for (u32 i = threadIdx.x; i < digits * kIntervalsPerDigit; i += blockDim.x) shared_words[i] = row[i];
    }
    template <class Value>
    __device__ __forceinline__ u32 digit(Code code, Value value) const {
        if constexpr (sizeof(Value) == sizeof(u32)) {
            if (mode == kByPosition) return map.digit(value);
        }
        if (mode != kByShare) return map.digit(code);
        const u64 position = map.position(code);
        return interpolate(intervals[u32(position >> 32)], u32(position));
    }
    __device__ __forceinline__ bool is_cheap() const { return mode != kByShare; }
    __device__ __forceinline__ bool is_empty() const { return digits == 0 || (kFilled && mode == kByCode); }
};

}  // namespace gpusort
