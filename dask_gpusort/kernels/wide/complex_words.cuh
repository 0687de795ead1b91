// complex128 keys as two words in NumPy's order: numbers by real and imaginary part; then keys with NaN, by the part
// that is a number.
//
//   high   real code (< N) | N          | N + 1     | N + 2          N: the first code of a NaN
//   low    imaginary code  | real code  | imaginary | 0              codes are canonical: signed zeros are equal
//          numbers         | imag NaN   | real NaN  | both NaN
#pragma once
#include "wide/columns.cuh"
#include "keys/less.cuh"

namespace gpusort {

// Closes the gap that the second zero leaves in canonical float codes: positive numbers follow the code of both zeros,
// and the code of NaN has the low bits of that of infinity. Whole numbers, whose mantissas end in zeros, then share the
// low bits of their codes.
template <class Raw, bool kDescending>
__device__ __forceinline__ Raw close_gap(Raw code) {
    using Floats = FloatOrder<Raw, kDescending>;
    if (code >= Floats::kNumbers) return Raw(Floats::kNumbers - 2 + (Raw(1) << kMantissaBits<Raw>));
    return code > Floats::kNegativeZero ? Raw(code - 1) : code;
}

// A key in memory, which may be aligned to 8 bytes only.
struct ComplexKey {
    u64 real, imag;
};

template <bool kDescending>
__device__ __forceinline__ Words<2> complex_words(const ComplexKey& key) {
    using Part = FloatOrder<u64, kDescending>;
    const u64 real = Part::canonical(Part::encode(key.real)), imag = Part::canonical(Part::encode(key.imag));
    const bool real_nan = real >= Part::kNumbers, imag_nan = imag >= Part::kNumbers;
    Words<2> words;
    words.word[0] = real_nan || imag_nan ? Part::kNumbers + 2 * real_nan + imag_nan - 1 : real;
    words.word[1] = real_nan && imag_nan ? 0 : imag_nan ? real : imag;
    return words;
}

// The same words with closed gaps, in the same order: whole numbers then differ in few bits.
template <bool kDescending>
__device__ __forceinline__ Words<2> gapless_words(const ComplexKey& key) {
    Words<2> words = complex_words<kDescending>(key);
    // The high words of keys with NaN stay as they are: they are above those of all numbers.
    if (words.word[0] < FloatOrder<u64, kDescending>::kNumbers) {
        words.word[0] = close_gap<u64, kDescending>(words.word[0]);
    }
    words.word[1] = close_gap<u64, kDescending>(words.word[1]);
    return words;
}

}  // namespace gpusort
