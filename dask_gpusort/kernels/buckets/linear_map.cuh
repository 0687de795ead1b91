// Maps with digits of equal width over a range of codes, or of values.
//
//   LinearMap   over [least, greatest]; one code a digit (`exact`) where the range has no more codes than digits
//   CoarseMap   the same with a fraction inside the digit, for few digits
//   ValueMap    equal widths in value, for floats
#pragma once
#include "buckets/domain.cuh"
#include "buckets/splitter_map.cuh"

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

}  // namespace gpusort
