// Codes of equal keys, and rank look-ups among rows of words.
#include "primitives/binary_search.cuh"
#include "wide/columns.cuh"

namespace gpusort {

// Replaces each code by the least code of the keys that compare equal.
template <class Order>
__global__ void __launch_bounds__(kColumnThreads) floor_codes(typename Order::Code* codes, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) codes[i] = Order::canonical(codes[i]);
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
