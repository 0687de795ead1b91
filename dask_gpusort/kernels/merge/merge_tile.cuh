// Merge path: where two sorted runs are cut so that equal parts of the merged run can be made independently.
//
// Odeh, Green, Mwassi, Shmueli and Birk, "Merge Path - Parallel Merging Made Simple" (IPDPS workshops 2012); Green,
// McColl and Bader, "GPU Merge Path" (ICS 2012). It replaces the samples of Satish, Harris and Garland (IPDPS 2009,
// section 5), whose parts differ in size. The same search cuts runs of an array between blocks and runs of a tile
// between threads.
//
//          b0 b1 b2 b3      the merged run is a path from the upper left to the lower right: right takes from b,
//        +--+--+--+--+      down takes from a. On the diagonal d the path has taken d keys; it crosses where
//     a0 |  .  /            a[i - 1] <= b[d - i] and b[d - i - 1] < a[i]: at equal keys it goes down first, so
//     a1 |  /               that a's equal keys come before b's (stable).
//     a2 /
#pragma once
#include "keys/elements.cuh"
#include "primitives/basics.cuh"

namespace gpusort {

// Number of keys taken from `a` among the first `diagonal` of the merged run. Whatever the comparison returns, the
// result i has 0 <= i <= a_size and 0 <= diagonal - i <= b_size.
template <class Less, class Index, class Key>
__device__ __forceinline__ Index merge_path(const Key* a, Index a_size, const Key* b, Index b_size, Index diagonal) {
    const Index low = diagonal > b_size ? diagonal - b_size : 0;
    const Index high = diagonal < a_size ? diagonal : a_size;
    return partition_point(low, high, [&](Index i) { return !Less::less(b[diagonal - 1 - i], a[i]); });
}

// Merges kItems keys of the runs [a, middle) and [b, end) of one array, into registers; `from` gets their offsets. Past
// the end of both runs, `merged` holds anything, and `from` offsets of `end` or more.
template <class Less, int kItems, class Key>
__device__ __forceinline__ void merge_serially(const Key* keys, int a, int middle, int b, int end,
                                               Key (&merged)[kItems], int (&from)[kItems]) {
    Key a_key{}, b_key{};
    if (a < end) a_key = keys[a];
    if (b < end) b_key = keys[b];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const bool take_a = b >= end || (a < middle && !Less::less(b_key, a_key));
        merged[k] = take_a ? a_key : b_key;
        from[k] = take_a ? (a < middle ? a : end) : b;
        const int next = take_a ? ++a : ++b;
        if (k + 1 == kItems || next >= end) continue;
        if (take_a) a_key = keys[next];
        else b_key = keys[next];
    }
}

// Sorting and merging in the shared memory of one block.
//
//   registers   k k k | k k k | k k k | k k k      kItems neighbours per thread, sorted by odd-even transposition
//   round 1     a a a   b b b | a a a   b b b      each thread finds its diagonal by merge path and merges kItems keys
//   round 2     a a a   a a a   b b b   b b b      serially, from shared memory to registers
//
// kItems is odd, so that the threads' strips begin in different banks. Satish, Harris and Garland (IPDPS 2009, section
// 5) sort tiles by Batcher's network instead (papers/odd_even_merge.cu).

// Runs [a, b) and [b, end) of a tile, and where this thread's share of the merged run begins.
struct RunPair {
    int a, b, end, diagonal;
};

// A block's tile of `count` keys. Each thread has kItems of them in registers: striped (every kThreads-th key) for
// coalesced access to memory, or its strip of neighbours for sorting and merging.
template <class Code_, class Value_, class Less, int kThreads, int kItems>
struct MergeTile {
    using Code = Code_;
    using Value = Value_;
    static constexpr int kKeys = kThreads * kItems;
    static constexpr bool kValues = kHasValues<Value>;

    struct alignas(16) SharedStorage {
        Code codes[kKeys];
        alignas(16) Value values[kValues ? kKeys : 1];
    };

    SharedStorage& shared;
    const int count;
    Code codes[kItems];
    Value values[kItems];

    __device__ __forceinline__ MergeTile(unsigned char* memory, int keys)
        : shared(*reinterpret_cast<SharedStorage*>(memory)), count(keys) {}

    // Offset of this thread's strip in the tile.
    static __device__ __forceinline__ int strip() { return int(threadIdx.x) * kItems; }

    // Calls visit(k, i) for this thread's striped items: item k is key i of the tile.
    template <class Visit>
    __device__ __forceinline__ void for_each_striped(Visit visit) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = k * kThreads + threadIdx.x;
            if (i < count) visit(k, i);
        }
    }

    __device__ __forceinline__ void put_item(int k, int i) {
        shared.codes[i] = codes[k];
        if constexpr (kValues) shared.values[i] = values[k];
    }

    __device__ __forceinline__ void put_striped() {
        for_each_striped([&](int k, int i) { put_item(k, i); });
    }

    // Puts the strip, the items past the tile's end too: the storage holds kKeys.
    __device__ __forceinline__ void put_strip() {
#pragma unroll
        for (int k = 0; k < kItems; ++k) put_item(k, strip() + k);
    }

    __device__ __forceinline__ void take_strip() {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            codes[k] = shared.codes[strip() + k];
            if constexpr (kValues) values[k] = shared.values[strip() + k];
        }
    }

    // Exchanges items k and k + 1 of the strip if `swap`.
    __device__ __forceinline__ void exchange_items(int k, bool swap) {
        const Code low = swap ? codes[k + 1] : codes[k];
        codes[k + 1] = swap ? codes[k] : codes[k + 1];
        codes[k] = low;
        if constexpr (kValues) {
            const Value first = swap ? values[k + 1] : values[k];
            values[k + 1] = swap ? values[k] : values[k + 1];
            values[k] = first;
        }
    }

    // Odd-even transposition: it exchanges neighbours only where the later one is less, and so is stable.
    __device__ __forceinline__ void sort_strip() {
        const int valid = count - strip();
#pragma unroll
        for (int round = 0; round < kItems; ++round) {
#pragma unroll
            for (int k = round % 2; k + 1 < kItems; k += 2) {
                exchange_items(k, k + 1 < valid && Less::less(codes[k + 1], codes[k]));
            }
        }
    }

    // Merges this thread's share of a pair of runs, from shared memory into registers.
    __device__ __forceinline__ void merge(const RunPair& pair) {
        const int a = pair.a, b = pair.b, end = pair.end;
        const int from_a = merge_path<Less>(shared.codes + a, b - a, shared.codes + b, end - b, pair.diagonal);
        int from[kItems];
        merge_serially<Less>(shared.codes, a + from_a, b, b + pair.diagonal - from_a, end, codes, from);
        if constexpr (kValues) {
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                if (from[k] < end) values[k] = shared.values[from[k]];
            }
        }
    }

    // Merges this thread's strip of the whole tile, whose second run begins at `middle`.
    __device__ __forceinline__ void merge_whole(int middle) { merge({0, middle, count, min(strip(), count)}); }

    // The pair of runs that `lanes` neighbouring threads merge, each run the strips of half of them.
    __device__ __forceinline__ RunPair pair_of_lanes(int lanes) const {
        const int lane = int(threadIdx.x) % lanes;
        const int a = min((int(threadIdx.x) - lane) * kItems, count);
        const int b = min(a + lanes / 2 * kItems, count), end = min(a + lanes * kItems, count);
        return {a, b, end, min(lane * kItems, end - a)};
    }

    // Waits for the threads that share a pair of runs: a warp or less, or the block.
    static __device__ __forceinline__ void wait(int lanes) {
        if (lanes <= kWarpThreads) return __syncwarp();
        __syncthreads();  // all of the pair is written before it is read, or read before it is overwritten
    }

    // Sorts the tile, whose strips the threads hold, into shared memory.
    __device__ __forceinline__ void sort() {
        sort_strip();
        for (int lanes = 2; lanes <= kThreads; lanes *= 2) {
            wait(lanes / 2);
            put_strip();
            wait(lanes);
            merge(pair_of_lanes(lanes));
        }
        __syncthreads();  // all keys are read before the sorted ones overwrite them
        put_strip();
        __syncthreads();  // the tile is complete before it is stored
    }

    // Stores the tile from shared memory to the outputs from offset `first` on, coalesced.
    template <class Sink>
    __device__ __forceinline__ void store(void* keys_out, void* values_out, Offset first) {
        for_each_striped([&](int, int i) {
            Sink::store(keys_out, values_out, first + i, shared.codes[i], shared.values[kValues ? i : 0]);
        });
    }
};

// Merging runs in parts: what a part is, and how a pair of runs is cut into parts.
//
//   run a   | . . . [ a_count ] . . . |
//   run b   | . [ b_count ] . . . . . |        runs may be anywhere in memory
//   out     | . . . . [ a_count + b_count ] . . |
//
// The plan of a level is one Part per block of merge.cu, for runs of equal width or listed ones.
// Parts are cut by merge path (Odeh et al., IPDPS workshops 2012; Green, McColl and Bader, ICS 2012).

// Parts that a block plans, plus one: each thread searches one diagonal, and its part ends at the next thread's.
constexpr int kPlanThreads = 128;

// Two runs to merge. Where values are null, the value of a key is its position in the concatenation of all runs.
struct Pair {
    const void* keys_a;
    const void* keys_b;
    const void* values_a;
    const void* values_b;
    Offset a_size, b_size;
    Offset out;         // offset of the merged run
    Offset first_part;  // number of its first part
};

// One block's share of a pair: a slice of each run.
struct Part {
    const void* keys_a;
    const void* keys_b;
    const void* values_a;
    const void* values_b;
    Offset position_a, position_b;  // in the concatenation of all runs
    Offset out;
    u32 a_count, b_count;
};
constexpr int kPartBytes = 64;
static_assert(sizeof(Part) == kPartBytes, "the host allocates so many bytes");

template <class Code, class Value>
__device__ __forceinline__ Part make_part(const Pair& pair, Offset a, Offset b, Offset a_count, Offset b_count) {
    Part part;
    part.keys_a = static_cast<const Code*>(pair.keys_a) + a;
    part.keys_b = static_cast<const Code*>(pair.keys_b) + b;
    part.values_a = pair.values_a ? static_cast<const Value*>(pair.values_a) + a : nullptr;
    part.values_b = pair.values_b ? static_cast<const Value*>(pair.values_b) + b : nullptr;
    part.position_a = pair.out + a;
    part.position_b = pair.out + pair.a_size + b;
    part.out = pair.out + a + b;
    part.a_count = u32(a_count);
    part.b_count = u32(b_count);
    return part;
}

// Pair p of an array of runs of `width` keys each; the last run may be shorter, or absent.
template <class Code, class Value>
__device__ __forceinline__ Pair pair_of_runs(const Code* codes, const Value* values, Offset n, Offset width, Offset p,
                                             Offset first_part) {
    const Offset a = min(2 * p * width, n), b = min(a + width, n), end = min(b + width, n);
    Pair pair;
    pair.keys_a = codes + a;
    pair.keys_b = codes + b;
    pair.values_a = values ? values + a : nullptr;
    pair.values_b = values ? values + b : nullptr;
    pair.a_size = b - a;
    pair.b_size = end - b;
    pair.out = a;
    pair.first_part = first_part;
    return pair;
}

// Neighbouring blocks share one part, so that each thread but the last finds the end of its part in the next thread.
__device__ __forceinline__ Offset part_of_thread() { return Offset(blockIdx.x) * (kPlanThreads - 1) + threadIdx.x; }

// Plans one part of a pair: from its diagonal to the next thread's, or to the end of the pair.
template <class Code, class Value, class Less, int kPartKeys>
__device__ __forceinline__ void plan_part(const Pair& pair, Offset part, Part* parts, Offset num_parts) {
    __shared__ Offset cuts[kPlanThreads];
    const Offset size = pair.a_size + pair.b_size;
    const Offset diagonal = min((part - pair.first_part) * kPartKeys, size);
    const Offset next = min(diagonal + kPartKeys, size);
    const Offset a = merge_path<Less>(static_cast<const Code*>(pair.keys_a), pair.a_size,
                                      static_cast<const Code*>(pair.keys_b), pair.b_size, diagonal);
    cuts[threadIdx.x] = a;
    __syncthreads();  // every cut is there before the neighbour reads it
    if (threadIdx.x == kPlanThreads - 1 || part >= num_parts) return;
    const Offset a_end = next == size ? pair.a_size : cuts[threadIdx.x + 1];
    // A comparison that is no order may give descending cuts: a_count is clamped, so that both slices stay in their
    // runs.
    const Offset a_count = min(a_end > a ? a_end - a : 0, next - diagonal);
    parts[part] = make_part<Code, Value>(pair, a, diagonal - a, a_count, next - diagonal - a_count);
}

// Loads key i of a part: the slice of run a, then the slice of run b.
template <class Code, class Value>
__device__ __forceinline__ void load_element(const Part& part, u32 i, Code& code, Value& value) {
    const bool of_a = i < part.a_count;
    const u32 j = of_a ? i : i - part.a_count;
    code = static_cast<const Code*>(of_a ? part.keys_a : part.keys_b)[j];
    if constexpr (kHasValues<Value>) {
        const Value* values = static_cast<const Value*>(of_a ? part.values_a : part.values_b);
        value = values ? values[j] : Value((of_a ? part.position_a : part.position_b) + j);
    }
}

}  // namespace gpusort
