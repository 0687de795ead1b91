// Domains: the space in which digits are cut. A domain gives every code a coordinate; any order-preserving one will do.
//
//   CodeDomain    the coordinate is the code (of a code packed with a position: its high word). Codes of floats are
//                 about logarithmic: half of all uniform floats in [0, 1) have the last of 127 exponents
//   ValueDomain   the coordinate is linear in the value: 0 at the least sampled value, 2^32 at the greatest
#pragma once
#include "keys/order.cuh"

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

}  // namespace gpusort
