// Reads the keys of a range once, in vectors of 16 bytes and in whole warps.
//
//   keys   | head |  vector  |  vector  | ... |  vector  | tail |      a thread takes kVectorsInFlight vectors a round
#pragma once
#include "buckets/count.cuh"

namespace gpusort {

// Vectors of a round: one in flight a thread does not cover the latency of memory. Two of narrow keys take too many
// registers, and the work on their many keys covers it.
template <class Raw>
constexpr int kRoundVectors = sizeof(Raw) < sizeof(u32) ? 1 : 2;
constexpr u32 kMostRoundBytes = kWarpThreads * 2 * kVectorBytes;  // of a warp

// Calls take(keys, are_there) for all keys of a range. Every lane of a warp calls it as often as the others, so that
// `take` may contain warp collectives; keys of a lane whose `are_there` is false are undefined.
template <int kThreads, class Raw>
struct KeyStream {
    using Vector = KeyVector<Raw>;
    static constexpr int kKeys = kVectorBytes / sizeof(Raw);
    static_assert(kKeys <= kWarpThreads, "one warp takes the keys outside whole vectors");

    // The vectors of a thread are kThreads apart, so that a warp reads neighbours.
    template <int kVectors, class Take>
    static __device__ __forceinline__ void take_round(const Vector* vectors, bool are_there, Take& take) {
        Vector loaded[kVectors];
        Raw keys[kVectors * kKeys];
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if (are_there) loaded[v] = vectors[v * kThreads];
        }
#pragma unroll
        for (int k = 0; k < kVectors * kKeys; ++k) keys[k] = loaded[k / kKeys].keys[k % kKeys];
        take(keys, are_there);
    }

    template <class Take>
    static __device__ __forceinline__ void take_vectors(const Vector* vectors, u32 num_vectors, Take& take) {
        constexpr u32 kVectors = kRoundVectors<Raw>, kBehind = (kVectors - 1) * kThreads + kWarpThreads;
        const u32 lane = threadIdx.x % kWarpThreads;
        u32 first = threadIdx.x - lane;  // of the warp
        for (; first + kBehind <= num_vectors; first += kVectors * kThreads)
            take_round<kVectors>(vectors + first + lane, true, take);
        for (; first < num_vectors; first += kThreads)
            take_round<1>(vectors + first + lane, first + lane < num_vectors, take);
    }

    // Fewer keys than a vector has.
    template <class Take>
    static __device__ __forceinline__ void take_few(const Raw* keys, u32 count, Take& take) {
        const bool is_there = threadIdx.x < count;
        const Raw key[] = {is_there ? keys[threadIdx.x] : Raw(0)};
        take(key, is_there);
    }

    template <class Take>
    static __device__ __forceinline__ void run(const Raw* keys, u32 count, Take take) {
        const u32 unaligned = u32((0 - reinterpret_cast<Offset>(keys)) % kVectorBytes / sizeof(Raw));
        const u32 head = min(unaligned, count);
        const u32 num_vectors = (count - head) / kKeys, tail = head + num_vectors * kKeys;
        take_vectors(reinterpret_cast<const Vector*>(keys + head), num_vectors, take);
        if (threadIdx.x >= kWarpThreads) return;
        take_few(keys, head, take);
        take_few(keys + tail, count - tail, take);
    }
};

}  // namespace gpusort
