// Sorting and merging in the shared memory of one block.
//
//   registers   k k k | k k k | k k k | k k k      kItems neighbours a thread, sorted by odd-even transposition
//   round 1     a a a   b b b | a a a   b b b      each thread finds its diagonal by merge path and merges kItems keys
//   round 2     a a a   a a a   b b b   b b b      serially, from shared memory to registers
//
// kItems is odd, so that the threads' strips begin in different banks.
#pragma once
#include "keys/less.cuh"
#include "merge/merge_path.cuh"

namespace gpusort {

template <class Code_, class Value_, class Less, int kThreads, int kItems>
struct MergeTile {
    using Code = Code_;
    using Value = Value_;
    static constexpr int kKeys = kThreads * kItems;
    static constexpr bool kValues = kHasPayload<Value>;

    struct alignas(16) SharedStorage {
        Code codes[kKeys];
        alignas(16) Value values[kValues ? kKeys : 1];
    };

    // This thread's strip of the tile, and how much of it there is.
    static __device__ __forceinline__ int strip() { return int(threadIdx.x) * kItems; }

    static __device__ __forceinline__ void put(const Code (&codes)[kItems], const Value (&values)[kItems],
                                               SharedStorage& shared) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            shared.codes[strip() + k] = codes[k];
            if constexpr (kValues) shared.values[strip() + k] = values[k];
        }
    }

    // Puts this thread's keys from place `first` on, as far as `end`.
    static __device__ __forceinline__ void put_some(const Code (&codes)[kItems], const Value (&values)[kItems],
                                                    int first, int end, SharedStorage& shared) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (first + k >= end) continue;
            shared.codes[first + k] = codes[k];
            if constexpr (kValues) shared.values[first + k] = values[k];
        }
    }

    static __device__ __forceinline__ void put_striped(const Code (&codes)[kItems], const Value (&values)[kItems],
                                                       int count, SharedStorage& shared) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = k * kThreads + threadIdx.x;
            if (i >= count) continue;
            shared.codes[i] = codes[k];
            if constexpr (kValues) shared.values[i] = values[k];
        }
    }

    static __device__ __forceinline__ void take(const SharedStorage& shared, Code (&codes)[kItems],
                                                Value (&values)[kItems]) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            codes[k] = shared.codes[strip() + k];
            if constexpr (kValues) values[k] = shared.values[strip() + k];
        }
    }

    // Odd-even transposition: neighbours are exchanged only where the later is less, so it is stable. The first `valid`
    // of the strip are there.
    static __device__ __forceinline__ void sort_strip(Code (&codes)[kItems], Value (&values)[kItems], int valid) {
#pragma unroll
        for (int round = 0; round < kItems; ++round) {
#pragma unroll
            for (int k = round % 2; k + 1 < kItems; k += 2) {
                const bool swap = k + 1 < valid && Less::less(codes[k + 1], codes[k]);
                const Code low = swap ? codes[k + 1] : codes[k];
                codes[k + 1] = swap ? codes[k] : codes[k + 1];
                codes[k] = low;
                if constexpr (kValues) {
                    const Value first = swap ? values[k + 1] : values[k];
                    values[k + 1] = swap ? values[k] : values[k + 1];
                    values[k] = first;
                }
            }
        }
    }

    // This thread's share of the merge of [a, b) and [b, end) of the tile: kItems keys from the diagonal on.
    static __device__ __forceinline__ void merge_share(const SharedStorage& shared, int a, int b, int end, int diagonal,
                                                       Code (&codes)[kItems], Value (&values)[kItems]) {
        const int from_a = merge_path<Less>(shared.codes + a, b - a, shared.codes + b, end - b, diagonal);
        int from[kItems];
        merge_serially<Less>(shared.codes, a + from_a, b, b + diagonal - from_a, end, codes, from);
        if constexpr (kValues) {
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                if (from[k] < end) values[k] = shared.values[from[k]];
            }
        }
    }

    // Waits for the threads that share a pair of runs: a warp or less, or the block.
    static __device__ __forceinline__ void wait(int lanes) {
        if (lanes <= kWarpThreads) return __syncwarp();
        __syncthreads();  // all of the pair is written before it is read, or read before it is overwritten
    }

    // Sorts the tile's `count` keys, which every thread holds its strip of; ends with all of them in shared memory.
    static __device__ __forceinline__ void sort(Code (&codes)[kItems], Value (&values)[kItems], int count,
                                                SharedStorage& shared) {
        sort_strip(codes, values, count - strip());
        for (int lanes = 2; lanes <= kThreads; lanes *= 2) {
            wait(lanes / 2);
            put(codes, values, shared);
            wait(lanes);
            const int lane = int(threadIdx.x) % lanes;
            const int a = min((int(threadIdx.x) - lane) * kItems, count);
            const int b = min(a + lanes / 2 * kItems, count), end = min(a + lanes * kItems, count);
            merge_share(shared, a, b, end, min(lane * kItems, end - a), codes, values);
        }
        __syncthreads();  // all are read before the sorted keys take their places
        put(codes, values, shared);
        __syncthreads();  // the tile is complete before it is stored
    }

    // Stores the tile, striped over the threads.
    template <class Sink>
    static __device__ __forceinline__ void store(const SharedStorage& shared, int count, void* keys_out,
                                                 void* values_out, Offset first) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = k * kThreads + threadIdx.x;
            if (i >= count) continue;
            Sink::store(keys_out, values_out, first + i, shared.codes[i], shared.values[kValues ? i : 0]);
        }
    }
};

}  // namespace gpusort
