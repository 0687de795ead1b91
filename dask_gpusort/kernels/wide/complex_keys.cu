// complex128 keys: their words, and rank look-ups among them (see complex_words.cuh).
#include "wide/complex_words.cuh"

namespace gpusort {

// Rows of words (n, 2), as dask_gpusort.keys has them.
template <bool kDescending>
__global__ void __launch_bounds__(kColumnThreads) encode_complex(const ComplexKey* keys, Words<2>* rows, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) rows[i] = complex_words<kDescending>(keys[i]);
}

// The high words (n) without gaps, and the ranges of both words (2, 3), as CodeRange has them. Both in one look at the
// keys: most of the time the high words are the first to sort by, and the low ones are never asked for.
template <bool kDescending>
__global__ void __launch_bounds__(kColumnThreads)
    measure_complex(const ComplexKey* __restrict__ keys, Offset n, u64* __restrict__ high, u64* ranges) {
    const Words<2> first = closed_words<kDescending>(keys[0]);
    CodeRange found[2];
    for (Offset i = thread_of_grid(); i < n; i += Offset(gridDim.x) * kColumnThreads) {
        const Words<2> words = closed_words<kDescending>(keys[i]);
        high[i] = words.word[0];
        found[0].include(words.word[0], first.word[0]);
        found[1].include(words.word[1], first.word[1]);
    }
    found[0].merge_into(ranges);
    found[1].merge_into(ranges + 3);
}

// Words (n) of a share of the high words and one of the low, of the keys at `elements` or of all, behind the numbers in
// `heads` if there are any.
template <bool kDescending, class Word>
__global__ void __launch_bounds__(kColumnThreads)
    make_complex_word(const ComplexKey* keys, const long long* elements, Offset n, u64 high_least, u64 high_drop,
                      u64 high_mask, u64 high_bits, u64 low_least, u64 low_drop, u64 low_mask, u64 low_bits,
                      const u32* heads, Word* words_out) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const Words<2> words = closed_words<kDescending>(keys[elements ? Offset(elements[i]) : i]);
    const u64 low = share_of(words.word[1], low_least, low_drop, low_mask);
    u64 word = heads ? heads[i] : 0;
    // Bits that fill the word have nothing before them, and no shift moves so far.
    if (high_bits < 64) word <<= high_bits;
    word |= share_of(words.word[0], high_least, high_drop, high_mask);
    if (low_bits < 64) word <<= low_bits;
    words_out[i] = Word(word | low);
}

// Ranks of complex128 needles among sorted complex128 keys.
template <bool kDescending, bool kRight>
__global__ void __launch_bounds__(kColumnThreads)
    search_complex(const ComplexKey* keys, Offset n, const ComplexKey* needles, long long* ranks_out,
                   Offset num_needles) {
    const Offset i = thread_of_grid();
    if (i >= num_needles) return;
    const Words<2> needle = complex_words<kDescending>(needles[i]);
    Offset low = 0, high = n;
    while (low < high) {
        const Offset middle = low + (high - low) / 2;
        const Words<2> key = complex_words<kDescending>(keys[middle]);
        if (kRight ? !(needle < key) : key < needle) low = middle + 1;
        else high = middle;
    }
    ranks_out[i] = (long long)low;
}

}  // namespace gpusort
