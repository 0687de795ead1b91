// Tie groups: keys that are equal in the words sorted so far. One thread sorts a small group; large groups are listed,
// to be sorted by the next word.
//
//   words     1 2 2 3 4 4 4 4 4 5 6 6 6 6          sorted
//   groups      ---   =========   -------          --- small, here up to 4 keys; === large
//   offsets           4 5 6 7 8                    of the keys of large groups
//   numbers           0 0 0 0 0                    of their groups
//
// `resolve_ties` counts the keys of large groups in each tile; `list_ties` lists them in order. Tiles without such keys
// are not read again.
#include "wide/columns.cuh"

namespace gpusort {

constexpr int kTieThreads = 256;
constexpr int kTieKeys = 8;  // of one thread
constexpr int kTieTile = kTieThreads * kTieKeys;
constexpr int kSmallGroup = 8;   // most keys that one thread sorts by insertion, with 28 comparisons at most
constexpr int kGroupShift = 32;  // counts hold the number of large groups above the number of their keys

// n keys in the order of the words so far: the last of these words and, if there is one, the tie group by the words
// before. Keys with equal words in one group tie.
template <class Word>
struct SortedPrefix {
    const Word* words;
    const u32* groups;
    Offset n;

    __device__ __forceinline__ bool tie(Offset i, Offset j) const {
        return words[i] == words[j] && (!groups || groups[i] == groups[j]);
    }
    __device__ __forceinline__ bool ties_before(Offset i) const { return i > 0 && i < n && tie(i - 1, i); }

    // Keys from key i on that tie with it, itself included; `most` + 1 if they are more than `most`.
    __device__ __forceinline__ int size_from(Offset i, int most) const {
        int size = 1;
        while (size <= most && ties_before(i + size)) ++size;
        return size;
    }

    // Whether the group of key i has more than `most` keys. Inside a very large group one comparison decides.
    __device__ __forceinline__ bool is_large(Offset i, int most) const {
        if (i + most < n && tie(i, i + most)) return true;
        int size = size_from(i, most);
        for (Offset k = i; size <= most && ties_before(k); --k) ++size;
        return size > most;
    }

    // Whether any of this thread's keys of a tile ties with the key before; thread 0 also looks at the key after the
    // tile, as a group may begin with the tile's last key. All loads are independent: usually there are no ties.
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

    // What key i adds to the counts: itself if its group is large, and the group if it is the group's first key.
    template <int kMost>
    __device__ __forceinline__ u64 count(Offset i) const {
        if (i >= n || !is_large(i, kMost)) return 0;
        return 1 + (u64(!ties_before(i)) << kGroupShift);
    }
};

// How the elements of a small group are compared by the words that follow. Elements are positions in `keys`, or the
// keys themselves; `width` is the number of words of a row. kMost: keys of the largest group that is sorted.

// Not at all: all groups are listed.
struct ListAll {
    static constexpr int kMost = 1;
    using Element = long long;
    static __device__ __forceinline__ bool less(const u64*, Offset, Element, Element) { return false; }
};

struct RowPositions {
    static constexpr int kMost = kSmallGroup;
    using Element = long long;
    static __device__ __forceinline__ bool less(const u64* rows, Offset width, Element a, Element b) {
        for (Offset w = 0; w < width; ++w) {
            const u64 of_a = rows[a * width + w], of_b = rows[b * width + w];
            if (of_a != of_b) return of_a < of_b;
        }
        return false;
    }
};

template <bool kDescending>
struct ComplexPositions {
    static constexpr int kMost = kSmallGroup;
    using Element = long long;
    static __device__ __forceinline__ bool less(const u64* keys, Offset, Element a, Element b) {
        const ComplexKey* complex = reinterpret_cast<const ComplexKey*>(keys);
        return complex_words<kDescending>(complex[a]) < complex_words<kDescending>(complex[b]);
    }
};

template <bool kDescending>
struct ComplexKeys {
    static constexpr int kMost = kSmallGroup;
    using Element = ComplexKey;
    static __device__ __forceinline__ bool less(const u64*, Offset, const Element& a, const Element& b) {
        return complex_words<kDescending>(a) < complex_words<kDescending>(b);
    }
};

// Stable.
template <class Order>
__device__ __forceinline__ void insertion_sort(const u64* keys, Offset width, typename Order::Element* elements,
                                               int size) {
    for (int i = 1; i < size; ++i) {
        const typename Order::Element element = elements[i];
        int offset = i;
        for (; offset > 0 && Order::less(keys, width, element, elements[offset - 1]); --offset) {
            elements[offset] = elements[offset - 1];
        }
        elements[offset] = element;
    }
}

// Sorts the elements of small groups. counts (blocks): large groups and their keys in each tile; *total: the sum of all
// counts, zero at first.
template <class Word, class Order>
__global__ void __launch_bounds__(kTieThreads)
    resolve_ties(const Word* words, const u32* groups, Offset n, const u64* keys, Offset width,
                 typename Order::Element* elements, u64* counts, u64* total) {
    using Scan = BlockScan<u64, kTieThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const SortedPrefix<Word> sorted{words, groups, n};
    const Offset tile = Offset(blockIdx.x) * kTieTile;
    if (!__syncthreads_or(sorted.any_tie(tile))) {  // the whole block leaves
        if (threadIdx.x == 0) counts[blockIdx.x] = 0;
        return;
    }
    u64 count = 0;
#pragma unroll 1
    for (int k = 0; k < kTieKeys; ++k) {
        const Offset i = tile + k * kTieThreads + threadIdx.x;
        count += sorted.template count<Order::kMost>(i);
        if (Order::kMost == 1 || i >= n || sorted.ties_before(i)) continue;
        const int size = sorted.size_from(i, Order::kMost);
        if (size <= Order::kMost) insertion_sort<Order>(keys, width, elements + i, size);
    }
    Scan::exclusive(count, shared);
    if (threadIdx.x != 0) return;
    count = shared.before[Scan::kWarps];
    counts[blockIdx.x] = count;
    if (count) atomicAdd(total, count);
}

// Lists the keys of large groups in order: their offsets, and the numbers of their groups. counts (blocks): the
// exclusive scan of what resolve_ties counted.
template <class Word, int kMost>
__global__ void __launch_bounds__(kTieThreads)
    list_ties(const Word* words, const u32* groups, Offset n, const u64* counts, const u64* total, long long* offsets,
              u32* numbers) {
    using Scan = BlockScan<u64, kTieThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const bool last = blockIdx.x + 1 == gridDim.x;
    const u64 before_block = counts[blockIdx.x];
    if (before_block == (last ? *total : counts[blockIdx.x + 1])) return;  // the whole block leaves
    const SortedPrefix<Word> sorted{words, groups, n};
    const Offset first = (Offset(blockIdx.x) * kTieThreads + threadIdx.x) * kTieKeys;
    u32 large = 0, firsts = 0;  // a bit a key
#pragma unroll 1
    for (int k = 0; k < kTieKeys; ++k) {
        const u64 found = sorted.template count<kMost>(first + k);
        large |= u32(found & 1) << k;
        firsts |= u32(found >> kGroupShift) << k;
    }
    const u64 count = (u64(__popc(firsts)) << kGroupShift) + __popc(large);
    u64 before = before_block + Scan::exclusive(count, shared);
#pragma unroll 1
    for (int k = 0; k < kTieKeys; ++k) {
        if (!(large >> k & 1)) continue;
        before += u64(firsts >> k & 1) << kGroupShift;
        offsets[u32(before)] = (long long)(first + k);
        numbers[u32(before)] = u32((before >> kGroupShift) - 1);
        ++before;
    }
}

}  // namespace gpusort
