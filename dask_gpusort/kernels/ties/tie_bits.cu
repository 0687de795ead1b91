// Tie groups of sorted keys, as one bit for each key, and the number of bits before each word.
//
//   keys      1  1  1  4  4  7  7 ...       (n)
//   bits      1  0  0  1  0  1  0 ...       (n / 32 words)       whether a key is the first of its group
//   offsets   0, 9, 17, ...                 (n / 32 + 1)         groups that begin in earlier words; last: all groups
//   number    0  0  0  1  1  2  2 ...       offset of the word + its bits up to the key - 1
//
// Jacobson, "Space-efficient static trees and graphs" (FOCS 1989): the rank of a bit from counts of whole words.
#include "keys/elements.cuh"

namespace gpusort {

constexpr int kTieThreads = 256;
constexpr int kTieItems = 4;
constexpr int kTieTile = kTieThreads * kTieItems;
constexpr int kWordBits = 32;
static_assert(kWordBits == kWarpThreads, "a ballot of one warp is one word");

// How ties are ranked, as by scipy.stats.rankdata.
enum class Ranking { kAverage, kMin, kMax, kDense };

struct TieBits {
    const u32* bits;
    const u64* offsets;

    __device__ __forceinline__ bool is_first(Offset i) const { return bits[i / kWordBits] >> (i % kWordBits) & 1; }
    // Number of the tie group of key i. The mask has the bits up to that of the key: for the last one, 2 << 31 is 0.
    __device__ __forceinline__ Offset number(Offset i) const {
        const u32 up_to = (2u << (i % kWordBits)) - 1;
        return offsets[i / kWordBits] + __popc(bits[i / kWordBits] & up_to) - 1;
    }
};

// Writes the words of a block's keys, of which each thread has a flag in every kTieThreads-th.
__device__ __forceinline__ void store_words(const bool (&is_first)[kTieItems], Offset n, u32* bits_out) {
    const Offset first = Offset(blockIdx.x) * kTieTile + threadIdx.x;
#pragma unroll
    for (int item = 0; item < kTieItems; item++) {
        const Offset i = first + item * kTieThreads;
        const u32 word = __ballot_sync(kWholeWarp, is_first[item]);
        if (threadIdx.x % kWarpThreads == 0 && i < n) bits_out[i / kWordBits] = word;
    }
}

// Calls `visit` for each key of the block and its number in the thread. All reads of a thread are on their way at the same time.
template <class Visit>
__device__ __forceinline__ void visit_keys(Offset n, Visit visit) {
    const Offset first = Offset(blockIdx.x) * kTieTile + threadIdx.x;
#pragma unroll
    for (int item = 0; item < kTieItems; item++)
        if (first + item * kTieThreads < n) visit(first + item * kTieThreads, item);
}

// Whether key i is the first of a row. Divisions take longer than the reads, and one row needs none.
__device__ __forceinline__ bool begins_row(Offset i, Offset n, Offset length) {
    return length >= n ? i == 0 : i % length == 0;
}

// Each row of `length` keys has groups of its own. Codes from `first_nan` on are NaN, which are equal to each other, or
// with `nans_differ` to no key. Threads beyond the last key vote 0.
template <class Order>
__global__ void __launch_bounds__(kTieThreads)
    mark_first_keys(const typename Order::Raw* __restrict__ keys, Offset n, Offset length, u64 first_nan, int has_nan,
                    int nans_differ, u32* __restrict__ bits_out) {
    bool is_first[kTieItems] = {};
    visit_keys(n, [&](Offset i, int item) {
        const auto code = Order::canonical(Order::encode(keys[i]));
        const auto previous = i > 0 ? Order::canonical(Order::encode(keys[i - 1])) : code;
        const bool both_nan = has_nan && code >= first_nan && previous >= first_nan;
        is_first[item] = begins_row(i, n, length) || (both_nan ? nans_differ : code != previous);
    });
    store_words(is_first, n, bits_out);
}

// The same from one flag for each key.
template <class Flag>
__global__ void __launch_bounds__(kTieThreads) pack_flags(const Flag* flags, Offset n, u32* bits_out) {
    bool is_first[kTieItems] = {};
    visit_keys(n, [&](Offset i, int item) { is_first[item] = flags[i]; });
    store_words(is_first, n, bits_out);
}

// counts_out (words + 1): bits of each word, then 0, which an exclusive scan turns into the number of all bits.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) count_bits(const u32* bits, Offset words, u64* counts_out) {
    const Offset word = thread_of_grid();
    if (word <= words) counts_out[word] = word < words ? __popc(bits[word]) : 0;
}

// starts_out (groups + 1): the position of the first key of each group, then n.
template <class Position>
__global__ void __launch_bounds__(kTieThreads)
    list_starts(const u32* __restrict__ bits, const u64* __restrict__ offsets, Offset n,
                Position* __restrict__ starts_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) {
        if (ties.is_first(i)) starts_out[ties.number(i)] = Position(i);
        if (i == n - 1) starts_out[ties.number(i) + 1] = Position(n);
    });
}

// values_out (groups): the value at the first key of each group.
template <class Value>
__global__ void __launch_bounds__(kTieThreads)
    take_firsts(const u32* __restrict__ bits, const u64* __restrict__ offsets, Offset n,
                const Value* __restrict__ values, Value* __restrict__ values_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) {
        if (ties.is_first(i)) values_out[ties.number(i)] = values[i];
    });
}

template <class Number>
__global__ void __launch_bounds__(kTieThreads)
    number_keys(const u32* __restrict__ bits, const u64* __restrict__ offsets, Offset n,
                Number* __restrict__ numbers_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) { numbers_out[i] = Number(ties.number(i)); });
}

// Rank of key i in its row, from 1; twice the rank for kAverage, which is an integer then.
template <Ranking kRanking>
__device__ __forceinline__ u32 rank_of(TieBits ties, const long long* starts, Offset i, Offset n, Offset length) {
    const Offset row = length >= n ? 0 : i / length * length, group = ties.number(i);
    if constexpr (kRanking == Ranking::kDense) return u32(group - ties.number(row) + 1);
    if constexpr (kRanking == Ranking::kMax) return u32(starts[group + 1] - row);
    const u32 less = u32(starts[group] - row);
    return kRanking == Ranking::kMin ? less + 1 : less + u32(starts[group + 1] - row) + 1;
}

// starts (groups + 1), as of list_starts.
template <Ranking kRanking>
__global__ void __launch_bounds__(kTieThreads)
    rank_keys(const u32* __restrict__ bits, const u64* __restrict__ offsets, const long long* __restrict__ starts,
              Offset n, Offset length, u32* __restrict__ ranks_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) { ranks_out[i] = rank_of<kRanking>(ties, starts, i, n, length); });
}

}  // namespace gpusort
