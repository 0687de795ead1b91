// What is wanted of each row of a matrix, and where it goes.
#pragma once
#include "keys/elements.cuh"
#include "select/held_codes.cuh"

namespace gpusort {

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
