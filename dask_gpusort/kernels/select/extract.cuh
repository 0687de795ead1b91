// The block that counts codes between thresholds, and takes the keys of some of these intervals.
//
//   codes         slot 0 | slot 1 | slot 2 | ... | slot S-1       slot s: thresholds[s-1] <= code < thresholds[s]
//   thresholds           t0       t1       t2    ...               S - 1, ascending; S is a power of two
//   is_taken         0       1        1        0                   a bit a slot
//
// Shared memory: a buffer of keys for each warp, thresholds, the bits, counters. Every lane has its own copy of each
// counter, in its own bank, as long as the slots are few: most keys are in few slots, and atomics of a warp at one
// address run one after the other.
#pragma once
#include "primitives/block.cuh"
#include "select/key_stream.cuh"

namespace gpusort {

constexpr int kExtractThreads = 256;
constexpr int kExtractBlocks = 5;  // a multiprocessor: up to 48 registers a thread
constexpr u32 kFullBytes = 1024;   // of a warp's buffer, which is then written
constexpr u32 kWarpBufferBytes = kFullBytes + kMostRoundBytes;
constexpr u32 kBufferBytes = kExtractThreads / kWarpThreads * kWarpBufferBytes;
constexpr u32 kCounters = 4096;   // copies of all slots together
constexpr u32 kMostSlots = 2048;  // thresholds of 8 bytes take 16 KiB

// Output of the taken keys of a row.
template <class Raw>
struct TakenKeys {
    Raw* keys;
    Offset capacity;
    u64* found;  // number of taken keys, also of those beyond the capacity
};

// Keys of one warp on their way to the output, which they reach with one atomic for many.
template <class Raw>
struct WarpBuffer {
    static constexpr u32 kFull = kFullBytes / sizeof(Raw);

    Raw* keys;  // shared
    u32 held;   // the same in all lanes

    __device__ __forceinline__ void append(Raw key, bool is_taken) {
        const u32 lanes = __ballot_sync(kWholeWarp, is_taken);
        const u32 lower = lanes & ((1u << threadIdx.x % kWarpThreads) - 1);
        if (is_taken) keys[held + __popc(lower)] = key;
        held += __popc(lanes);
    }

    __device__ __forceinline__ void flush(const TakenKeys<Raw>& out) {
        if (held == 0) return;
        const u32 lane = threadIdx.x % kWarpThreads;
        u64 first = lane == 0 ? atomicAdd(out.found, u64(held)) : 0;
        first = __shfl_sync(kWholeWarp, first, 0);
        __syncwarp();  // all keys are in the buffer before they are read
        for (u32 i = lane; i < held; i += kWarpThreads) {
            if (first + i < out.capacity) out.keys[first + i] = keys[i];
        }
        __syncwarp();  // the keys are read before others overwrite them
        held = 0;
    }
};

template <class Source>
struct Extractor {
    using Raw = typename Source::Raw;
    using Code = typename Source::Code;

    Code* thresholds;  // shared, as are the next two
    u32* is_taken;
    u32* counters;          // [slot][copy]
    u32 num_slots, copies;  // both are powers of two
    WarpBuffer<Raw> buffer;

    __device__ __forceinline__ Extractor(u32* shared, u32 num_slots_)
        : thresholds(reinterpret_cast<Code*>(shared + kBufferBytes / sizeof(u32))),
          is_taken(reinterpret_cast<u32*>(thresholds + num_slots_)),
          counters(is_taken + (num_slots_ + kWarpThreads - 1) / kWarpThreads),
          num_slots(num_slots_),
          copies(min(u32(kWarpThreads), kCounters / num_slots_)),
          buffer{reinterpret_cast<Raw*>(shared + threadIdx.x / kWarpThreads * (kWarpBufferBytes / sizeof(u32))), 0} {}

    __device__ __forceinline__ void start(const Code* thresholds_in, const u32* is_taken_in) {
        for (u32 s = threadIdx.x; s < num_slots - 1; s += kExtractThreads) thresholds[s] = thresholds_in[s];
        const u32 words = (num_slots + kWarpThreads - 1) / kWarpThreads;
        for (u32 w = threadIdx.x; w < words; w += kExtractThreads) is_taken[w] = is_taken_in[w];
        for (u32 c = threadIdx.x; c < num_slots * copies; c += kExtractThreads) counters[c] = 0;
    }

    // Count keys of each lane of a whole warp, and append those that are taken to the buffer.
    template <int kKeys>
    __device__ __forceinline__ void take(const Raw (&keys)[kKeys], bool are_there) {
        Code codes[kKeys];
        u32 slots[kKeys];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            codes[k] = Source::encode(keys[k], 0);
            slots[k] = 0;
        }
        for (u32 half = num_slots / 2; half > 0; half /= 2) {
#pragma unroll
            for (int k = 0; k < kKeys; ++k) {
                if (thresholds[slots[k] + half - 1] <= codes[k]) slots[k] += half;
            }
        }
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            if (are_there) atomicAdd(&counters[slots[k] * copies + (threadIdx.x & (copies - 1))], 1u);
            const u32 word = is_taken[slots[k] / kWarpThreads];
            buffer.append(keys[k], are_there && (word >> slots[k] % kWarpThreads & 1));
        }
    }

    __device__ __forceinline__ void run(const Raw* keys, u32 count, const TakenKeys<Raw>& out) {
        KeyStream<kExtractThreads, Raw>::run(keys, count, [&](const auto& loaded, bool are_there) {
            take(loaded, are_there);
            if (buffer.held > WarpBuffer<Raw>::kFull) buffer.flush(out);
        });
        buffer.flush(out);
    }

    // Add the counters to a row of the table.
    __device__ __forceinline__ void add_counts(u64* counts) {
        for (u32 s = threadIdx.x; s < num_slots; s += kExtractThreads) {
            u32 sum = 0;
            for (u32 c = 0; c < copies; ++c) sum += counters[s * copies + ((s + c) & (copies - 1))];  // other banks
            if (sum > 0) atomicAdd(&counts[s], u64(sum));
        }
    }
};

}  // namespace gpusort
