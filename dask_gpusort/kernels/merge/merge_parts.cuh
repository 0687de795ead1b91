// Merging runs in parts: what a part is, and how a pair of runs is cut into parts.
//
//   run a   | . . . [ a_count ] . . . |
//   run b   | . [ b_count ] . . . . . |        runs may be anywhere in memory
//   out     | . . . . [ a_count + b_count ] . . |
//
// The plan of a level is one Part per block of merge.cu, for runs of equal width or listed ones.
// Parts are cut by merge path (Odeh et al., IPDPS workshops 2012; Green, McColl and Bader, ICS 2012).
#pragma once
#include "merge/merge_tile.cuh"

namespace gpusort {

// Parts that a block plans, plus one: each thread searches one diagonal, and its part ends at the next thread's.
constexpr int kPlanThreads = 128;

// Two runs to merge. Where values are null, the value of a key is its position in the concatenation of all runs.
struct Pair {
    const void* keys_a;
    const void* keys_b;
    const void* values_a;
    const void* values_b;
    Offset a_size, b_size;
    Offset out;         // offset of the merged run
    Offset first_part;  // number of its first part
};

// One block's share of a pair: a slice of each run.
struct Part {
    const void* keys_a;
    const void* keys_b;
    const void* values_a;
    const void* values_b;
    Offset position_a, position_b;  // in the concatenation of all runs
    Offset out;
    u32 a_count, b_count;
};
constexpr int kPartBytes = 64;
static_assert(sizeof(Part) == kPartBytes, "the host allocates so many bytes");

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

// Pair p of an array of runs of `width` keys each; the last run may be shorter, or absent.
template <class Code, class Value>
__device__ __forceinline__ Pair pair_of_runs(const Code* codes, const Value* values, Offset n, Offset width, Offset p,
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

// Neighbouring blocks share one part, so that each thread but the last finds the end of its part in the next thread.
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
    // A comparison that is no order may give descending cuts: a_count is clamped, so that both slices stay in their
    // runs.
    const Offset a_count = min(a_end > a ? a_end - a : 0, next - diagonal);
    parts[part] = make_part<Code, Value>(pair, a, diagonal - a, a_count, next - diagonal - a_count);
}

// Loads key i of a part: the slice of run a, then the slice of run b.
template <class Code, class Value>
__device__ __forceinline__ void load_element(const Part& part, u32 i, Code& code, Value& value) {
    const bool of_a = i < part.a_count;
    const u32 j = of_a ? i : i - part.a_count;
    code = static_cast<const Code*>(of_a ? part.keys_a : part.keys_b)[j];
    if constexpr (kHasValues<Value>) {
        const Value* values = static_cast<const Value*>(of_a ? part.values_a : part.values_b);
        value = values ? values[j] : Value((of_a ? part.position_a : part.position_b) + j);
    }
}

}  // namespace gpusort
