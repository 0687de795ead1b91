// Merging runs in parts: what a part is, and how a pair of runs is cut into parts.
//
//   run a   | . . . [ a_count ] . . . |
//   run b   | . [ b_count ] . . . . . |        runs may lie anywhere in memory
//   out     | . . . . [ a_count + b_count ] . . |
//
// The plan of a level is one Part a block of merge_parts.cu, for runs of even width (merge_sort.cu) or listed ones
// (merge_runs.cu).
#pragma once
#include "merge/merge_tile.cuh"

namespace gpusort {

// Parts planned by a block, plus one: each thread searches one diagonal, and the next thread's is where its part ends.
constexpr int kPlanThreads = 128;

// Two runs to merge. Where values are null, the value of a key is its position in the concatenation of all runs.
struct Pair {
    const void* keys_a;
    const void* keys_b;
    const void* values_a;
    const void* values_b;
    Offset a_size, b_size;
    Offset out;         // where the merged run begins
    Offset first_part;  // number of its first part
};

// One block's share of a pair.
struct Part {
    const void* keys_a;
    const void* keys_b;
    const void* values_a;
    const void* values_b;
    Offset position_a, position_b;  // in the concatenation of all runs
    Offset out;
    u32 a_count, b_count;
};

template <class Code, class Value>
__device__ __forceinline__ Part make_part(const Pair& pair, Offset a, Offset b, Offset a_count, Offset b_count) {
    Part part;
    part.keys_a = static_cast<const Code*>(pair.keys_a) + a;
    part.keys_b = static_cast<const Code*>(pair.keys_b) + b;
    part.values_a = pair.values_a ? static_cast<const Value*>(pair.values_a) + a : nullptr;
    part.values_b = pair.values_b ? static_cast<const Value*>(pair.values_b) + b : nullptr;
    part.position_a = pair.out + a;
    part.position_b = pair.out + pair.a_size + b;
    part.out = pair.out + a + b;
    part.a_count = u32(a_count);
    part.b_count = u32(b_count);
    return part;
}

// Pair p of an array of runs of `width` keys each, of which the last may be shorter, or absent.
template <class Code, class Value>
__device__ __forceinline__ Pair even_pair(const Code* codes, const Value* values, Offset n, Offset width, Offset p,
                                          Offset first_part) {
    const Offset a = min(2 * p * width, n), b = min(a + width, n), end = min(b + width, n);
    Pair pair;
    pair.keys_a = codes + a;
    pair.keys_b = codes + b;
    pair.values_a = values ? values + a : nullptr;
    pair.values_b = values ? values + b : nullptr;
    pair.a_size = b - a;
    pair.b_size = end - b;
    pair.out = a;
    pair.first_part = first_part;
    return pair;
}

// Neighbouring blocks share one part, so that each thread but the last finds its part's end in the next thread.
__device__ __forceinline__ Offset part_of_thread() { return Offset(blockIdx.x) * (kPlanThreads - 1) + threadIdx.x; }

// Plans one part of a pair: from its diagonal to the next thread's, or to the end of the pair.
template <class Code, class Value, class Less, int kPartKeys>
__device__ __forceinline__ void plan_part(const Pair& pair, Offset part, Part* parts, Offset num_parts) {
    __shared__ Offset cuts[kPlanThreads];
    const Offset size = pair.a_size + pair.b_size;
    const Offset diagonal = min((part - pair.first_part) * kPartKeys, size);
    const Offset next = min(diagonal + kPartKeys, size);
    const Offset a = merge_path<Less>(static_cast<const Code*>(pair.keys_a), pair.a_size,
                                      static_cast<const Code*>(pair.keys_b), pair.b_size, diagonal);
    cuts[threadIdx.x] = a;
    __syncthreads();  // every cut is there before the neighbour reads it
    if (threadIdx.x == kPlanThreads - 1 || part >= num_parts) return;
    const Offset a_end = next == size ? pair.a_size : cuts[threadIdx.x + 1];
    // Between 0 and the part's size, also for a comparison that is no order: then the piece of b still fits its run.
    const Offset a_count = min(a_end > a ? a_end - a : 0, next - diagonal);
    parts[part] = make_part<Code, Value>(pair, a, diagonal - a, a_count, next - diagonal - a_count);
}

// Number of keys of a run that are less than `key`; kOrEqual: that are not greater.
template <class Less, bool kOrEqual, class Key>
__device__ __forceinline__ Offset count_before(const Key* keys, Offset size, const Key& key) {
    Offset low = 0, high = size;
    while (low < high) {
        const Offset middle = low + (high - low) / 2;
        const bool before = kOrEqual ? !Less::less(key, keys[middle]) : Less::less(keys[middle], key);
        if (before) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Loads element i of a part's two pieces, one after the other.
template <class Code, class Value>
__device__ __forceinline__ void load_element(const Part& part, u32 i, Code& code, Value& value) {
    const bool of_a = i < part.a_count;
    const u32 j = of_a ? i : i - part.a_count;
    code = static_cast<const Code*>(of_a ? part.keys_a : part.keys_b)[j];
    if constexpr (kHasPayload<Value>) {
        const Value* values = static_cast<const Value*>(of_a ? part.values_a : part.values_b);
        value = values ? values[j] : Value((of_a ? part.position_a : part.position_b) + j);
    }
}

}  // namespace gpusort
