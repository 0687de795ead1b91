// Where a code stands on the line that a map of digits cuts: any order-preserving place will do.
//
//   CodeDomain    its own place (of a code packed with a position: that of its high word). Floats stand there by their logarithms, so to say: half of those in [0, 1) have the
//                last of 127 exponents
//   ValueDomain   the place of its value on the way from the least to the greatest sampled one, in parts of 2^32
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

// value -> value * slope + offset, in [1, 2): its mantissa is the place. Codes beyond the ends stand at them.
struct LinearTransform {
    double slope, offset;
    u32 least, greatest;  // top words of the codes at the ends
};

template <class Code_, int kDropBits = 0>
struct CodeDomain {
    using Code = Code_;
    using Coordinate = typename CoordinateOf<Code_, kDropBits>::Type;
    static constexpr bool kHasValues = false;
    static constexpr bool kIsCheap = true;  // to find twice

    __device__ __forceinline__ explicit CodeDomain(const LinearTransform&) {}
    __device__ __forceinline__ Coordinate place(Code code) const { return Coordinate(code >> kDropBits); }
};

// Floats of 32 or 64 bits, whose codes are the `Code_`'s bits from kDropBits on. Of a double's code the top word is
// looked at: a place must not depend on what a code beyond the ends has in the lower one.
template <class Code_, class Raw, bool kDescending, int kDropBits>
struct ValueDomain {
    using Code = Code_;
    using Coordinate = u32;
    using Floats = FloatOrder<Raw, kDescending>;
    static constexpr bool kHasValues = true;
    static constexpr bool kIsDouble = sizeof(Raw) == sizeof(u64);
    static constexpr bool kIsCheap = kIsDouble;  // beside what codes of that width take to move
    static constexpr int kTopBits = 32;
    static constexpr u32 kTopShift = u32(Floats::kShift >> (kBits<Raw> - kTopBits));
    static constexpr u32 kTopNumber = u32((Floats::kNumbers - 1) >> (kBits<Raw> - kTopBits));  // the greatest
    // A line rounds; its values stay inside [1, 2) by so much, if they have no more than kMostOffset.
    static constexpr double kMargin = 1.0 / (1 << 18);
    static constexpr double kMostOffset = 16.0;
    static constexpr double kLeastRange = 1e-30;  // CuPy's compiler takes subnormal floats for zero

    using Real = typename RealOf<kIsDouble>::Type;

    Real slope, offset;
    u32 least, greatest;

    __device__ __forceinline__ explicit ValueDomain(const LinearTransform& line)
        : slope(Real(line.slope)), offset(Real(line.offset)), least(line.least), greatest(line.greatest) {}

    static __device__ __forceinline__ u32 top(Code code) {
        return u32(Raw(code >> kDropBits) >> (kBits<Raw> - kTopBits));
    }
    // The value of a top word, its lower word zero.
    static __device__ __forceinline__ Real value(u32 top) {
        const u32 ascending = kDescending ? kTopNumber - top : top;
        const u32 total_order = ascending + kTopShift;
        const u32 bits = total_order ^ (int(total_order) < 0 ? 1u << 31 : ~0u);
        if constexpr (kIsDouble) return __hiloint2double(int(bits), 0);
        else return __uint_as_float(bits);
    }
    __device__ __forceinline__ Coordinate place(Code code) const {
        const u32 own = top(code);
        return place_of(own < least ? least : own > greatest ? greatest : own);
    }
    // Of a top word between those at the ends.
    __device__ __forceinline__ Coordinate place_of(u32 inside) const {
        const Real found = fma(value(inside), slope, offset);
        if constexpr (kIsDouble) return u32(u64(__double_as_longlong(found)) >> (kMantissaBits<u64> - 32));
        else return __float_as_uint(found) << 9;
    }
    // The line between two codes. Gives false where none serves: beside what is no number, and where values lie so far
    // from zero that codes are as even.
    static __device__ __forceinline__ bool draw(Code first, Code last, LinearTransform& line) {
        line.least = top(first);
        line.greatest = top(last);
        if (line.greatest > kTopNumber) return false;
        const Real from = value(line.least), range = value(line.greatest) - from;
        if (!(fabs(range) > Real(kLeastRange) && fabs(range) < Real(1 / kLeastRange))) return false;
        const Real step = Real(1 - 4 * kMargin) / range, start = Real(1 + 2 * kMargin) - from * step;
        line.slope = step;
        line.offset = start;
        return fabs(start) < Real(kMostOffset);
    }
    // Whether codes between two have more than one exponent: within one, values are as even as codes.
    static __device__ __forceinline__ bool bends(Code first, Code last) {
        constexpr int kExponentShift = kMantissaBits<Raw> - (kBits<Raw> - kTopBits);
        return (top(first) ^ top(last)) >> kExponentShift != 0;
    }
};

}  // namespace gpusort
