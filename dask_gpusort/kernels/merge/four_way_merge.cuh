// 4-way merge: two levels of merging for one reading and writing of every key.
//
//   runs       | a [..] | b [..] | c [..] | d [..] |      a part takes a slice of each
//   shared     | a.. b.. | c.. d.. |                      loaded one after the other
//   round 1    | ab .... | cd .... |                      two merges at the same time, through registers
//   round 2    | abcd ............ |                      stored coalesced
//
// The slices are found by selection: each step halves the range of one run that can hold the key of a given rank, a
// simple form of selection in sorted columns (Frederickson and Johnson, J. Comput. Syst. Sci. 24, 1982).
#pragma once
#include "merge/merge_parts.cuh"

namespace gpusort {

constexpr int kWays = 4;

// One block's share of four runs: offsets and sizes of its slices, and the offset of its output.
struct FourWayPart {
    Offset first[kWays];
    Offset out;
    u32 count[kWays];
    Offset unused;
};
static_assert(sizeof(FourWayPart) == kPartBytes, "the host allocates so many bytes");

// Four neighbouring runs of `width` keys each in an array of n keys; the last ones may be shorter, or absent.
struct FourRuns {
    Offset bounds[kWays + 1];

    __device__ __forceinline__ FourRuns(Offset number, Offset width, Offset n) {
#pragma unroll
        for (int r = 0; r <= kWays; ++r) bounds[r] = min((number * kWays + r) * width, n);
    }
    __device__ __forceinline__ Offset size() const { return bounds[kWays] - bounds[0]; }
};

// Selects the first keys of four merged runs: in the end run r has its first low[r] - bounds[r] keys among them.
//
//   h: keys of a run's range before its middle; k: keys still to take
//   k >  sum of h:  at most that many keys come before the least middle     -> take it, and those before it in its run
//   k <= sum of h:  at least that many come before the greatest middle      -> drop it, and those after it in its run
//
// These counts do not depend on the comparison: whatever `Less` returns, the shares add up to the rank and stay in
// their runs.
template <class Less, class Code>
struct FourWaySelection {
    const Code* codes;
    Offset low[kWays], high[kWays];  // range of each run that is not decided
    Code middle[kWays];

    __device__ __forceinline__ FourWaySelection(const Code* sorted, const FourRuns& runs) : codes(sorted) {
#pragma unroll
        for (int r = 0; r < kWays; ++r) {
            low[r] = runs.bounds[r];
            high[r] = runs.bounds[r + 1];
            read_middle(r);
        }
    }
    __device__ __forceinline__ Offset half(int r) const { return (high[r] - low[r]) / 2; }
    __device__ __forceinline__ void read_middle(int r) {
        if (low[r] < high[r]) middle[r] = codes[low[r] + half(r)];
    }

    // Finds the runs of the least and the greatest middle (-1: all ranges are empty); returns the keys before the
    // middles.
    __device__ __forceinline__ Offset find_extremes(int& least, int& greatest) const {
        Offset before = 0;
        least = greatest = -1;
        Code least_key{}, greatest_key{};
#pragma unroll
        for (int r = 0; r < kWays; ++r) {
            if (low[r] == high[r]) continue;
            before += half(r);
            if (least < 0 || Less::less(middle[r], least_key)) least = r, least_key = middle[r];
            if (greatest < 0 || !Less::less(middle[r], greatest_key)) greatest = r, greatest_key = middle[r];
        }
        return before;
    }

    __device__ __forceinline__ void select(Offset rank) {
        for (;;) {
            int least, greatest;
            const Offset before = find_extremes(least, greatest);
            if (least < 0) return;
            const bool take = rank > before;
            const int chosen = take ? least : greatest;
#pragma unroll
            for (int r = 0; r < kWays; ++r) {
                if (r != chosen) continue;
                const Offset taken = half(r) + 1;
                if (take) {
                    rank -= taken;
                    low[r] += taken;
                } else {
                    high[r] = low[r] + half(r);
                }
                read_middle(r);
            }
        }
    }
};

// Makes a part of `size` keys, from `first` to the next part's beginnings. For a comparison that is no order these may
// not fit together; the slices are then other keys of their runs, as many in all.
__device__ __forceinline__ FourWayPart make_four_way_part(const FourRuns& runs, const Offset (&first)[kWays],
                                                          const Offset (&next)[kWays], Offset out, u32 size) {
    FourWayPart part;
    part.out = out;
    part.unused = 0;
    u32 left = size;
#pragma unroll
    for (int r = 0; r < kWays; ++r) {
        part.first[r] = first[r];
        part.count[r] = u32(min(next[r] > first[r] ? next[r] - first[r] : 0, Offset(left)));
        left -= part.count[r];
    }
#pragma unroll
    for (int r = 0; r < kWays; ++r) {
        const u32 more = u32(min(runs.bounds[r + 1] - first[r] - part.count[r], Offset(left)));
        part.count[r] += more;
        left -= more;
    }
    return part;
}

// Loads key i of a part: its four slices, one after the other.
template <class Code, class Value>
__device__ __forceinline__ void load_four_way_element(const FourWayPart& part, const Code* codes, const Value* values,
                                                      u32 i, Code& code, Value& value) {
    Offset source = part.first[0];
    u32 begin = 0;
#pragma unroll
    for (int r = 1; r < kWays; ++r) {
        begin += part.count[r - 1];
        if (i >= begin) source = part.first[r] - begin;
    }
    code = codes[source + i];
    if constexpr (kHasValues<Value>) value = values[source + i];
}

// This thread's share of round 1: of the merge of slices a and b, which end at `middle`, or of slices c and d.
template <int kItems>
__device__ __forceinline__ RunPair first_round_pair(const FourWayPart& part, int middle, int count) {
    const int threads_of_ab = (middle + kItems - 1) / kItems;
    const bool of_ab = int(threadIdx.x) < threads_of_ab;
    const int a = of_ab ? 0 : middle, b = a + int(of_ab ? part.count[0] : part.count[2]), end = of_ab ? middle : count;
    return {a, b, end, min((int(threadIdx.x) - (of_ab ? 0 : threads_of_ab)) * kItems, end - a)};
}

}  // namespace gpusort
