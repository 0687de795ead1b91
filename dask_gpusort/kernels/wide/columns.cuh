// The codes of a wide key's columns, their ranges, and the bit fields that words are made of.
#pragma once
#include "keys/elements.cuh"
#include "primitives/block.cuh"

namespace gpusort {

constexpr int kColumnThreads = 256;

// The range of a column's codes: the complement of the least code, the greatest code, and the bits in which any two
// codes differ. All three words are zero at first.
struct CodeRange {
    u64 least_complement = 0, greatest = 0, differing = 0;

    // `first` is any code of the column, the same for all threads.
    __device__ __forceinline__ void include(u64 code, u64 first) {
        least_complement = max(least_complement, ~code);
        greatest = max(greatest, code);
        differing |= code ^ first;
    }

    // Adds the ranges of all lanes of the warp to `range`, in device memory.
    __device__ __forceinline__ void merge_into(u64* range) {
        least_complement = warp_max(least_complement);
        greatest = warp_max(greatest);
#pragma unroll
        for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
            differing |= __shfl_xor_sync(kWholeWarp, differing, distance);
        }
        if (threadIdx.x % kWarpThreads != 0) return;
        raise_max(&range[0], least_complement);
        raise_max(&range[1], greatest);
        if (differing & ~*(volatile u64*)&range[2]) atomicOr(&range[2], differing);
    }
};
constexpr int kRangeWords = 3;
static_assert(sizeof(CodeRange) == kRangeWords * sizeof(u64), "the host allocates ranges as words");

// A field of a word: `bits` bits of (code - least), from bit `shift` on. `mask` has as many low bits set.
struct BitField {
    u64 least, shift, mask, bits;

    __device__ __forceinline__ u64 extract(u64 code) const { return (code - least) >> shift & mask; }
    __device__ __forceinline__ u64 append(u64 word, u64 code) const {
        // A shift by all 64 bits is undefined; a field as wide as the word has nothing before it.
        return (bits < 64 ? word << bits : word) | extract(code);
    }
};

// complex128 keys as two words in NumPy's order: numbers by real and imaginary part; then keys with NaN, by the part
// that is a number.
//
//   high   real code (< N) | N          | N + 1     | N + 2          N: the first code of a NaN
//   low    imaginary code  | real code  | imaginary | 0              codes are canonical: signed zeros are equal
//          numbers         | imag NaN   | real NaN  | both NaN

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
