// Satish, Harris and Garland (IPDPS 2009), section 4.2 and figure 2; Blelloch's split: a tile of keys in shared memory,
// and the stable 1-bit split that sorts it. As in the paper a thread has several keys: thread t holds the keys from
// position t * kKeysPerThread on, so that the order of threads is the order of keys.
//
//   bit of key    1 0 1 1 | 0 0 1 0        rank of a key whose bit is 1:  zeros + ones before it
//   ones before   0 1 1 2 | 3 3 3 4                               is 0:  position - ones before it
//   rank          4 0 5 6 | 1 2 7 3        (zeros = keys of the tile whose bit is 0)
//
// The last tile of an array may be short: positions from `valid` on are neither read nor written.
#pragma once
#include "primitives/block.cuh"

namespace gpusort {

template <class Key, class Value, int kThreads, int kKeysPerThread>
struct SplitTile {
    static constexpr int kKeys = kThreads * kKeysPerThread;
    static constexpr int kValues = kHasValues<Value> ? kKeys : 1;
    using Scan = BlockScan<unsigned, kThreads>;

    struct SharedStorage {
        Key keys[kKeys];
        Value values[kValues];
        typename Scan::SharedStorage scan;
    };

    // Number of keys of the tile at `first`, in an array of n.
    static __device__ __forceinline__ int count_valid(Offset n, Offset first) {
        return n - first < kKeys ? int(n - first) : kKeys;
    }

    // Copies a tile into shared memory; neighbouring threads read neighbouring keys. Where `values_in` is null, the
    // value of a key is its position in the array (for argsort). The caller puts a barrier after it.
    static __device__ __forceinline__ void load(const Key* keys_in, const Value* values_in, Offset first, int valid,
                                                SharedStorage& shared) {
#pragma unroll
        for (int k = 0; k < kKeysPerThread; ++k) {
            const int i = k * kThreads + threadIdx.x;
            if (i >= valid) break;
            shared.keys[i] = keys_in[first + i];
            if constexpr (kHasValues<Value>) shared.values[i] = values_in ? values_in[first + i] : Value(first + i);
        }
    }

    // Splits the tile by one bit of the keys, stably; returns the number of keys whose bit is 0. The caller puts a
    // barrier before it, after the last write of the tile, and one after it.
    static __device__ __forceinline__ int split(SharedStorage& shared, int valid, int bit) {
        Key keys[kKeysPerThread];
        Value values[kKeysPerThread];
        const int first = threadIdx.x * kKeysPerThread;
        unsigned ones = 0;
#pragma unroll
        for (int k = 0; k < kKeysPerThread; ++k) {
            if (first + k >= valid) break;
            keys[k] = shared.keys[first + k];
            if constexpr (kHasValues<Value>) values[k] = shared.values[first + k];
            ones += unsigned(keys[k] >> bit) & 1;
        }
        unsigned all_ones;
        // The scan's barriers also protect the tile: every key is in a register before any is overwritten.
        unsigned ones_before = Scan::exclusive(ones, shared.scan, all_ones);
        const int zeros = valid - int(all_ones);
#pragma unroll
        for (int k = 0; k < kKeysPerThread; ++k) {
            if (first + k >= valid) break;
            const unsigned is_one = unsigned(keys[k] >> bit) & 1;
            const int rank = is_one ? zeros + ones_before : first + k - ones_before;
            shared.keys[rank] = keys[k];
            if constexpr (kHasValues<Value>) shared.values[rank] = values[k];
            ones_before += is_one;
        }
        return zeros;
    }
};

// Satish, Harris and Garland (IPDPS 2009), section 4.2, step 2: the buckets of a tile that is sorted by one digit. A
// bucket begins where the digit differs from the one before, and ends where it differs from the one after.
//
//   digits   0 0 0 2 2 5          begin[2] = 3, end[2] = 5; digits that do not occur have begin = end = 0

template <int kRadixBits, class Key>
__device__ __forceinline__ int digit_of(Key key, int shift) {
    return int(key >> shift) & ((1 << kRadixBits) - 1);
}

template <int kRadixBits>
struct Buckets {
    static constexpr int kRadix = 1 << kRadixBits;
    int begin[kRadix];
    int end[kRadix];

    // Calls visit(digit) for this thread's share of all digits: a block may have fewer threads than digits.
    template <int kThreads, class Visit>
    static __device__ __forceinline__ void for_each_digit(Visit visit) {
        for (int digit = threadIdx.x; digit < kRadix; digit += kThreads) visit(digit);
    }

    // Makes every bucket empty. The caller puts a barrier between this and `find`.
    template <int kThreads>
    __device__ __forceinline__ void clear() {
        for_each_digit<kThreads>([&](int digit) { begin[digit] = end[digit] = 0; });
    }

    // Finds the buckets of `valid` sorted keys in shared memory. The caller puts a barrier after it.
    template <int kThreads, class Key>
    __device__ __forceinline__ void find(const Key* sorted, int valid, int shift) {
        for (int i = threadIdx.x; i < valid; i += kThreads) {
            const int digit = digit_of<kRadixBits>(sorted[i], shift);
            if (i == 0 || digit_of<kRadixBits>(sorted[i - 1], shift) != digit) begin[digit] = i;
            if (i == valid - 1 || digit_of<kRadixBits>(sorted[i + 1], shift) != digit) end[digit] = i + 1;
        }
    }
};

}  // namespace gpusort
