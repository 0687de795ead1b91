// Wide keys: the codes of several columns, concatenated to a bit string that is sorted 64 bits at a time (Graefe,
// "Implementing Sorting in Database Systems", 2006: normalized keys).
//
//   columns   c0 (n)   | c1 (n)      | c2 (n)          of rows of words, as narrow as their observed range
//   string    bbbbbbbb   bbbbbbbbbbb   bbbbbbbbbbb     most significant first
//   words     |---- word 0 (n) ----|-- word 1 --|      word 0 sorts all keys, later words those that still tie
#include "primitives/binary_search.cuh"
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

}  // namespace gpusort
