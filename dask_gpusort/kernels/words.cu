// Wide keys: keys of several columns, laid side by side as one string of bits and sorted 64 bits at a time.
//
//   columns   c0 (n)   | c1 (n)      | c2 (n)          codes, canonical, as narrow as their observed range
//   string    bbbbbbbb   bbbbbbbbbbb   bbbbbbbbbbb     most significant first
//   words     |---- word 0 (n) ----|-- word 1 --|      word 0 sorts all keys, each later word the keys that still tie
#include "block.cuh"
#include "less.cuh"

namespace gpusort {

constexpr int kColumnThreads = 256;  // COLUMN_THREADS in words.py

__device__ __forceinline__ Offset thread_of_grid() { return Offset(blockIdx.x) * blockDim.x + threadIdx.x; }

// Canonical float codes without the gap that the other zero leaves between negative and positive numbers, and with NaN
// in a place of its own: so that whole numbers, whose mantissas end in zeros, share the low bits of their codes.
template <class Raw, bool kDescending>
__device__ __forceinline__ Raw close_gap(Raw code) {
    using Floats = FloatOrder<Raw, kDescending>;
    if (code >= Floats::kNumbers) return Raw(Floats::kNumbers - 2 + (Raw(1) << kMantissaBits<Raw>));
    return code > Floats::kNegativeZero ? Raw(code - 1) : code;
}

template <class Order>
struct ColumnCode {
    static __device__ __forceinline__ u64 of(typename Order::Raw key) { return Order::canonical(Order::encode(key)); }
};

template <class Raw, bool kDescending>
struct ColumnCode<KeyOrder<Raw, Kind::kFloat, kDescending>> {
    static __device__ __forceinline__ u64 of(Raw key) {
        using Floats = FloatOrder<Raw, kDescending>;
        return close_gap<Raw, kDescending>(Floats::canonical(Floats::encode(key)));
    }
};

// The code at element i, or at positions[i], of a column whose keys are `stride` keys apart.
template <class Order>
__device__ __forceinline__ u64 column_code(const typename Order::Raw* keys, Offset stride, const long long* positions,
                                           Offset i) {
    const Offset element = positions ? Offset(positions[i]) : i;
    return ColumnCode<Order>::of(keys[element * stride]);
}

// From zeros, ranges[0] becomes the complement of the least code, ranges[1] the greatest, ranges[2] the bits in which
// any two codes differ. (Whole numbers held as floats share most of their low bits.)
template <class Order>
__global__ void __launch_bounds__(kColumnThreads)
    measure_column(const typename Order::Raw* keys, Offset stride, Offset n, u64* ranges) {
    const u64 first = column_code<Order>(keys, stride, nullptr, 0);
    u64 least_complement = 0, greatest = 0, differing = 0;
    for (Offset i = thread_of_grid(); i < n; i += Offset(gridDim.x) * kColumnThreads) {
        const u64 code = column_code<Order>(keys, stride, nullptr, i);
        least_complement = max(least_complement, ~code);
        greatest = max(greatest, code);
        differing |= code ^ first;
    }
    least_complement = warp_max(least_complement);
    greatest = warp_max(greatest);
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        differing |= __shfl_xor_sync(kWholeWarp, differing, distance);
    }
    if (threadIdx.x % kWarpThreads != 0) return;
    raise_max(&ranges[0], least_complement);
    raise_max(&ranges[1], greatest);
    if (differing & ~*(volatile u64*)&ranges[2]) atomicOr(&ranges[2], differing);
}

// Appends bits of a column to words (n): those of (code - least) from bit `drop` on that `mask` keeps. kFirst: to
// nothing.
template <class Order, class Word, bool kFirst>
__global__ void __launch_bounds__(kColumnThreads)
    append_column(const typename Order::Raw* keys, Offset stride, const long long* positions, Offset n, u64 least,
                  u64 drop, u64 mask, u64 bits, Word* words) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const u64 part = (column_code<Order>(keys, stride, positions, i) - least) >> drop & mask;
    words[i] = kFirst ? Word(part) : Word(words[i] << bits | part);
}

// starts (n): whether a sorted word differs from the one before it. `ties` counts the words that do not.
template <class Word>
__global__ void __launch_bounds__(kColumnThreads) mark_starts(const Word* words, Offset n, bool* starts, u64* ties) {
    const Offset i = thread_of_grid();
    const bool start = i >= n || i == 0 || words[i] != words[i - 1];
    if (i < n) starts[i] = start;
    const unsigned tied = __ballot_sync(kWholeWarp, !start);
    if (tied && threadIdx.x % kWarpThreads == 0) atomicAdd(ties, u64(__popc(tied)));
}

// complex128 keys as two words of NumPy's order: numbers by both parts; then keys with NaN by what their other part is.
//
//   high   real code (< N) | N          | N + 1     | N + 2          N: the first code of a NaN
//   low    imaginary code  | real code  | imaginary | 0              canonical: signed zeros are equal
//          numbers         | imag NaN   | real NaN  | both NaN
template <bool kDescending>
__device__ __forceinline__ Words<2> complex_words(const u64* keys, Offset i) {
    using Part = FloatOrder<u64, kDescending>;
    const u64 real = Part::canonical(Part::encode(keys[2 * i])), imag = Part::canonical(Part::encode(keys[2 * i + 1]));
    const bool real_nan = real >= Part::kNumbers, imag_nan = imag >= Part::kNumbers;
    Words<2> words;
    words.word[0] = real_nan || imag_nan ? Part::kNumbers + 2 * real_nan + imag_nan - 1 : real;
    words.word[1] = real_nan && imag_nan ? 0 : imag_nan ? real : imag;
    return words;
}

// kClosed: without gaps, for words that are sorted at once; else as dask_gpusort.keys has them.
template <bool kDescending, bool kClosed>
__global__ void __launch_bounds__(kColumnThreads)
    encode_complex(const u64* keys, u64* high, u64* low, Offset stride, Offset n) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const Words<2> words = complex_words<kDescending>(keys, i);
    // The classes of NaN keep apart: their codes lie above those of numbers, closed or not.
    const bool close_high = kClosed && words.word[0] < FloatOrder<u64, kDescending>::kNumbers;
    high[i * stride] = close_high ? close_gap<u64, kDescending>(words.word[0]) : words.word[0];
    low[i * stride] = kClosed ? close_gap<u64, kDescending>(words.word[1]) : words.word[1];
}

// Ranks of complex128 needles among sorted complex128 keys.
template <bool kDescending, bool kRight>
__global__ void __launch_bounds__(kColumnThreads)
    search_complex(const u64* keys, Offset n, const u64* needles, long long* ranks_out, Offset num_needles) {
    const Offset i = thread_of_grid();
    if (i >= num_needles) return;
    const Words<2> needle = complex_words<kDescending>(needles, i);
    Offset low = 0, high = n;
    while (low < high) {
        const Offset middle = low + (high - low) / 2;
        const Words<2> key = complex_words<kDescending>(keys, middle);
        if (kRight ? !(needle < key) : key < needle) low = middle + 1;
        else high = middle;
    }
    ranks_out[i] = (long long)low;
}

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
