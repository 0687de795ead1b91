// Reads the keys of a range once, in vectors of 16 bytes and in whole warps.
//
//   keys   | head |  vector  |  vector  | ... |  vector  | tail |      a thread takes kVectorsInFlight vectors a round
#pragma once
#include "buckets/count.cuh"

namespace gpusort {

constexpr int kVectorsInFlight = 2;  // a thread: one does not cover the latency of memory

// Calls take(keys, are_there) for all keys of a range. Every lane of a warp calls it as often as the others, so that
// `take` may contain warp collectives; keys of a lane whose `are_there` is false are undefined.
template <int kThreads, class Raw>
struct KeyStream {
    using Vector = KeyVector<Raw>;
    static constexpr int kKeys = kVectorBytes / sizeof(Raw);
    static_assert(kKeys <= kWarpThreads, "one warp takes the keys outside whole vectors");

    template <class Take>
    static __device__ __forceinline__ void take_vectors(const Vector* vectors, u32 num_vectors, Take& take) {
        const u32 lane = threadIdx.x % kWarpThreads;
        for (u32 first = threadIdx.x - lane; first < num_vectors; first += kVectorsInFlight * kThreads) {
            Vector loaded[kVectorsInFlight];
#pragma unroll
            for (int v = 0; v < kVectorsInFlight; ++v) {
                const u32 i = first + lane + v * kThreads;
                if (i < num_vectors) loaded[v] = vectors[i];
            }
#pragma unroll
            for (int v = 0; v < kVectorsInFlight; ++v) take(loaded[v].keys, first + lane + v * kThreads < num_vectors);
        }
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
