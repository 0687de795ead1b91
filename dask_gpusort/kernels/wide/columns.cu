// Wide keys: the codes of several columns, concatenated to a bit string that is sorted 64 bits at a time (Graefe,
// "Implementing Sorting in Database Systems", 2006: normalized keys).
//
//   columns   c0 (n)   | c1 (n)      | c2 (n)          of rows of words, as narrow as their observed range
//   string    bbbbbbbb   bbbbbbbbbbb   bbbbbbbbbbb     most significant first
//   words     |---- word 0 (n) ----|-- word 1 --|      word 0 sorts all keys, later words those that still tie
#include "primitives/basics.cuh"
#include "wide/columns.cuh"

namespace gpusort {

// Adds the codes of n rows, `stride` words apart, to the `range` of a column; see CodeRange.
__global__ void __launch_bounds__(kColumnThreads)
    measure_column(const u64* codes, Offset stride, Offset n, u64* range) {
    CodeRange found;
    for (Offset i = thread_of_grid(); i < n; i += Offset(gridDim.x) * kColumnThreads) {
        found.include(codes[i * stride], codes[0]);
    }
    found.merge_into(range);
}

// Appends a field of a column's codes, those of all n rows or of `elements` (n), to words (n); see BitField. The first
// field of a word is appended to the numbers of the tie groups (n), if there are any.
template <class Word, bool kFirst>
__global__ void __launch_bounds__(kColumnThreads)
    append_column(const u64* codes, Offset stride, const long long* elements, Offset n, u64 least, u64 shift, u64 mask,
                  u64 bits, const u32* groups, Word* words) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const u64 field = BitField{least, shift, mask, bits}.extract(codes[stride * (elements ? Offset(elements[i]) : i)]);
    if (kFirst && !groups) words[i] = Word(field);
    else words[i] = Word((kFirst ? u64(groups[i]) : u64(words[i])) << bits | field);
}

// ranks_out (num_needles): numbers of sorted rows (n, width) that precede each needle (kRight: that do not follow it).
// The first word of a row is the most significant.
template <bool kRight>
__global__ void __launch_bounds__(kColumnThreads)
    search_words(const u64* rows, Offset n, Offset width, const u64* needles, long long* ranks_out,
                 Offset num_needles) {
    const Offset i = thread_of_grid();
    if (i >= num_needles) return;
    const u64* needle = needles + i * width;
    ranks_out[i] = (long long)partition_point(Offset(0), n, [&](Offset k) {
        const u64* row = rows + k * width;
        Offset w = 0;
        while (w < width && row[w] == needle[w]) ++w;
        return w == width ? kRight : row[w] < needle[w];
    });
}

// complex128 keys: their words, and rank look-ups among them.

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
