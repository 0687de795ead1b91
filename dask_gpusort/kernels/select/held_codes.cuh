// Ranks among codes that the threads of a scope, a warp or a block, hold in registers: bisection of the range of codes.
//
//   codes   low ---------- middle ---------- high     count the codes below the middle: a sum over the scope
//   ranks   below ------------------------- up_to     go on with the half that holds the wanted rank
//
// It ends when one code is left in the range, or when its ends meet (ties): after at most a step a bit, and about
// log2(count) steps where codes are spread. Counters of digits would need atomics in shared memory, which run one after
// the other where keys share digits; a sum takes the same time for every distribution.
#pragma once
#include "primitives/block.cuh"
#include "keys/elements.cuh"

namespace gpusort {

// The codes from low to high (inclusive) have the ranks from `below` on, up to but not including `up_to`.
template <class Code>
struct CodeRange {
    Code low, high;
    u32 below, up_to;

    __device__ __forceinline__ bool has(u32 rank) const { return below <= rank && rank < up_to; }
};

struct WarpScope {
    static constexpr u32 kThreads = kWarpThreads;

    static __device__ __forceinline__ u32 thread() { return threadIdx.x % kWarpThreads; }
    __device__ __forceinline__ u32 sum(u32 value) { return warp_sum(value); }
    template <class T>
    __device__ __forceinline__ T least(T value) {
        return warp_min(value);
    }
};

template <int kBlockThreads>
struct BlockScope {
    static constexpr u32 kThreads = kBlockThreads, kWarps = kThreads / kWarpThreads;
    static_assert(kWarps <= kWarpThreads, "a warp combines the values of all warps");

    // Consecutive calls use different halves, so that one barrier a call is enough: when a half is written again, the
    // barrier of the other half has come after its reads.
    struct SharedStorage {
        u64 values[2][kWarps];
    };
    SharedStorage& shared;
    u32 half = 0;

    static __device__ __forceinline__ u32 thread() { return threadIdx.x; }
    // The value of one lane of each warp, in the lanes below kWarps; `other` in the other lanes.
    template <class T>
    __device__ __forceinline__ T exchange(T value, T other) {
        const u32 lane = threadIdx.x % kWarpThreads;
        u64(&values)[kWarps] = shared.values[half];
        half ^= 1;
        if (lane == 0) values[threadIdx.x / kWarpThreads] = value;
        __syncthreads();  // every warp's value is there before they are read
        return lane < kWarps ? T(values[lane]) : other;
    }
    __device__ __forceinline__ u32 sum(u32 value) { return warp_sum(exchange(warp_sum(value), 0u)); }
    template <class T>
    __device__ __forceinline__ T least(T value) {
        return warp_min(exchange(warp_min(value), T(~T(0))));
    }
};

template <class Code, int kItems, class Scope>
struct HeldCodes {
    static constexpr Code kGreatest = Code(~Code(0));
    static constexpr u32 kCapacity = Scope::kThreads * kItems;

    Scope scope;
    u32 count = 0;
    Code codes[kItems];  // those past the count are the greatest code, which is below no code
    CodeRange<Code> whole;

    // Load the codes code_at(0) to code_at(count - 1); `count` is not 0.
    template <class CodeAt>
    __device__ __forceinline__ void load(u32 count_, CodeAt code_at) {
        count = count_;
        Code least = kGreatest, least_complement = kGreatest;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            const u32 position = i * Scope::kThreads + Scope::thread();
            codes[i] = kGreatest;
            if (position >= count) continue;
            codes[i] = code_at(position);
            least = min(least, codes[i]);
            least_complement = min(least_complement, Code(~codes[i]));
        }
        whole = {scope.least(least), Code(~scope.least(least_complement)), 0, count};
    }

    __device__ __forceinline__ u32 count_below(Code code) {
        u32 lower = 0;
#pragma unroll
        for (int i = 0; i < kItems; ++i) lower += codes[i] < code;
        return scope.sum(lower);
    }
    // The number of codes up to this one.
    __device__ __forceinline__ u32 count_up_to(Code code) { return code == kGreatest ? count : count_below(code + 1); }

    // The least code from this one on.
    __device__ __forceinline__ Code least_from(Code code) {
        Code least = kGreatest;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            if (codes[i] >= code) least = min(least, codes[i]);
        }
        return scope.least(least);
    }

    // Narrow a range that has the rank to the code at the rank.
    __device__ __forceinline__ void narrow(CodeRange<Code>& range, u32 rank) {
        while (range.low < range.high && range.up_to - range.below > 1) {
            const Code middle = range.low + (range.high - range.low) / 2 + 1;
            const u32 lower = count_below(middle);
            if (rank < lower) {
                range.high = middle - 1;
                range.up_to = lower;
            } else {
                range.low = middle;
                range.below = lower;
            }
        }
        if (range.low < range.high) range.low = range.high = least_from(range.low);
    }

    // The code at `rank`. `last` is the range of the code found before, or the whole range: the neighbours of a quantile
    // cost one search and two sums.
    __device__ __forceinline__ Code select(u32 rank, CodeRange<Code>& last) {
        if (last.low == last.high && rank == last.up_to) {
            const Code next = least_from(last.low + 1);
            last = {next, next, rank, count_up_to(next)};
        } else if (last.low < last.high || !last.has(rank)) {
            last = whole;
            narrow(last, rank);
        }
        return last.low;
    }
};

// What is wanted of each row of a matrix, and where it goes.

template <class Source>
struct WantedRanks {
    using Raw = typename Source::Raw;
    using Code = typename Source::Code;

    const long long* ranks;  // (rows, num_ranks)
    u32 num_ranks;
    Code first_nan;
    Raw* keys_out;    // (rows, num_ranks)
    long long* nans;  // (rows); null for keys without NaN

    // A rank past the end counts as the last one, so that every search ends.
    __device__ __forceinline__ u32 rank(Offset row, u32 r, u32 length) const {
        const long long wanted = ranks[row * num_ranks + r];
        return u32(max(min(wanted, (long long)length - 1), 0ll));
    }
    __device__ __forceinline__ void store(Offset row, u32 r, Code code) const {
        Source::store(keys_out, nullptr, row * num_ranks + r, code, NoValue{});
    }

    // Select among the codes of a whole row. All threads of the scope call it.
    template <class Held>
    __device__ __forceinline__ void select(Offset row, Held& held) const {
        CodeRange<Code> last = held.whole;
        for (u32 r = 0; r < num_ranks; ++r) {
            const Code code = held.select(rank(row, r, held.count), last);
            if (held.scope.thread() == 0) store(row, r, code);
        }
        if (!nans) return;
        const u32 numbers = held.count_below(first_nan);
        if (held.scope.thread() == 0) nans[row] = held.count - numbers;
    }
};

}  // namespace gpusort
