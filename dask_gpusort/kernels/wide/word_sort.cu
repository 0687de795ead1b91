// Codes of equal keys, and rank look-ups among rows of words.
#include "wide/columns.cuh"

namespace gpusort {

// Codes to the least of the keys that compare equal, in place.
template <class Order>
__global__ void __launch_bounds__(kColumnThreads) floor_codes(typename Order::Code* codes, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) codes[i] = Order::canonical(codes[i]);
}

// Ranks of needles (num_needles, width) among sorted rows (n, width) of words, the most significant first.
template <bool kRight>
__global__ void __launch_bounds__(kColumnThreads)
    search_words(const u64* rows, Offset n, Offset width, const u64* needles, long long* ranks_out,
                 Offset num_needles) {
    const Offset i = thread_of_grid();
    if (i >= num_needles) return;
    const u64* needle = needles + i * width;
    Offset low = 0, high = n;
    while (low < high) {
        const Offset middle = low + (high - low) / 2;
        const u64* row = rows + middle * width;
        Offset w = 0;
        while (w < width && row[w] == needle[w]) ++w;
        if (w == width ? kRight : row[w] < needle[w]) low = middle + 1;
        else high = middle;
    }
    ranks_out[i] = (long long)low;
}

}  // namespace gpusort
