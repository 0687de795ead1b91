// Wide keys: keys of several columns, laid side by side as one string of bits and sorted 64 bits at a time.
//
//   columns   c0 (n)   | c1 (n)      | c2 (n)          codes, canonical, as narrow as their observed range
//   string    bbbbbbbb   bbbbbbbbbbb   bbbbbbbbbbb     most significant first
//   words     |---- word 0 (n) ----|-- word 1 --|      word 0 sorts all keys, each later word the keys that still tie
#include "wide/columns.cuh"

namespace gpusort {

// The code at element i, or at elements[i], of a column whose keys are `stride` keys apart.
template <class Order>
__device__ __forceinline__ u64 column_code(const typename Order::Raw* keys, Offset stride, const long long* elements,
                                           Offset i) {
    const Offset element = elements ? Offset(elements[i]) : i;
    return ColumnCode<Order>::of(keys[element * stride]);
}

// Widens the `range` of a column (see CodeRange) by its n keys.
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

// Appends a share of a column, `bits` wide, to words (n). kFirst: to the numbers in `heads`, or to nothing.
template <class Order, class Word, bool kFirst>
__global__ void __launch_bounds__(kColumnThreads)
    append_column(const typename Order::Raw* keys, Offset stride, const long long* elements, Offset n, u64 least,
                  u64 drop, u64 mask, u64 bits, const u32* heads, Word* words) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const u64 share = share_of(column_code<Order>(keys, stride, elements, i), least, drop, mask);
    if (kFirst && !heads) words[i] = Word(share);
    else words[i] = Word((kFirst ? u64(heads[i]) : u64(words[i])) << bits | share);
}

}  // namespace gpusort
