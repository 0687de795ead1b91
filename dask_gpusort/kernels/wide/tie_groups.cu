// Keys that tie in a sorted word: short stretches of them are sorted where they stand, others are listed.
//
//   words     1 2 2 3 4 4 4 4 4 5 6 6 6 6          sorted
//   stretch     ---   =========   -------          up to Order::kMost keys, here 4: sorted at once, by one thread (---)
//   places            4 5 6 7 8                    of longer ones: where their keys stand,
//   numbers           0 0 0 0 0                    and which stretch each is in
//
// Counted block by block and listed in a second look, in order, that only blocks with something to list take.
#include "wide/complex_words.cuh"

namespace gpusort {

constexpr int kTieThreads = 256;  // TIE_THREADS in ties.py
constexpr int kTieKeys = 8;       // a thread; TIE_KEYS in ties.py
constexpr int kTieTile = kTieThreads * kTieKeys;
constexpr int kMostShort = 8;      // keys that one thread sorts by insertion: 28 comparisons at most
constexpr int kStretchShift = 32;  // of the number of stretches, above that of keys: both are counted at once

// Keys tie that are equal in the words, and were in one stretch before (`stretch`, if there is one).
template <class Word>
struct SortedWords {
    const Word* words;
    const u32* stretch;
    Offset n;

    __device__ __forceinline__ bool tie(Offset i, Offset j) const {
        return words[i] == words[j] && (!stretch || stretch[i] == stretch[j]);
    }
    __device__ __forceinline__ bool ties_before(Offset i) const { return i > 0 && i < n && tie(i - 1, i); }

    // Keys from key i on that tie with it, itself included; no more than `most` + 1 are looked at.
    __device__ __forceinline__ int length_from(Offset i, int most) const {
        int length = 1;
        while (length <= most && ties_before(i + length)) ++length;
        return length;
    }

    // Whether key i is in a stretch of more than `most` keys. In the midst of a very long one, two looks say so.
    __device__ __forceinline__ bool is_long(Offset i, int most) const {
        if (i + most < n && tie(i, i + most)) return true;
        int length = length_from(i, most);
        for (Offset k = i; length <= most && ties_before(k); --k) ++length;
        return length > most;
    }

    // Whether any key that a thread has of a tile ties, or the key past the tile: a stretch may begin with the tile's
    // last. No load waits for another one, as nearly always there is nothing more to do.
    __device__ __forceinline__ bool any_tie(Offset tile) const {
        Word here[kTieKeys], before[kTieKeys];
#pragma unroll
        for (int k = 0; k < kTieKeys; ++k) {
            const Offset i = min(tile + k * kTieThreads + threadIdx.x, n - 1);
            here[k] = words[i];
            before[k] = words[i > 0 ? i - 1 : 0];
        }
        bool any = threadIdx.x == 0 && ties_before(tile + kTieTile);
#pragma unroll
        for (int k = 0; k < kTieKeys; ++k) {
            if (here[k] == before[k]) any |= ties_before(tile + k * kTieThreads + threadIdx.x);
        }
        return any;
    }

    // Adds up to keys in long stretches, and above them such stretches, each at its first key.
    template <int kMost>
    __device__ __forceinline__ u64 count(Offset i) const {
        if (i >= n || !is_long(i, kMost)) return 0;
        return 1 + (u64(!ties_before(i)) << kStretchShift);
    }
};

// How keys are compared that tie in a word. `keys` are in any order, and sorted elements tell which; kMost: keys of the
// longest stretch that is sorted at once.

// Not at all: every stretch is listed.
struct Listed {
    static constexpr int kMost = 1;
    using Element = long long;
    static __device__ __forceinline__ bool less(const u64*, Offset, Element, Element) { return false; }
};

// Positions of rows of `width` words.
struct ByRows {
    static constexpr int kMost = kMostShort;
    using Element = long long;
    static __device__ __forceinline__ bool less(const u64* rows, Offset width, Element a, Element b) {
        for (Offset w = 0; w < width; ++w) {
            const u64 of_a = rows[a * width + w], of_b = rows[b * width + w];
            if (of_a != of_b) return of_a < of_b;
        }
        return false;
    }
};

// Positions of complex128 keys.
template <bool kDescending>
struct ByComplex {
    static constexpr int kMost = kMostShort;
    using Element = long long;
    static __device__ __forceinline__ bool less(const u64* keys, Offset, Element a, Element b) {
        const ComplexKey* complex = reinterpret_cast<const ComplexKey*>(keys);
        return complex_words<kDescending>(complex[a]) < complex_words<kDescending>(complex[b]);
    }
};

// complex128 keys that were moved themselves.
template <bool kDescending>
struct MovedComplex {
    static constexpr int kMost = kMostShort;
    using Element = ComplexKey;
    static __device__ __forceinline__ bool less(const u64*, Offset, const Element& a, const Element& b) {
        return complex_words<kDescending>(a) < complex_words<kDescending>(b);
    }
};

// Stable, by insertion.
template <class Order>
__device__ __forceinline__ void sort_stretch(const u64* keys, Offset width, typename Order::Element* elements,
                                             int length) {
    for (int i = 1; i < length; ++i) {
        const typename Order::Element moving = elements[i];
        int place = i;
        for (; place > 0 && Order::less(keys, width, moving, elements[place - 1]); --place) {
            elements[place] = elements[place - 1];
        }
        elements[place] = moving;
    }
}

// Sorts the elements of short stretches, and counts what is in long ones: counts (blocks), and their sum, from zero.
template <class Word, class Order>
__global__ void __launch_bounds__(kTieThreads)
    resolve_ties(const Word* words, const u32* stretch, Offset n, const u64* keys, Offset width,
                 typename Order::Element* elements, u64* counts, u64* total) {
    using Scan = LeanScan<u64, kTieThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const SortedWords<Word> sorted{words, stretch, n};
    const Offset tile = Offset(blockIdx.x) * kTieTile;
    if (!__syncthreads_or(sorted.any_tie(tile))) {
        if (threadIdx.x == 0) counts[blockIdx.x] = 0;
        return;
    }
    u64 count = 0;
#pragma unroll 1
    for (int k = 0; k < kTieKeys; ++k) {
        const Offset i = tile + k * kTieThreads + threadIdx.x;
        count += sorted.template count<Order::kMost>(i);
        if (Order::kMost == 1 || i >= n || sorted.ties_before(i)) continue;
        const int length = sorted.length_from(i, Order::kMost);
        if (length <= Order::kMost) sort_stretch<Order>(keys, width, elements + i, length);
    }
    Scan::exclusive(count, shared);
    if (threadIdx.x != 0) return;
    count = shared.before[Scan::kWarps];
    counts[blockIdx.x] = count;
    if (count) atomicAdd(total, count);
}

// Lists what resolve_ties counted, whose counts are now the sums of all earlier ones: places and numbers, in order.
template <class Word, int kMost>
__global__ void __launch_bounds__(kTieThreads)
    list_ties(const Word* words, const u32* stretch, Offset n, const u64* counts, const u64* total, long long* places,
              u32* numbers) {
    using Scan = LeanScan<u64, kTieThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const bool last = blockIdx.x + 1 == gridDim.x;
    const u64 before_block = counts[blockIdx.x];
    if (before_block == (last ? *total : counts[blockIdx.x + 1])) return;  // nothing to list, for the whole block
    const SortedWords<Word> sorted{words, stretch, n};
    const Offset first = (Offset(blockIdx.x) * kTieThreads + threadIdx.x) * kTieKeys;
    u64 found[kTieKeys], count = 0;
#pragma unroll
    for (int k = 0; k < kTieKeys; ++k) {
        found[k] = sorted.template count<kMost>(first + k);
        count += found[k];
    }
    u64 before = before_block + Scan::exclusive(count, shared);
#pragma unroll
    for (int k = 0; k < kTieKeys; ++k) {
        const u64 up_to = before + found[k];
        if (up_to != before) {
            places[u32(before)] = (long long)(first + k);
            numbers[u32(before)] = u32((up_to >> kStretchShift) - 1);
        }
        before = up_to;
    }
}

// values_out[places[i]] = values_in[i].
template <class Value>
__global__ void __launch_bounds__(kTieThreads)
    put_back(const Value* values_in, const long long* places, Value* values_out, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) values_out[places[i]] = values_in[i];
}

}  // namespace gpusort
