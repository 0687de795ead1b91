// Sorting and merging in the shared memory of one block.
//
//   registers   k k k | k k k | k k k | k k k      kItems neighbours per thread, sorted by odd-even transposition
//   round 1     a a a   b b b | a a a   b b b      each thread finds its diagonal by merge path and merges kItems keys
//   round 2     a a a   a a a   b b b   b b b      serially, from shared memory to registers
//
// kItems is odd, so that the threads' strips begin in different banks. Satish, Harris and Garland (IPDPS 2009, section
// 5) sort tiles by Batcher's network instead (papers/odd_even_merge.cu).
#pragma once
#include "keys/less.cuh"
#include "merge/merge_path.cuh"

namespace gpusort {

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

}  // namespace gpusort
