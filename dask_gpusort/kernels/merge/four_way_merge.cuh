// Merging four runs at a time: two levels of merging for one reading and writing of every key.
//
//   runs       | a [..] | b [..] | c [..] | d [..] |      a part takes a piece of each
//   shared     | a.. b.. | c.. d.. |                      loaded one after the other
//   round 1    | ab .... | cd .... |                      two merges side by side, through registers
//   round 2    | abcd ............ |                      stored coalesced
//
// The pieces are found by selection: the runs are narrowed to where the key of a given rank must lie, half a run at a
// time, a simple form of selection in sorted columns (Frederickson and Johnson, J. Comput. Syst. Sci. 24, 1982).
#pragma once
#include "merge/merge_parts.cuh"

namespace gpusort {

constexpr int kWays = 4;

// One block's share of four runs: where its pieces begin, how long they are, and where they go.
struct FourWayPart {
    Offset first[kWays];
    Offset out;
    u32 count[kWays];
    Offset unused;  // 64 bytes
};

// Four neighbouring runs of `width` keys each in an array of n keys, of which the last may be shorter, or absent.
struct Quad {
    Offset bounds[kWays + 1];

    __device__ __forceinline__ Quad(Offset q, Offset width, Offset n) {
#pragma unroll
        for (int r = 0; r <= kWays; ++r) bounds[r] = min((q * kWays + r) * width, n);
    }
    __device__ __forceinline__ Offset size() const { return bounds[kWays] - bounds[0]; }
};

// The first `rank` keys of the merged runs, as the end of each run's share in `low`. The shares add up to `rank` and
// lie in their runs whatever `Less` answers: each round takes half a run's keys that are surely among the first, or
// drops half that are surely not, by the number of keys before the middles alone.
//
//   h: keys of a run before its middle; k: keys still to take
//   k >  sum of h:  before the least middle lie at most that many keys       -> it is taken, with those before it
//   k <= sum of h:  before the greatest middle lie at least that many keys   -> it is dropped, with those behind it
template <class Less, class Code>
__device__ __forceinline__ void select_first(const Code* codes, const Quad& quad, Offset rank, Offset (&low)[kWays]) {
    Offset high[kWays], k = rank;
    Code middle[kWays];
#pragma unroll
    for (int r = 0; r < kWays; ++r) {
        low[r] = quad.bounds[r];
        high[r] = quad.bounds[r + 1];
        if (low[r] < high[r]) middle[r] = codes[low[r] + (high[r] - low[r]) / 2];
    }
    for (;;) {
        Offset before = 0;
        int least = -1, greatest = -1;
        Code least_key{}, greatest_key{};
#pragma unroll
        for (int r = 0; r < kWays; ++r) {
            if (low[r] == high[r]) continue;
            before += (high[r] - low[r]) / 2;
            if (least < 0 || Less::less(middle[r], least_key)) least = r, least_key = middle[r];
            if (greatest < 0 || !Less::less(middle[r], greatest_key)) greatest = r, greatest_key = middle[r];
        }
        if (least < 0) return;
        const bool take = k > before;
        const int chosen = take ? least : greatest;
#pragma unroll
        for (int r = 0; r < kWays; ++r) {
            if (r != chosen) continue;
            const Offset half = (high[r] - low[r]) / 2;
            if (take) {
                k -= half + 1;
                low[r] += half + 1;
            } else {
                high[r] = low[r] + half;
            }
            if (low[r] < high[r]) middle[r] = codes[low[r] + (high[r] - low[r]) / 2];
        }
    }
}

// A part from its pieces' beginnings to the next part's. Of a comparison that is no order these may not fit together:
// then the pieces are some keys of their runs, as many in all.
__device__ __forceinline__ FourWayPart make_four_way_part(const Quad& quad, const Offset (&first)[kWays],
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
        const u32 more = u32(min(quad.bounds[r + 1] - first[r] - part.count[r], Offset(left)));
        part.count[r] += more;
        left -= more;
    }
    return part;
}

// Loads element i of a part's pieces, which follow each other.
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
    if constexpr (kHasPayload<Value>) value = values[source + i];
}

}  // namespace gpusort
