// Counts of the values of keys that have few, in one read, and the number of each key's value in a second one.
//
//   keys (n)  ->  count_few    -> table: words (S + 1), counts (S + 1), values in the words
//   keys (n)  ->  number_few   -> numbers (n)                                    from the words, and a number for each
//
// A word is the complement of a code, so that a table of zeros is empty. Each block copies the values of a sample, the
// same for all blocks, into a table in shared memory (open addressing: Knuth, The Art of Computer Programming 3, 6.4),
// counts the keys that are there, and adds its counts to the table of all blocks. Keys of other values are counted
// there one by one. Where there are more than kMostFew values, blocks stop.
#include "select/key_stream.cuh"

namespace gpusort {

constexpr int kFewThreads = 512;
constexpr int kFewBlocks = 2;    // a multiprocessor: 64 registers a thread
constexpr u32 kFewSlots = 4096;  // S: words and counts of 64 and 32 bits fill 48 KiB
constexpr u32 kMostFew = 2048;   // values: as many slots stay empty
constexpr u32 kFewTile = 8192;   // keys that a block takes at a time
constexpr int kSampledKeys = 8;  // by a thread at a time
constexpr u32 kMostProbes = 64;  // of a word that takes a slot
constexpr u32 kNoSlot = kFewSlots + 1;
static_assert(kMostFew + kFewThreads < kFewSlots, "a sample of many values leaves empty slots");

template <class Code>
__device__ __forceinline__ u32 home_of(Code word) {
    return mix(u32(word) ^ u32(u64(word) >> 32) * 0x9E3779B9u) % kFewSlots;  // the golden ratio spreads high halves
}

__device__ __forceinline__ u32 slot_after(u32 slot) { return (slot + 1) % kFewSlots; }

// The slot of a word other than 0, which takes an empty one if it has none; kNoSlot if it finds none.
template <class Code>
__device__ __forceinline__ u32 take_slot(Code* words, Code word, bool& is_new) {
    u32 slot = home_of(word);
#pragma unroll 1
    for (u32 probe = 0; probe < kMostProbes; ++probe, slot = slot_after(slot)) {
        const Code found = atomicCAS(&words[slot], Code(0), word);
        is_new = found == 0;
        if (is_new || found == word) return slot;
    }
    return kNoSlot;
}

// The table of all blocks, in global memory. The word 0 has the last slot.
struct AllCounts {
    u64* words;

    __device__ __forceinline__ u64* counts() const { return words + kFewSlots + 1; }
    __device__ __forceinline__ u64* num_values() const { return counts() + kFewSlots + 1; }
    __device__ __forceinline__ bool is_full() const { return *(volatile u64*)num_values() > kMostFew; }
    __device__ __forceinline__ void fill() const { atomicMax(num_values(), u64(kMostFew + 1)); }
};

// Adds to the count of a word in the table of all blocks: rarely called, so it takes no registers of its callers.
__device__ __noinline__ void add_to_all(AllCounts all, u64 word, u32 count) {
    if (all.is_full()) return;
    bool is_new = false;
    const u32 slot = word == 0 ? kFewSlots : take_slot(all.words, word, is_new);
    if (slot == kNoSlot) return all.fill();
    if (is_new) atomicAdd(all.num_values(), u64(1));
    atomicAdd(&all.counts()[slot], u64(count));
}

// The table of a block, in shared memory. A search for the word 0 ends at the first empty slot, which serves it.
template <class Source>
struct FewTable {
    using Raw = typename Source::Raw;
    using Code = typename Source::Code;

    Code words[kFewSlots];
    u32 amounts[kFewSlots];  // counts, or numbers

    static __device__ __forceinline__ Code word_of(Raw key) { return Code(~Source::encode(key, 0)); }

    // The slots of some words, or empty ones.
    template <int kKeys>
    __device__ __forceinline__ void find(const Code (&wanted)[kKeys], u32 (&slots)[kKeys], Code (&found)[kKeys]) const {
#pragma unroll
        for (int k = 0; k < kKeys; ++k) found[k] = words[slots[k] = home_of(wanted[k])];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            while (found[k] != wanted[k] && found[k] != 0) found[k] = words[slots[k] = slot_after(slots[k])];
        }
    }

    // Takes the words of sampled keys; whether they are few.
    __device__ __forceinline__ bool sample(const Raw* keys, Offset n, u32 num_samples) {
        const Offset stratum = n / num_samples;
        int num_values = 0;
        for (u32 begin = 0; begin < num_samples; begin += kSampledKeys * kFewThreads) {
            Code wanted[kSampledKeys];
#pragma unroll
            for (int k = 0; k < kSampledKeys; ++k) {
                const u32 j = begin + k * kFewThreads + threadIdx.x;
                wanted[k] = j < num_samples ? word_of(keys[sample_position(j, stratum)]) : 0;
            }
#pragma unroll
            for (int k = 0; k < kSampledKeys; ++k) {
                bool is_new = false;
                if (wanted[k] != 0) take_slot(words, wanted[k], is_new);
                num_values += __syncthreads_count(is_new);  // and all words are there before the table is read
                if (num_values > kMostFew) return false;
            }
        }
        return true;
    }

    template <int kKeys>
    __device__ __forceinline__ void count(const Raw (&keys)[kKeys], AllCounts all) {
        Code wanted[kKeys], found[kKeys];
        u32 slots[kKeys];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) wanted[k] = word_of(keys[k]);
        find(wanted, slots, found);
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            if (found[k] == wanted[k]) atomicAdd(&amounts[slots[k]], 1u);
            else add_to_all(all, wanted[k], 1);
        }
    }
};

// A persistent grid: every block takes tiles, a grid apart. The table is zero, or that of other keys.
template <class Source>
__global__ void __launch_bounds__(kFewThreads, kFewBlocks)
    count_few(const typename Source::Raw* keys, Offset n, u32 num_samples, u64* table_out) {
    __shared__ FewTable<Source> table;
    const AllCounts all{table_out};
    for (u32 s = threadIdx.x; s < kFewSlots; s += kFewThreads) table.words[s] = table.amounts[s] = 0;
    __syncthreads();  // the table is empty before words take slots
    if (!table.sample(keys, n, num_samples)) return all.fill();
    const Offset step = Offset(gridDim.x) * kFewTile;
    for (Offset first = Offset(blockIdx.x) * kFewTile; first < n && !all.is_full(); first += step) {
        KeyStream<kFewThreads, typename Source::Raw>::run(keys + first, u32(min(n - first, Offset(kFewTile))),
                                                          [&](const auto& loaded, bool are_there) {
                                                              if (are_there) table.count(loaded, all);
                                                          });
    }
    __syncthreads();  // all keys of the block are counted before its counts are added up
    for (u32 s = threadIdx.x; s < kFewSlots; s += kFewThreads) {
        if (table.amounts[s] > 0) add_to_all(all, table.words[s], table.amounts[s]);
    }
}

// words (S + 1): of the table of all keys; numbers (S): of the words, and for empty slots that of the word 0.
template <class Source, class Number>
__global__ void __launch_bounds__(kFewThreads, kFewBlocks)
    number_few(const typename Source::Raw* keys, Offset n, const u64* words, const u32* numbers, Number* numbers_out) {
    __shared__ FewTable<Source> table;
    for (u32 s = threadIdx.x; s < kFewSlots; s += kFewThreads) {
        table.words[s] = typename Source::Code(words[s]);
        table.amounts[s] = numbers[s];
    }
    __syncthreads();  // the table is there before it is read
    constexpr int kKeys = 4;
    const Offset step = Offset(gridDim.x) * kFewThreads;
    for (Offset first = thread_of_grid(); first < n; first += kKeys * step) {
        typename Source::Code wanted[kKeys] = {}, found[kKeys];
        u32 slots[kKeys];
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            if (first + k * step < n) wanted[k] = table.word_of(keys[first + k * step]);
        }
        table.find(wanted, slots, found);
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            if (first + k * step < n) numbers_out[first + k * step] = Number(table.amounts[slots[k]]);
        }
    }
}

}  // namespace gpusort
