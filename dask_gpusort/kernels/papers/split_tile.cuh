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

}  // namespace gpusort
