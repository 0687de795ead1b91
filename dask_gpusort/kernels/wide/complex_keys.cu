// complex128 keys: their words, and rank look-ups among them (see complex_words.cuh).
#include "primitives/binary_search.cuh"
#include "wide/complex_words.cuh"

namespace gpusort {

// rows (n, 2): the words of `dask_gpusort.keys`.
template <bool kDescending>
__global__ void __launch_bounds__(kColumnThreads) encode_complex(const ComplexKey* keys, Words<2>* rows, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) rows[i] = complex_words<kDescending>(keys[i]);
}

// The ranges (2, 3) of both gapless words (see CodeRange), and the high words (n), in one reading of the keys: the high
// words are usually the first to sort by, and the low words are often not needed.
template <bool kDescending>
__global__ void __launch_bounds__(kColumnThreads)
    measure_complex(const ComplexKey* __restrict__ keys, Offset n, u64* __restrict__ high, u64* ranges) {
    const Words<2> first = gapless_words<kDescending>(keys[0]);
    CodeRange found[2];
    for (Offset i = thread_of_grid(); i < n; i += Offset(gridDim.x) * kColumnThreads) {
        const Words<2> words = gapless_words<kDescending>(keys[i]);
        high[i] = words.word[0];
        found[0].include(words.word[0], first.word[0]);
        found[1].include(words.word[1], first.word[1]);
    }
    found[0].merge_into(ranges);
    found[1].merge_into(ranges + kRangeWords);
}

// words_out (n): for the keys at `elements`, or for all keys, a field of the high word and one of the low word,
// appended to the numbers of the tie groups (n) if there are any. Each BitField is four parameters: launches pass
// scalars.
template <bool kDescending, class Word>
__global__ void __launch_bounds__(kColumnThreads)
    make_complex_word(const ComplexKey* keys, const long long* elements, Offset n, u64 high_least, u64 high_shift,
                      u64 high_mask, u64 high_bits, u64 low_least, u64 low_shift, u64 low_mask, u64 low_bits,
                      const u32* groups, Word* words_out) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const BitField high{high_least, high_shift, high_mask, high_bits}, low{low_least, low_shift, low_mask, low_bits};
    const Words<2> words = gapless_words<kDescending>(keys[elements ? Offset(elements[i]) : i]);
    const u64 group = groups ? groups[i] : 0;
    words_out[i] = Word(low.append(high.append(group, words.word[0]), words.word[1]));
}

// ranks_out (num_needles): numbers of sorted keys that precede each needle (kRight: that do not follow it).
template <bool kDescending, bool kRight>
__global__ void __launch_bounds__(kColumnThreads)
    search_complex(const ComplexKey* keys, Offset n, const ComplexKey* needles, long long* ranks_out,
                   Offset num_needles) {
    const Offset i = thread_of_grid();
    if (i >= num_needles) return;
    const Words<2> needle = complex_words<kDescending>(needles[i]);
    ranks_out[i] = (long long)partition_point(Offset(0), n, [&](Offset k) {
        const Words<2> key = complex_words<kDescending>(keys[k]);
        return kRight ? !(needle < key) : key < needle;
    });
}

}  // namespace gpusort
