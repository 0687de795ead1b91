// A tile of keys in shared memory, and the stable 1-bit split that sorts it.
//
// Satish, Harris and Garland (IPDPS 2009), section 4.2 and figure 2; the split is Blelloch's. With several keys a
// thread, as the paper has it: thread t owns positions t * kKeysPerThread and the following, so that the order of
// threads is the order of keys.
//
//   bit of key    1 0 1 1 | 0 0 1 0        rank of a key whose bit is 1:  zeros + ones before it
//   ones before   0 1 1 2 | 3 3 3 4                               is 0:  position - ones before it
//   rank          4 0 5 6 | 1 2 7 3        (zeros = keys of the tile whose bit is 0)
//
// The last tile of an array may be short: positions past `valid` hold nothing, are not counted and never written.
#pragma once
#include "primitives/scan.cuh"

namespace gpusort {

// Stands for the type of the values when keys travel alone.
struct NoValue {};

template <class Value>
constexpr bool kHasValues = true;
template <>
constexpr bool kHasValues<NoValue> = false;

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

    // Keys of the tile that starts at `first`, in an array of n.
    static __device__ __forceinline__ int count_valid(Offset n, Offset first) {
        return n - first < kKeys ? int(n - first) : kKeys;
    }

    // Copies a tile into shared memory, neighbouring threads reading neighbouring keys. A null `values_in` stands for
    // the positions of the keys in the whole array (what argsort sorts along). The caller's barrier comes after.
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

    // One stable split of the tile on one bit of the keys; gives the number of keys whose bit is 0. Before: a barrier
    // after the last write of the tile. After: the caller's barrier.
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
        // The scan's barrier also protects the tile: every key is in a register before any place is overwritten.
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
