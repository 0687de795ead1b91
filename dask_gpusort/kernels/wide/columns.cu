// Wide keys: the codes of several columns, concatenated to a bit string that is sorted 64 bits at a time (Graefe,
// "Implementing Sorting in Database Systems", 2006: normalized keys).
//
//   columns   c0 (n)   | c1 (n)      | c2 (n)          canonical codes, as narrow as their observed range
//   string    bbbbbbbb   bbbbbbbbbbb   bbbbbbbbbbb     most significant first
//   words     |---- word 0 (n) ----|-- word 1 --|      word 0 sorts all keys, later words those that still tie
#include "wide/columns.cuh"

namespace gpusort {

// The code at element i, or at elements[i], of a column whose keys are `stride` keys apart.
template <class Order>
__device__ __forceinline__ u64 column_code(const typename Order::Raw* keys, Offset stride, const long long* elements,
                                           Offset i) {
    const Offset element = elements ? Offset(elements[i]) : i;
    return ColumnCode<Order>::of(keys[element * stride]);
}

// Adds the codes of n keys to the `range` of a column; see CodeRange.
template <class Order>
__global__ void __launch_bounds__(kColumnThreads)
    measure_column(const typename Order::Raw* keys, Offset stride, Offset n, u64* range) {
    const u64 first = column_code<Order>(keys, stride, nullptr, 0);
    CodeRange found;
    for (Offset i = thread_of_grid(); i < n; i += Offset(gridDim.x) * kColumnThreads) {
        found.include(column_code<Order>(keys, stride, nullptr, i), first);
    }
    found.merge_into(range);
}

// Appends a field of a column's codes to words (n); see BitField. The first field of a word is appended to the numbers
// of the tie groups (n), if there are any.
template <class Order, class Word, bool kFirst>
__global__ void __launch_bounds__(kColumnThreads)
    append_column(const typename Order::Raw* keys, Offset stride, const long long* elements, Offset n, u64 least,
                  u64 shift, u64 mask, u64 bits, const u32* groups, Word* words) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const u64 field = BitField{least, shift, mask, bits}.extract(column_code<Order>(keys, stride, elements, i));
    if (kFirst && !groups) words[i] = Word(field);
    else words[i] = Word((kFirst ? u64(groups[i]) : u64(words[i])) << bits | field);
}

}  // namespace gpusort
