// Counts of the codes of each row between thresholds, and the keys of some of these intervals, in one read.
//
//   keys (rows, length) -> extract_keys -> table (rows, slots + 1): the count of each slot, then of the taken keys
//                                          taken (rows, capacity): keys, in any order
#include "primitives/block.cuh"
#include "select/key_stream.cuh"
#include "primitives/basics.cuh"

namespace gpusort {

// The block that counts codes between thresholds, and takes the keys of some of these intervals.
//
//   codes         slot 0 | slot 1 | slot 2 | ... | slot S-1       slot s: thresholds[s-1] <= code < thresholds[s]
//   thresholds           t0       t1       t2    ...               S - 1, ascending; S = 2^kLevels
//   is_taken         0       1        1        0                   as wide as a code: both tables have the same offsets
//
// The bandwidth of memory leaves an H200 55 instructions for a key of 8 bytes. So the search is unrolled, with constant
// offsets; every lane has its own copy of each counter, in its own bank, while the slots are few; and every lane has its
// own buffer, so that a key which is not taken costs no warp collective.

constexpr int kExtractThreads = 256;
constexpr int kExtractBlocks = 5;  // a multiprocessor: up to 48 registers a thread
constexpr u32 kFullDepth = 8;      // keys of a lane's buffer at which the warp writes its buffers
constexpr u32 kWarpBufferBytes = kFullDepth * kWarpThreads * 8 + kMostRoundBytes;
constexpr u32 kBufferBytes = kExtractThreads / kWarpThreads * kWarpBufferBytes;
constexpr u32 kCounters = 4096;  // copies of all slots together
constexpr u32 kMostSlots = 1024;

// Output of the taken keys of a row.
template <class Raw>
struct TakenKeys {
    Raw* keys;
    Offset capacity;
    u64* found;  // number of taken keys, also of those beyond the capacity
};

// Keys on their way to the output, which a warp reaches with one atomic for many.
template <class Raw>
struct LaneBuffer {
    static constexpr u32 kStride = kWarpThreads * sizeof(Raw);  // bytes from a key of a lane to its next

    unsigned char* shared;  // of all lanes: [warp][depth][lane]
    u32 first, end;         // offsets in bytes of this lane's first key, and behind its last

    __device__ __forceinline__ explicit LaneBuffer(unsigned char* shared_)
        : shared(shared_),
          first(threadIdx.x / kWarpThreads * kWarpBufferBytes + threadIdx.x % kWarpThreads * u32(sizeof(Raw))),
          end(first) {}
    __device__ __forceinline__ Raw& at(u32 offset) { return *reinterpret_cast<Raw*>(shared + offset); }
    __device__ __forceinline__ void append(Raw key, bool is_taken) {
        if (!is_taken) return;
        at(end) = key;
        end += kStride;
    }
    __device__ __forceinline__ void flush(const TakenKeys<Raw>& out) {
        const u32 total = warp_sum((end - first) / kStride);
        if (total == 0) return;
        const u32 lane = threadIdx.x % kWarpThreads;
        u64 next = lane == 0 ? atomicAdd(out.found, u64(total)) : 0;
        next = __shfl_sync(kWholeWarp, next, 0);
        for (u32 offset = first;; offset += kStride) {
            const bool is_there = offset < end;
            const u32 lanes = __ballot_sync(kWholeWarp, is_there);
            if (lanes == 0) break;
            const u64 position = next + __popc(lanes & ((1u << lane) - 1));
            if (is_there && position < out.capacity) out.keys[position] = at(offset);
            next += __popc(lanes);
        }
        end = first;
    }
    // Write the keys of all lanes if there may be no space for another round in one of them.
    __device__ __forceinline__ void flush_if_full(const TakenKeys<Raw>& out) {
        if (__any_sync(kWholeWarp, end - first > kFullDepth * kStride)) flush(out);
    }
};

template <class Source, int kLevels>
struct Extractor {
    using Raw = typename Source::Raw;
    using Code = typename Source::Code;
    static constexpr u32 kSlots = 1 << kLevels, kHalf = kSlots / 2;
    static constexpr u32 kCopies = kCounters / kSlots < kWarpThreads ? kCounters / kSlots : kWarpThreads;

    Code* thresholds;  // shared, as are the next two
    Code* is_taken;
    u32* counters;  // [slot][copy]
    LaneBuffer<Raw> buffer;
    Code middle;  // of the thresholds: the first comparison needs no shared memory

    __device__ __forceinline__ Extractor(unsigned char* shared)
        : thresholds(reinterpret_cast<Code*>(shared + kBufferBytes)),
          is_taken(thresholds + kSlots),
          counters(reinterpret_cast<u32*>(is_taken + kSlots)),
          buffer(shared) {}

    __device__ __forceinline__ void start(const Code* thresholds_in, const Code* is_taken_in) {
        for (u32 s = threadIdx.x; s < kSlots; s += kExtractThreads) {
            if (s < kSlots - 1) thresholds[s] = thresholds_in[s];
            is_taken[s] = is_taken_in[s];
        }
        for (u32 c = threadIdx.x; c < kSlots * kCopies; c += kExtractThreads) counters[c] = 0;
        middle = thresholds_in[kHalf - 1];
    }

    template <class T>
    static __device__ __forceinline__ T& at(T* table, u32 offset) {
        return *reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(table) + offset);
    }

    // The slots of some codes, as offsets in bytes into the tables.
    template <int kKeys>
    __device__ __forceinline__ void find_slots(const Code (&codes)[kKeys], u32 (&offsets)[kKeys]) const {
#pragma unroll
        for (int k = 0; k < kKeys; ++k) offsets[k] = middle <= codes[k] ? kHalf * u32(sizeof(Code)) : 0;
#pragma unroll
        for (int level = kLevels - 2; level >= 0; --level) {
            const u32 step = u32(sizeof(Code)) << level;
#pragma unroll
            for (int k = 0; k < kKeys; ++k) {
                if (at(thresholds, offsets[k] + step - u32(sizeof(Code))) <= codes[k]) offsets[k] += step;
            }
        }
    }

    // Count keys of each lane of a whole warp, and append those that are taken to the buffer.
    template <int kKeys>
    __device__ __forceinline__ void take(const Raw (&keys)[kKeys], bool are_there) {
        Code codes[kKeys];
        u32 offsets[kKeys];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) codes[k] = Source::encode(keys[k], 0);
        find_slots(codes, offsets);
        if (!are_there) return;
        u32* own = counters + threadIdx.x % kCopies;
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            atomicAdd(&at(own, offsets[k] * (kCopies * u32(sizeof(u32)) / u32(sizeof(Code)))), 1u);
            buffer.append(keys[k], at(reinterpret_cast<u32*>(is_taken), offsets[k]) != 0);  // the low word is enough
        }
    }

    __device__ __forceinline__ void run(const Raw* keys, u32 count, const TakenKeys<Raw>& out) {
        KeyStream<kExtractThreads, Raw>::run(keys, count, [&](const auto& loaded, bool are_there) {
            take(loaded, are_there);
            buffer.flush_if_full(out);
        });
        buffer.flush(out);
    }

    // Add the counters to a row of the table.
    __device__ __forceinline__ void add_counts(u64* counts) {
        for (u32 s = threadIdx.x; s < kSlots; s += kExtractThreads) {
            u32 sum = 0;
            for (u32 c = 0; c < kCopies; ++c) sum += counters[s * kCopies + (s + c) % kCopies];  // other banks
            if (sum > 0) atomicAdd(&counts[s], u64(sum));
        }
    }
};

// A persistent grid: every block takes parts of rows, a grid apart; `num_items` is the number of parts of all rows.
// The table is zero.
template <class Source, int kLevels>
__global__ void __launch_bounds__(kExtractThreads, kExtractBlocks)
    extract_keys(const typename Source::Raw* keys, Offset length, u32 parts, u32 num_items,
                 const typename Source::Code* thresholds, const typename Source::Code* is_taken, u64* table,
                 typename Source::Raw* taken, Offset capacity) {
    constexpr u32 kSlots = 1 << kLevels;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    Extractor<Source, kLevels> extractor(shared_bytes);
    const Offset part_keys = (length + parts - 1) / parts;
    for (u32 item = blockIdx.x; item < num_items; item += gridDim.x) {
        const Offset row = item / parts;
        const Offset begin = min(Offset(item % parts) * part_keys, length), end = min(begin + part_keys, length);
        u64* counts = table + row * (kSlots + 1);
        extractor.start(thresholds + row * (kSlots - 1), is_taken + row * kSlots);
        __syncthreads();  // thresholds are copied and counters are zero before keys are counted
        const TakenKeys<typename Source::Raw> out{taken + row * capacity, capacity, counts + kSlots};
        extractor.run(keys + row * length + begin, u32(end - begin), out);
        __syncthreads();  // the part is counted before its counts are added to the table
        extractor.add_counts(counts);
        __syncthreads();  // the counters are read before they are cleared for the next part
    }
}

// Positions of the few keys whose codes are in an interval: low <= code <= low + width. `found` is zero, and counts the
// positions beyond the capacity, too.
template <class Source>
__global__ void take_positions(const typename Source::Raw* keys, Offset length, typename Source::Code low,
                               typename Source::Code width, u64* found, u64* positions, Offset capacity) {
    using Code = typename Source::Code;
    const Offset step = Offset(gridDim.x) * blockDim.x;
#pragma unroll 4
    for (Offset at = Offset(blockIdx.x) * blockDim.x + threadIdx.x; at < length; at += step) {
        if (Code(Source::encode(keys[at], 0) - low) > width) continue;
        const u64 out = atomicAdd(found, u64(1));  // the compiler adds those of a warp up first
        if (out < capacity) positions[out] = at;
    }
}

// Samples of keys that are in several parts: one of each stratum.
//
//   keys      | part 0    | part 1         | part 2  |      end to end
//   strata    |    |    |    |    |    |    |    |          a stratum may be in two parts
//   sample    one key of each

// A thread a stratum, of those that overlap the part, which begins at `first` among all keys.
template <class Raw>
__global__ void draw_keys(const Raw* keys, Offset first, Offset length, Offset stratum, u32 begin, u32 end,
                          Raw* sample) {
    const u32 j = begin + blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= end) return;
    const Offset position = sample_position(j, stratum);
    if (first <= position && position < first + length) sample[j] = keys[position - first];
}

}  // namespace gpusort
