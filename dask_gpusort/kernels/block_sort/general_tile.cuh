// Sorts one bucket in shared memory whatever its codes are.
//
// Codes are counted into bins of equal width; floats of more than one exponent are skewed as codes, so their bins have
// equal width in value first. When bins come out imbalanced, the codes are counted once more, with each bin cut into as
// many parts as it holds codes. Thread t then insertion-sorts its kBinsPerThread neighbouring bins. When one bin still
// holds too many codes, and they differ (clustered keys), the bucket is merge-sorted: insertion sort of kItems codes a
// thread, then merge-path rounds of doubling width.
#pragma once
#include "block_sort/uniform_tile.cuh"

namespace gpusort {

// A slot: the bin of a code, and its rank of arrival there.
constexpr int kRankBits = 16;
constexpr u32 kRankMask = (1u << kRankBits) - 1;

// Insertion steps a code, for each code that a bin holds in the mean; codes spread evenly take 0.5.
constexpr float kImbalancedSteps = 0.75f;
constexpr float kFreeSteps = 0.1f;      // by chance, where codes are few
constexpr u32 kOverfullBin = 24;        // codes in one bin past which k^2 / 4 insertion steps cost more than merging
constexpr u64 kNoneEqual = 1ull << 40;  // codes in a bin: more than any number of parts
constexpr u32 kSureParts = 4;           // twice for rounding, twice for squeezing

template <class Domain, class Value, int kThreads, int kItems, int kBins, class Code = typename Domain::Code>
struct GeneralTile : UniformTile<Code, Value, kThreads, kItems, kBins> {
    using Tile = UniformTile<Code, Value, kThreads, kItems, kBins>;
    using typename Tile::Codes;
    using typename Tile::SharedStorage;
    using typename Tile::Values;
    static_assert(Tile::kTile <= 1 << kRankBits && kBins <= 1 << kRankBits, "bin and rank fit a slot");
    static_assert(kItems <= 32, "a bit an item");
    using Tile::comes_before;
    using Tile::is_filled;
    using Tile::shared;
    using Tile::size;

    u32 slots[kItems];
    u32 begin, end;  // ranks in this thread's bins

    __device__ __forceinline__ GeneralTile(SharedStorage& shared_, int size_) : Tile(shared_, size_) {}

    struct NeverEqual {
        __device__ __forceinline__ bool operator()(int) const { return false; }
    };

    // Insertion sort of the codes at [begin, end) by one thread.
    static __device__ __forceinline__ void insertion_sort(SharedStorage& shared, u32 begin, u32 end) {
        if (begin >= end) return;
        Code last = shared.code(begin);
        Value last_value = shared.value(begin);
        for (u32 p = begin + 1; p < end; ++p) {
            const Code code = shared.code(p);
            const Value value = shared.value(p);
            if (!comes_before(code, value, last, last_value)) {
                last = code;
                last_value = value;
                continue;
            }
            u32 q = p;
            do {
                shared.code(q) = shared.code(q - 1);
                if constexpr (kHasValues<Value>) shared.value(q) = shared.value(q - 1);
                --q;
            } while (q > begin && comes_before(code, value, shared.code(q - 1), shared.value(q - 1)));
            shared.code(q) = code;
            if constexpr (kHasValues<Value>) shared.value(q) = value;
        }
    }

    // Merge path, as merge/merge_tile.cuh: how many of the first `diagonal` outputs of the merge of [a, a_end) and
    // [b, b_end) come from a. Codes and values are in two arrays here.
    static __device__ __forceinline__ int merge_path(const SharedStorage& shared, int a, int a_end, int b, int b_end,
                                                     int diagonal) {
        int low = max(0, diagonal - (b_end - b)), high = min(diagonal, a_end - a);
        while (low < high) {
            const int middle = (low + high) / 2;
            const int i = a + middle, j = b + diagonal - 1 - middle;
            const bool b_first = comes_before(shared.code(j), shared.value(j), shared.code(i), shared.value(i));
            if (b_first) high = middle;
            else low = middle + 1;
        }
        return low;
    }

    // Outputs [first, first + kItems) of the merge of the pair of runs of `width` that contains them, into registers.
    static __device__ __forceinline__ void merge_items(const SharedStorage& shared, int size, int width, int first,
                                                       Codes& codes, Values& values) {
        const int a_begin = first / (2 * width) * (2 * width);
        const int a_end = min(a_begin + width, size), b_end = min(a_begin + 2 * width, size);
        int a = a_begin + merge_path(shared, a_begin, a_end, a_end, b_end, first - a_begin);
        int b = a_end + first - a;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (first + k >= size) break;
            const bool take_b = a >= a_end || (b < b_end && comes_before(shared.code(b), shared.value(b),
                                                                         shared.code(a), shared.value(a)));
            codes[k] = shared.code(take_b ? b : a);
            values[k] = shared.value(take_b ? b : a);
            take_b ? ++b : ++a;
        }
    }

    // Sort the first `size` codes in shared memory whatever they are. The caller's barriers come before and after.
    static __device__ __noinline__ void merge_sort(SharedStorage& shared, int size) {
        const int first = threadIdx.x * kItems;
        if (first < size) insertion_sort(shared, first, min(first + kItems, size));
        for (int width = kItems; width < size; width *= 2) {
            Code codes[kItems];
            Value values[kItems];
            __syncthreads();  // runs of `width` are complete before they are merged
            if (first < size) merge_items(shared, size, width, first, codes, values);
            __syncthreads();  // all runs are read before they are overwritten
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                if (first + k >= size) break;
                shared.code(first + k) = codes[k];
                if constexpr (kHasValues<Value>) shared.value(first + k) = values[k];
            }
        }
    }

    // Count every code into the bin `bin_of(k)`, and replace the counts by first ranks. Slot k gets the bin and the rank
    // of arrival. Returns whether a bin is overfull: it holds more than `limit` codes that differ (`is_equal(k)` is
    // false), or so many that insertion sort takes more than `most_steps` for each code of a warp.
    template <class BinOf, class IsEqual>
    __device__ __forceinline__ bool count_bins(BinOf bin_of, IsEqual is_equal, u32 limit, float most_steps) {
        Tile::clear_bins();
        __syncthreads();  // bins are zero before codes are counted
        bool overfull = false;
        u32 ranks = 0, own = 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (!is_filled(k)) continue;
            const bool same = is_equal(k);
            const u32 bin = bin_of(k);
            const u32 rank = atomicAdd(&shared.bins[bin], 1u);
            slots[k] = bin << kRankBits | rank;
            overfull = overfull || (rank >= limit && !same);
            ranks += rank;
            ++own;
        }
        // A warp's codes are a sample of the block's. Half of the pairs in a bin are out of order, an insertion step each.
        if (most_steps > 0) {
            const float steps = float(warp_sum(ranks)), most = most_steps * float(warp_sum(own));
            overfull = overfull || steps > most;
        }
        __syncthreads();  // all codes are counted before the bins are scanned
        Tile::scan_bins(begin, end);
        return __syncthreads_or(overfull);  // also: first ranks are there before codes are scattered
    }

    // Count again, with each bin cut into as many parts as it holds codes: `fraction(k)` is the position inside the bin.
    // Returns whether a part is overfull even so, with codes that differ. A bin with several times as many parts as
    // `codes_per_bin` has one code a part.
    template <class Fraction>
    __device__ __forceinline__ bool recount(Fraction fraction, u64 codes_per_bin) {
        const u32 squeeze = size > kBins ? __float2uint_rz(__fdiv_rd(float(kBins) * kTwoTo32, float(size))) : 0;
        u32 equal = 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (!is_filled(k)) continue;
            const u32 bin = slots[k] >> kRankBits;
            const u32 first = shared.bins[bin], parts = shared.bins[bin + 1] - first;
            const u32 part = first + __umulhi(fraction(k), parts);
            slots[k] = squeeze ? __umulhi(part, squeeze) : part;
            equal |= u32(parts >= kSureParts * codes_per_bin) << k;
        }
        __syncthreads();  // all first ranks are read before the bins are cleared
        const auto is_equal = [&](int k) { return bool(equal >> k & 1); };
        return count_bins([&](int k) { return slots[k]; }, is_equal, kOverfullBin, 0);
    }

    // Count into bins of equal width in value, for floats of more than one exponent. Returns whether the bins will do.
    __device__ __forceinline__ bool count_by_value(const Codes& codes, Code least, Code greatest, float most_steps) {
        LinearTransform transform;
        if (!Domain::spans_exponents(least, greatest) || !Domain::fit(least, greatest, transform)) return false;
        const ValueMap<Domain> map{Domain(transform), kBins};
        const auto bin_of = [&](int k) { return map.digit(codes[k]); };
        const auto fraction = [&](int k) { return map.fraction(codes[k]); };
        return !count_bins(bin_of, NeverEqual{}, kImbalancedBin, most_steps) || !recount(fraction, kNoneEqual);
    }

    // Count over the range of the codes, or of the payloads if all codes are equal. Returns whether bins are overfull.
    __device__ __forceinline__ bool count_with_payload(const Codes& codes, const Values& values, Code least,
                                                       Code greatest, float most_steps) {
        LinearMap map = LinearMap::over(least, greatest, kBins);
        const bool by_value = least == greatest;
        if (by_value) {
            Value low, high;
            __syncthreads();  // the codes' range is read before the payloads' overwrites it
            Tile::find_range(values, low, high);
            map = LinearMap::over(low, high, kBins);
        }
        const auto bin_of = [&](int k) { return by_value ? map.digit(values[k]) : map.digit(codes[k]); };
        if (!count_bins(bin_of, NeverEqual{}, kImbalancedBin, most_steps)) return false;
        const auto fraction = [&](int k) { return by_value ? map.fraction(values[k]) : map.fraction(codes[k]); };
        return recount(fraction, kNoneEqual);
    }

    // Count over the range of the codes. Returns whether bins are overfull; `exact` where no bin holds two codes.
    __device__ __forceinline__ bool count_alone(const Codes& codes, Code least, Code greatest, float most_steps,
                                                bool& exact) {
        const LinearMap map = LinearMap::over(least, greatest, kBins);
        exact = map.exact;
        const auto bin_of = [&](int k) { return map.digit(codes[k]); };
        if (!count_bins(bin_of, NeverEqual{}, kImbalancedBin, exact ? 0 : most_steps) || exact) return false;
        const u64 codes_per_bin = (u64(greatest) - least) / kBins + 2;
        return recount([&](int k) { return map.fraction(codes[k]); }, codes_per_bin);
    }

    // Count over the measured code range, or the payload range if all codes are equal. Floats spanning several exponents
    // are binned by value first. Returns whether bins are overfull; `exact` where no bin holds two codes.
    __device__ __forceinline__ bool count_measured(const Codes& codes, const Values& values, bool& exact) {
        const float most_steps = kImbalancedSteps * float(size) / kBins + kFreeSteps;
        Code least, greatest;
        Tile::find_range(codes, least, greatest);
        exact = false;
        if constexpr (Domain::kByValue) {
            if (count_by_value(codes, least, greatest, most_steps)) return false;
        }
        if constexpr (kHasValues<Value>) return count_with_payload(codes, values, least, greatest, most_steps);
        else return count_alone(codes, least, greatest, most_steps, exact);
    }

    // Write the codes from registers to their bins.
    __device__ __forceinline__ void scatter(const Codes& codes, const Values& values) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (!is_filled(k)) continue;
            const u32 rank = shared.bins[slots[k] >> kRankBits] + (slots[k] & kRankMask);
            shared.code(rank) = codes[k];
            if constexpr (kHasValues<Value>) shared.value(rank) = values[k];
        }
        __syncthreads();  // every bin is complete before it is sorted
    }

    // Whether every overfull bin holds one code only. The codes are in their bins.
    __device__ __forceinline__ bool overfull_bins_are_constant(const Codes& codes) const {
        bool differs = false;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (!is_filled(k)) continue;
            const u32 bin = slots[k] >> kRankBits, first = shared.bins[bin];
            differs = differs || (shared.bins[bin + 1] - first > kOverfullBin && codes[k] != shared.code(first));
        }
        return !__syncthreads_or(differs);
    }

    // Insertion-sort this thread's bins but the overfull ones.
    static __device__ __noinline__ void sort_other_bins(SharedStorage& shared) {
        const u32* bins = shared.bins + threadIdx.x * Tile::kBinsPerThread;
#pragma unroll
        for (int b = 0; b < Tile::kBinsPerThread; ++b) {
            if (bins[b + 1] - bins[b] <= kOverfullBin) insertion_sort(shared, bins[b], bins[b + 1]);
        }
    }

    // Sort the block's codes into shared memory.
    __device__ __forceinline__ void sort(const Codes& codes, const Values& values) {
        bool exact = false;
        const bool merge = count_measured(codes, values, exact);
        scatter(codes, values);
        if (!merge && !exact) insertion_sort(shared, begin, end);
        if (merge) {
            // For example, few distinct floats.
            if (!kHasValues<Value> && overfull_bins_are_constant(codes)) sort_other_bins(shared);
            else merge_sort(shared, size);
        }
        __syncthreads();  // the bucket is sorted before it is stored
    }
};

}  // namespace gpusort
