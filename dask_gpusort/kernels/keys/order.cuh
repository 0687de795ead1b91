// The order transform: a key to the unsigned code that sorts as NumPy 2.5 sorts the key, and back.
//
// Device code compares codes, never floats (CuPy compiles with -ftz=true). The transform is one to one: decoding sorted
// codes restores every NaN payload and both zeros. Codes are normalized keys (Graefe, "Implementing Sorting in Database
// Systems", 2006):
//
//   signed     code = key ^ sign bit
//   time       the same, minus one modulo 2^64                           NaT (the least integer) sorts last
//   float      0 ........ z  z+1 ........ N-1 | N ............ 2^bits-1   m = mantissa bits
//              -inf     -0.0 +0.0        +inf | NaN, both signs           N = 2^bits - 2 (2^m - 1), z = N / 2 - 1
//   complex    a, b = float codes of the parts; four classes in NumPy's order, M = 2^32 - N NaN codes:
//              | a, b numbers: N^2 | b NaN: N M | a NaN: N M | both NaN: M^2 |
//              the rows a = z and a = z + 1 are interleaved: -0.0 and +0.0 are equal, so b decides first
//
// descending: the order of the numbers is reversed; NaN and NaT stay last.
// canonical: the least code among keys that compare equal, for sorts that keep the order of ties.
#pragma once
#include "primitives/basics.cuh"

namespace gpusort {

enum class Kind { kBool, kUnsigned, kSigned, kFloat, kTime, kComplex };

template <class Raw>
constexpr int kBits = int(sizeof(Raw)) * 8;

// IEEE 754: explicit mantissa bits of binary16, binary32 and binary64.
template <class Raw>
constexpr int kMantissaBits = sizeof(Raw) == 2   ? 10
                              : sizeof(Raw) == 4 ? 23
                                                 : 52;

template <class Raw>
constexpr Raw kSignBit = Raw(Raw(1) << (kBits<Raw> - 1));

template <class Raw, bool kDescending>
struct FloatOrder {
    static constexpr Raw kNanCodes = Raw(2 * ((Raw(1) << kMantissaBits<Raw>)-1));  // both signs
    static constexpr Raw kNumbers = Raw(Raw(0) - kNanCodes);                       // N: codes of all but NaN
    static constexpr Raw kNegativeZero = Raw(kNumbers / 2 - 1);                    // z; +0.0 follows
    static constexpr Raw kShift = Raw(kNanCodes / 2);                              // negative NaNs, moved to the end

    static __device__ __forceinline__ Raw reverse(Raw code) {
        return kDescending && code < kNumbers ? Raw(kNumbers - 1 - code) : code;
    }
    static __device__ __forceinline__ Raw encode(Raw key) {
        const Raw total_order = key & kSignBit<Raw> ? Raw(~key) : Raw(key ^ kSignBit<Raw>);
        return reverse(Raw(total_order - kShift));
    }
    static __device__ __forceinline__ Raw decode(Raw code) {
        const Raw total_order = Raw(reverse(code) + kShift);
        return total_order & kSignBit<Raw> ? Raw(total_order ^ kSignBit<Raw>) : Raw(~total_order);
    }
    static __device__ __forceinline__ Raw canonical(Raw code) {
        if (code == kNegativeZero + 1) return kNegativeZero;
        return code < kNumbers ? code : kNumbers;
    }
};

// A complex64 key: the real part in the low word of memory, the imaginary part in the high word.
template <bool kDescending>
struct ComplexOrder {
    using Part = FloatOrder<u32, kDescending>;
    static constexpr u64 kN = Part::kNumbers;
    static constexpr u64 kM = Part::kNanCodes;
    static constexpr u64 kZ = Part::kNegativeZero;

    static __device__ __forceinline__ u64 compose(u32 a, u32 b) {
        if (a < kN && b < kN) return a == kZ || a == kZ + 1 ? kZ * kN + 2 * u64(b) + (a - kZ) : a * kN + b;
        if (a < kN) return kN * kN + a * kM + (b - kN);
        if (b < kN) return kN * kN + kN * kM + b * kM + (a - kN);
        return kN * kN + 2 * kN * kM + (a - kN) * kM + (b - kN);
    }
    static __device__ __forceinline__ void split(u64 code, u32& a, u32& b) {
        constexpr u64 kNumbers = kN * kN;
        constexpr u64 kHalfNan = kN * kM;
        if (code < kNumbers) {
            const u64 zero_row = code - kZ * kN;  // wraps below the interleaved rows
            const bool zero = zero_row < 2 * kN;
            a = zero ? u32(kZ + (zero_row & 1)) : u32(code / kN);
            b = zero ? u32(zero_row >> 1) : u32(code % kN);
        } else if (code - kNumbers < kHalfNan) {
            a = u32((code - kNumbers) / kM);
            b = u32(kN + (code - kNumbers) % kM);
        } else if (code - kNumbers < 2 * kHalfNan) {
            b = u32((code - kNumbers - kHalfNan) / kM);
            a = u32(kN + (code - kNumbers - kHalfNan) % kM);
        } else {
            a = u32(kN + (code - kNumbers - 2 * kHalfNan) / kM);
            b = u32(kN + (code - kNumbers - 2 * kHalfNan) % kM);
        }
    }
    static __device__ __forceinline__ u64 encode(u64 key) {
        return compose(Part::encode(u32(key)), Part::encode(u32(key >> 32)));
    }
    static __device__ __forceinline__ u64 decode(u64 code) {
        u32 a, b;
        split(code, a, b);
        return u64(Part::decode(b)) << 32 | Part::decode(a);
    }
    static __device__ __forceinline__ u64 canonical(u64 code) {
        u32 a, b;
        split(code, a, b);
        return compose(Part::canonical(a), Part::canonical(b));
    }
};

template <class Raw_, Kind kKind, bool kDescending>
struct KeyOrder {
    using Raw = Raw_;
    using Code = Raw_;
    static constexpr Raw kAllBits =
        kKind == Kind::kBool ? Raw(1) : Raw(~Raw(0));  // the bits that `descending` complements

    static __device__ __forceinline__ Code encode(Raw key) {
        constexpr Raw kMax = Raw(~Raw(0));
        if constexpr (kKind == Kind::kFloat) return FloatOrder<Raw, kDescending>::encode(key);
        if constexpr (kKind == Kind::kComplex) return ComplexOrder<kDescending>::encode(key);
        if constexpr (kKind == Kind::kTime) {
            const Raw code = Raw((key ^ kSignBit<Raw>)-1);
            return kDescending && code < kMax ? Raw(kMax - 1 - code) : code;
        }
        const Raw code = kKind == Kind::kSigned ? Raw(key ^ kSignBit<Raw>) : key;
        return kDescending ? Raw(code ^ kAllBits) : code;
    }
    static __device__ __forceinline__ Raw decode(Code code) {
        constexpr Raw kMax = Raw(~Raw(0));
        if constexpr (kKind == Kind::kFloat) return FloatOrder<Raw, kDescending>::decode(code);
        if constexpr (kKind == Kind::kComplex) return ComplexOrder<kDescending>::decode(code);
        if constexpr (kKind == Kind::kTime) {
            const Raw ascending = kDescending && code < kMax ? Raw(kMax - 1 - code) : code;
            return Raw((ascending + 1) ^ kSignBit<Raw>);
        }
        const Raw ascending = kDescending ? Raw(code ^ kAllBits) : code;
        return kKind == Kind::kSigned ? Raw(ascending ^ kSignBit<Raw>) : ascending;
    }
    static __device__ __forceinline__ Code canonical(Code code) {
        if constexpr (kKind == Kind::kFloat) return FloatOrder<Raw, kDescending>::canonical(code);
        if constexpr (kKind == Kind::kComplex) return ComplexOrder<kDescending>::canonical(code);
        return code;
    }
};

// The order of codes that replace their keys one to one.
template <class Order>
struct CodesOf {
    using Raw = typename Order::Code;
    using Code = typename Order::Code;

    static __device__ __forceinline__ Code encode(Raw code) { return code; }
    static __device__ __forceinline__ Raw decode(Code code) { return code; }
    static __device__ __forceinline__ Code canonical(Code code) { return Order::canonical(code); }
};

}  // namespace gpusort
