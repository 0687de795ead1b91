// Counters for up to 2^16 fine buckets in the shared memory of one block: two 16-bit counters a word.
//
//   word w    | bucket 2w+1 : 16 bits | bucket 2w : 16 bits |      128 KiB hold 2^16 counters
//
// A thread that adds to a counter whose top bit is set clears the bit, and whoever cleared it adds as much to the
// global table. The counter has space for 2^15 more keys meanwhile, and no schedule of the threads fills it: a thread
// that has seen the bit adds no more before it has cleared it, and what all threads of a block can add until then is
// kMostPending keys. So a counter never overflows into its neighbour.
#pragma once
#include "policy/sizes.cuh"
#include "keys/elements.cuh"

namespace gpusort {

constexpr u32 kSpill = 1u << 15;  // the top bit of a counter, and the amount that it spills
constexpr int kVectorBytes = 16;  // widest load of one thread
constexpr u32 kMostPending = kFineCountThreads * kVectorBytes;  // a vector of keys of one byte for each thread
// What sets the bit, and all that see it.
static_assert(kWarpThreads * kVectorBytes + kMostPending < kSpill, "a counter never overflows");

template <class Raw>
struct alignas(kVectorBytes) KeyVector {
    Raw keys[kVectorBytes / sizeof(Raw)];
};

struct PackedCounters {
    u32* words;  // shared
    u64* table;  // global: two counts a word for fewer than 2^32 keys, else one (`wide`)
    bool wide;

    __device__ __forceinline__ void spill(u32 bucket, u64 amount) {
        if (wide) atomicAdd(&table[bucket], amount);
        else atomicAdd(&table[bucket >> 1], amount << (bucket & 1) * 32);
    }

    __device__ __forceinline__ void add(u32 bucket, u32 amount) {
        const int shift = (bucket & 1) * 16;
        u32* word = &words[bucket >> 1];
        const u32 old = atomicAdd(word, amount << shift) >> shift;
        if (old & kSpill && atomicAnd(word, ~(kSpill << shift)) >> shift & kSpill) spill(bucket, kSpill);
    }
    // Add all counters to the table; the caller's barrier after the last addition comes before.
    __device__ __forceinline__ void flush(u32 num_buckets, int threads) {
        for (u32 w = threadIdx.x; w < (num_buckets + 1) / 2; w += threads) {
            const u32 word = words[w];
            if (word == 0) continue;
            if (!wide) {
                atomicAdd(&table[w], u64(word >> 16) << 32 | (word & 0xFFFFu));
            } else {
                spill(2 * w, word & 0xFFFFu);
                spill(2 * w + 1, word >> 16);
            }
        }
    }
};

// Count the buckets of kKeys keys a thread; all threads of a warp call it. Where a warp's keys share one bucket (sorted
// or constant input), one lane adds for all: same-address atomics are serialized.
template <int kKeys>
__device__ __forceinline__ void count_buckets(PackedCounters counters, const u32 (&buckets)[kKeys]) {
    bool is_same = true;
#pragma unroll
    for (int k = 1; k < kKeys; ++k) is_same = is_same && buckets[k] == buckets[0];
    const u32 first = __shfl_sync(kWholeWarp, buckets[0], 0);
    if (__all_sync(kWholeWarp, is_same && buckets[0] == first)) {
        if (threadIdx.x % kWarpThreads == 0) counters.add(first, kKeys * kWarpThreads);
        return;
    }
#pragma unroll
    for (int k = 0; k < kKeys; ++k) counters.add(buckets[k], 1);
}

}  // namespace gpusort
