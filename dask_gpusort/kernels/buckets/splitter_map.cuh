// Domains: the space in which digits are cut. A domain gives every code a coordinate; any order-preserving one will do.
//
//   CodeDomain    the coordinate is the code (of a code packed with a position: its high word). Codes of floats are
//                 about logarithmic: half of all uniform floats in [0, 1) have the last of 127 exponents
//   ValueDomain   the coordinate is linear in the value: 0 at the least sampled value, 2^32 at the greatest
#pragma once
#include "keys/order.cuh"
#include "policy/sizes.cuh"
#include "primitives/scan.cuh"

namespace gpusort {

template <bool kIsDouble>
struct RealOf {
    using Type = float;
};
template <>
struct RealOf<true> {
    using Type = double;
};

template <class Code, int kDropBits>
struct CoordinateOf {
    using Type = u32;
};
template <class Code>
struct CoordinateOf<Code, 0> {
    using Type = Code;
};

// value -> value * slope + offset, in [1, 2): the mantissa is the coordinate. Codes outside [least, greatest] are clamped.
struct LinearTransform {
    double slope, offset;
    u32 least, greatest;  // top words of the codes at both ends
};

template <class Code_, int kDropBits = 0>
struct CodeDomain {
    using Code = Code_;
    using Coordinate = typename CoordinateOf<Code_, kDropBits>::Type;
    static constexpr bool kByValue = false;
    static constexpr bool kIsCheap = true;  // cheaper to compute twice than to keep

    __device__ __forceinline__ explicit CodeDomain(const LinearTransform&) {}
    __device__ __forceinline__ Coordinate coordinate(Code code) const { return Coordinate(code >> kDropBits); }
};

// Floats of 32 or 64 bits, whose codes are the bits of `Code_` from kDropBits on. Only the top word of a double's code
// is used: otherwise the coordinate of a clamped code would depend on its low word.
template <class Code_, class Raw, bool kDescending, int kDropBits>
struct ValueDomain {
    using Code = Code_;
    using Coordinate = u32;
    using Floats = FloatOrder<Raw, kDescending>;
    static constexpr bool kByValue = true;
    static constexpr bool kIsDouble = sizeof(Raw) == sizeof(u64);
    static constexpr bool kIsCheap = kIsDouble;  // compared with the cost of moving codes of that width
    static constexpr int kTopBits = 32;
    static constexpr u32 kTopShift = u32(Floats::kShift >> (kBits<Raw> - kTopBits));
    static constexpr u32 kTopNumber = u32((Floats::kNumbers - 1) >> (kBits<Raw> - kTopBits));  // the greatest number's
    // The transform rounds. With an offset up to kMostOffset, this margin keeps its results inside [1, 2).
    static constexpr double kMargin = 1.0 / (1 << 18);
    static constexpr double kMostOffset = 16.0;
    static constexpr double kLeastRange = 1e-30;  // CuPy's -ftz=true flushes subnormal floats to zero

    using Real = typename RealOf<kIsDouble>::Type;

    Real slope, offset;
    u32 least, greatest;

    __device__ __forceinline__ explicit ValueDomain(const LinearTransform& transform)
        : slope(Real(transform.slope)),
          offset(Real(transform.offset)),
          least(transform.least),
          greatest(transform.greatest) {}

    static __device__ __forceinline__ u32 top(Code code) {
        return u32(Raw(code >> kDropBits) >> (kBits<Raw> - kTopBits));
    }
    // The value of a top word, with a low word of zero.
    static __device__ __forceinline__ Real value(u32 top) {
        const u32 ascending = kDescending ? kTopNumber - top : top;
        const u32 total_order = ascending + kTopShift;
        const u32 bits = total_order ^ (int(total_order) < 0 ? 1u << 31 : ~0u);
        if constexpr (kIsDouble) return __hiloint2double(int(bits), 0);
        else return __uint_as_float(bits);
    }
    __device__ __forceinline__ Coordinate coordinate(Code code) const {
        const u32 own = top(code);
        return coordinate_of_top(own < least ? least : own > greatest ? greatest : own);
    }
    // Of a top word in [least, greatest].
    __device__ __forceinline__ Coordinate coordinate_of_top(u32 inside) const {
        const Real found = fma(value(inside), slope, offset);
        if constexpr (kIsDouble) return u32(u64(__double_as_longlong(found)) >> (kMantissaBits<u64> - 32));
        else return __float_as_uint(found) << 9;
    }
    // Fit the transform to the range between two codes. Returns false where none is useful: one end is NaN, or the
    // values are so far from zero that their codes are spread as evenly.
    static __device__ __forceinline__ bool fit(Code first, Code last, LinearTransform& transform) {
        transform.least = top(first);
        transform.greatest = top(last);
        if (transform.greatest > kTopNumber) return false;
        const Real from = value(transform.least), range = value(transform.greatest) - from;
        if (!(fabs(range) > Real(kLeastRange) && fabs(range) < Real(1 / kLeastRange))) return false;
        const Real step = Real(1 - 4 * kMargin) / range, start = Real(1 + 2 * kMargin) - from * step;
        transform.slope = step;
        transform.offset = start;
        return fabs(start) < Real(kMostOffset);
    }
    // Whether the range between two codes holds more than one exponent: within one exponent, codes are linear in values.
    static __device__ __forceinline__ bool spans_exponents(Code first, Code last) {
        constexpr int kExponentShift = kMantissaBits<Raw> - (kBits<Raw> - kTopBits);
        return (top(first) ^ top(last)) >> kExponentShift != 0;
    }
};

// The splitter map: from codes to fine buckets of about equal size, by splitters of a sample.
//
// After the sample sort of Leischner, Osipov and Sanders (IPDPS 2010), but a key finds its bucket by one look-up and an
// interpolation, where theirs descends a search tree of splitters.
//
//   fine bucket                 The sampled range has 2^11 intervals of equal width. Each is cut into fine buckets in
//   |        .----              proportion to its share of the sample: equi-depth between intervals, linear inside an
//   |   .---'                   interval, clamped outside the range. An interval with a large share is cut into
//   |--'________ coordinate     subintervals first.
//
// A radix digit is the special case of a power-of-two width. Real keys are skewed (half of all uniform floats in [0, 1)
// share one exponent); any monotone map sorts, so digits need not be bits.

constexpr int kHalfBits = 16;  // an interval packs its first bucket and their number
constexpr u32 kHalfMask = (1u << kHalfBits) - 1;
// Value maps store both fields in eighths of a bucket, since sparse intervals span few buckets; an interval may span at
// most 2^10. Where values are more skewed than that, codes are mapped.
constexpr int kValueFraction = 3;
constexpr u32 kSubdivided = kHalfMask;  // in place of the number of buckets; the other half is the first subinterval

__device__ __forceinline__ int bit_length(u64 value) { return 64 - __clzll((long long)value); }

// What the host reads back of a map.
struct MapFlags {
    u32 is_uniform;     // the sample is uniform: buckets of equal width, found without the intervals
    u32 by_value;       // coordinates are those of ValueDomain
    u32 is_imbalanced;  // so many samples share so few buckets that a partition would gain nothing
    u32 is_narrow;      // the samples' codes are within 2^32 of each other
    u32 is_in_order;    // no sample falls behind the one before, or none rises
};

// What the host reads of a map, in the order in which it is known.
struct MapReadback {
    MapFlags flags;
    u32 is_too_wide;  // a code of some key is outside the 2^32 codes from `base` on
    u64 base;         // what narrow codes count from
};
constexpr int kMapFlagsBytes = 20;
static_assert(sizeof(MapFlags) == kMapFlagsBytes, "splitters.py reads so many bytes of a map");
constexpr int kNarrowBaseOffset = 20;
constexpr int kReadbackBytes = 32;
static_assert(sizeof(MapReadback) == kReadbackBytes, "splitters.py reads `is_too_wide` and `base` before this offset");

struct SplitterMap : MapReadback {
    u64 least;                  // coordinate at which interval 0 begins
    u64 range;                  // greatest coordinate covered, less `least`
    LinearTransform transform;  // to coordinates of values
    int width_bits;             // an interval covers 1 << width_bits coordinates
    u32 step;                   // of a uniform map: fine buckets a coordinate, times 2^(width_bits + kIntervalBits)
    u32 num_fine;               // fine buckets, at most 2^16
    u32 num_words;              // of `intervals` that are in use
    int sub_bits;               // a subdivided interval has 1 << sub_bits subintervals
    u32 padding;                // aligns the intervals to vectors
    u32 intervals[kMapWords];   // first bucket | number of buckets << 16
};
constexpr int kMapBytes = 96 + 4 * kMapWords;
static_assert(sizeof(SplitterMap) == kMapBytes, "splitters.py allocates maps of this size");

// Words that one access copies; the last vector may reach past the words in use.
struct alignas(16) WordVector {
    u32 words[kWordsPerVector];
};

__device__ __forceinline__ void copy_words(const u32* from, u32* to, u32 num_words) {
    const WordVector* vectors = reinterpret_cast<const WordVector*>(from);
    for (u32 v = threadIdx.x; v < (num_words + kWordsPerVector - 1) / kWordsPerVector; v += blockDim.x)
        reinterpret_cast<WordVector*>(to)[v] = vectors[v];
}

// Copy the intervals, if the map uses any, to shared memory; the caller's barrier comes after.
__device__ __forceinline__ void copy_intervals(const SplitterMap* map, u32* shared_intervals) {
    if (!map->flags.is_uniform) copy_words(map->intervals, shared_intervals, map->num_words);
}

// Bucket of a code in an interval; `part` is the fraction of the interval below the code, times 2^32.
template <int kFraction = 0>
__device__ __forceinline__ u32 interpolate(u32 interval, u32 part) {
    constexpr int kFirstBits = kHalfBits + kFraction;
    return ((interval & ((1u << kFirstBits) - 1)) + __umulhi(part, interval >> kFirstBits)) >> kFraction;
}

// Pack an interval with `own` samples after `before` others; `fraction` as in interpolate.
__device__ __forceinline__ u32 pack_interval(u32 before, u32 own, u32 num_samples, u32 num_buckets, int fraction = 0) {
    const u32 end = num_buckets << fraction, most = (kSubdivided >> fraction) - 1;
    const u32 first = u64(before) * end / num_samples, next = u64(before + own) * end / num_samples;
    return (first < end ? first : end - 1) | min(next - first, most) << (kHalfBits + fraction);
}

// The map as one thread uses it, over the coordinates of `Domain`.
template <class Domain>
struct FineMap {
    using Code = typename Domain::Code;
    using Coordinate = typename Domain::Coordinate;
    static constexpr int kCoordinateBits = int(sizeof(Coordinate)) * 8;
    Domain domain;
    Coordinate least, range;  // that the intervals cover; coordinates outside are clamped
    bool bounded;             // the intervals do not cover all coordinates
    int width_bits;
    u32 step;
    int sub_bits;
    const u32* intervals;

    // `base`: what narrow codes count from.
    __device__ __forceinline__ FineMap(const SplitterMap* map, const u32* intervals_, u64 base = 0)
        : domain(map->transform),
          least(Coordinate(map->least - base)),
          range(Coordinate(map->range)),
          width_bits(map->width_bits),
          step(map->step),
          sub_bits(map->sub_bits),
          intervals(intervals_) {
        bounded = least > 0 || range < Coordinate(~Coordinate(0));
    }
    // A distance from `least`, as a fraction of the range of all intervals, times 2^32.
    __device__ __forceinline__ u32 range_fraction(Coordinate distance) const {
        const int range_bits = width_bits + kIntervalBits;
        if constexpr (kCoordinateBits <= 32) return u32(distance) << (32 - range_bits);
        else return range_bits > 32 ? u32(distance >> (range_bits - 32)) : u32(distance) << (32 - range_bits);
    }
    // The fraction of its interval below a distance, times 2^32.
    __device__ __forceinline__ u32 interval_fraction(Coordinate distance) const {
        const Coordinate fraction = Coordinate(Coordinate(distance << 1) << (kCoordinateBits - 1 - width_bits));
        return kCoordinateBits > 32 ? u32(u64(fraction) >> 32) : u32(fraction);
    }
    // Distance of a code's coordinate from `least`, clamped to the range.
    __device__ __forceinline__ Coordinate distance(Code code) const {
        const Coordinate coordinate = domain.coordinate(code);
        if (!bounded) return coordinate;
        const Coordinate far = coordinate < least ? Coordinate(0) : Coordinate(coordinate - least);
        return far > range ? range : far;
    }
    // Fine bucket of a code, by a uniform map.
    __device__ __forceinline__ u32 uniform_bucket(Code code) const {
        return __umulhi(range_fraction(distance(code)), step);
    }
    // Fine bucket of a code, by the intervals.
    __device__ __forceinline__ u32 splitter_bucket(Code code) const {
        const Coordinate far = distance(code);
        u32 below = interval_fraction(far);
        u32 interval = intervals[u32(far >> width_bits)];
        if constexpr (Domain::kByValue) return interpolate<kValueFraction>(interval, below);
        if (interval >> kHalfBits == kSubdivided) {
            interval = intervals[(interval & kHalfMask) + (below >> (32 - sub_bits))];
            below <<= sub_bits;
        }
        return interpolate(interval, below);
    }
};

// A map of any kind, for kernels that are launched before the host knows the kind.
template <class Domain>
struct SampledMap {
    using Code = typename Domain::Code;
    FineMap<CodeDomain<Code>> by_code;
    FineMap<Domain> by_value;
    bool is_uniform, uses_values;

    // Copies the intervals into shared memory; the caller's barrier comes after.
    __device__ __forceinline__ SampledMap(const SplitterMap* map, u32* shared_intervals)
        : by_code(map, shared_intervals),
          by_value(map, shared_intervals),
          is_uniform(map->flags.is_uniform),
          uses_values(Domain::kByValue && map->flags.by_value) {
        copy_intervals(map, shared_intervals);
    }
    // Fine buckets of several codes. The kind is tested once for all, so that their look-ups overlap.
    template <int kCodes>
    __device__ __forceinline__ void find(const Code (&codes)[kCodes], u32 (&fine)[kCodes]) const {
        const auto each = [&](auto&& find_one) {
#pragma unroll
            for (int k = 0; k < kCodes; ++k) fine[k] = find_one(codes[k]);
        };
        if (uses_values) {
            if (is_uniform) each([&](Code code) { return by_value.uniform_bucket(code); });
            else each([&](Code code) { return by_value.splitter_bucket(code); });
        } else {
            if (is_uniform) each([&](Code code) { return by_code.uniform_bucket(code); });
            else each([&](Code code) { return by_code.splitter_bucket(code); });
        }
    }
    __device__ __forceinline__ u32 fine(Code code) const {
        const Code codes[] = {code};
        u32 found[1];
        find(codes, found);
        return found[0];
    }
};

}  // namespace gpusort
