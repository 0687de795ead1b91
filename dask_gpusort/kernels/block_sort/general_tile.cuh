// Sorts one bucket in shared memory whatever its codes are.
//
// Floats of more than one exponent crowd in the upper ones, so their bins are cut from the line of their values first.
// When bins come out uneven, the codes are counted once more, with each bin cut into as many parts as it holds codes, and
// thread t mends its kBinsPerThread neighbouring bins by insertion sort. When one bin still holds too many codes, and
// they differ (clustered keys), the stretches are merged instead: insertion sort of kItems codes a thread, then
// merge-path rounds of doubling width.
#pragma once
#include "block_sort/uniform_tile.cuh"

namespace gpusort {

// A slot: the bin of a code, and its rank of arrival there.
constexpr int kRankBits = 16;
constexpr u32 kRankMask = (1u << kRankBits) - 1;

constexpr float kUnevenSteps = 0.75f;  // to mend a code, for each code that a bin holds in the mean: even ones take 0.5
constexpr float kFreeSteps = 0.1f;     // of chance, where codes are few
constexpr u32 kCrowdedBin = 24;        // codes in one bin past which k^2 / 4 insertion steps cost more than merging

template <class Domain, class Value, int kThreads, int kItems, int kBins, class Code = typename Domain::Code>
struct GeneralTile : UniformTile<Code, Value, kThreads, kItems, kBins> {
    using Tile = UniformTile<Code, Value, kThreads, kItems, kBins>;
    using typename Tile::SharedStorage;
    static_assert(Tile::kTile <= 1 << kRankBits && kBins <= 1 << kRankBits, "bin and rank fit a slot");
    using Tile::comes_before;

    struct NeverAlike {
        __device__ __forceinline__ bool operator()(int) const { return false; }
    };
    static constexpr u64 kNoneAlike = 1ull << 40;  // codes in a bin: more than any number of parts
    static constexpr u32 kSureParts = 4;           // twice for rounding, twice for squeezing

    // Insertion sort of the codes at [begin, end) by one thread.
    static __device__ __forceinline__ void mend(SharedStorage& shared, u32 begin, u32 end) {
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
                if constexpr (kHasPayload<Value>) shared.value(q) = shared.value(q - 1);
                --q;
            } while (q > begin && comes_before(code, value, shared.code(q - 1), shared.value(q - 1)));
            shared.code(q) = code;
            if constexpr (kHasPayload<Value>) shared.value(q) = value;
        }
    }

    // How many of the first `diagonal` outputs of the merge of [a, a_end) and [b, b_end) come from a.
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

    // Outputs [first, first + kItems) of the merge of the run pair of `width` they lie in, into registers.
    static __device__ __forceinline__ void merge_items(const SharedStorage& shared, int size, int width, int first,
                                                       Code (&codes)[kItems], Value (&values)[kItems]) {
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

    // Sorts the first `size` codes in shared memory whatever they are. The caller's barriers come before and after.
    static __device__ __noinline__ void merge_sort(SharedStorage& shared, int size) {
        const int first = threadIdx.x * kItems;
        if (first < size) mend(shared, first, min(first + kItems, size));
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
                if constexpr (kHasPayload<Value>) shared.value(first + k) = values[k];
            }
        }
    }

    // Counts every code into the bin `bin_of(k)`, and replaces the counts by first places. Slot k becomes the bin and
    // the rank in it. Gives this thread's stretch, and whether more than `limit` codes that are not `alike(k)` share a
    // bin, or so many that to mend them takes more than `most_steps` for each code of a warp.
    template <class BinOf, class Alike>
    static __device__ __forceinline__ bool count_bins(BinOf bin_of, Alike alike, u32 limit, float most_steps, int size,
                                                      SharedStorage& shared, u32 (&slots)[kItems], u32& begin,
                                                      u32& end) {
        Tile::clear_bins(shared);
        __syncthreads();  // bins are zero before codes are counted
        bool skewed = false;
        u32 ranks = 0, own = 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const bool same = alike(k);
            const u32 bin = bin_of(k);
            const u32 rank = atomicAdd(&shared.bins[bin], 1u);
            slots[k] = bin << kRankBits | rank;
            skewed = skewed || (rank >= limit && !same);
            ranks += rank;
            ++own;
        }
        // A warp's codes are a sample of the block's. Half of the pairs in a bin stand wrong, each a step to mend.
        if (most_steps > 0) {
            const float steps = float(warp_sum(ranks)), most = most_steps * float(warp_sum(own));
            skewed = skewed || steps > most;
        }
        __syncthreads();  // all codes are counted before the bins are scanned
        Tile::scan_bins(shared, size, begin, end);
        return __syncthreads_or(skewed);  // also: first places are there before codes are scattered
    }

    // The same over the measured range of the codes; of the values, where all codes are equal. Floats of more than one
    // exponent are counted by what they are worth, first. Gives whether the bins are skewed and hold codes that still
    // need sorting; `exact` where no bin holds two codes.
    static __device__ __forceinline__ bool count_measured(const Code (&codes)[kItems], const Value (&values)[kItems],
                                                          int size, SharedStorage& shared, u32 (&slots)[kItems],
                                                          u32& begin, u32& end, bool& exact) {
        const float most_steps = kUnevenSteps * float(size) / kBins + kFreeSteps;
        Code least, greatest;
        Tile::find_range(codes, size, shared, least, greatest);
        exact = false;
        if constexpr (Domain::kHasValues) {
            LinearTransform line;
            if (Domain::bends(least, greatest) && Domain::draw(least, greatest, line)) {
                const ValueMap<Domain> map{Domain(line), kBins};
                const auto bin_of = [&](int k) { return map.digit(codes[k]); };
                const auto fraction = [&](int k) { return map.fraction(codes[k]); };
                if (!count_bins(bin_of, NeverAlike{}, kUnevenBin, most_steps, size, shared, slots, begin, end) ||
                    !recount(fraction, size, kNoneAlike, shared, slots, begin, end)) {
                    return false;
                }
            }
        }
        LinearMap map = LinearMap::over(least, greatest, kBins);
        if constexpr (kHasPayload<Value>) {
            const bool by_value = least == greatest;
            if (by_value) {
                Value low, high;
                __syncthreads();  // the codes' range is read before the values' overwrites it
                Tile::find_range(values, size, shared, low, high);
                map = LinearMap::over(low, high, kBins);
            }
            const auto bin_of = [&](int k) { return by_value ? map.digit(values[k]) : map.digit(codes[k]); };
            if (!count_bins(bin_of, NeverAlike{}, kUnevenBin, most_steps, size, shared, slots, begin, end))
                return false;
            const auto fraction = [&](int k) { return by_value ? map.fraction(values[k]) : map.fraction(codes[k]); };
            return recount(fraction, size, kNoneAlike, shared, slots, begin, end);
        } else {
            exact = map.exact;
            const auto bin_of = [&](int k) { return map.digit(codes[k]); };
            const float steps = exact ? 0 : most_steps;
            if (!count_bins(bin_of, NeverAlike{}, kUnevenBin, steps, size, shared, slots, begin, end) || exact) {
                return false;
            }
            const u64 codes_per_bin = (u64(greatest) - least) / kBins + 2;
            return recount([&](int k) { return map.fraction(codes[k]); }, size, codes_per_bin, shared, slots, begin,
                           end);
        }
    }

    // Counts again, with each bin cut into as many parts as it holds codes: `fraction(k)` is the place inside the bin.
    // Gives whether a part is skewed even so, by codes that differ: a bin with several times as many parts as
    // `codes_per_bin` has one code a part.
    template <class Fraction>
    static __device__ __forceinline__ bool recount(Fraction fraction, int size, u64 codes_per_bin,
                                                   SharedStorage& shared, u32 (&slots)[kItems], u32& begin, u32& end) {
        const u32 squeeze = size > kBins ? __float2uint_rz(__fdiv_rd(float(kBins) * kTwoTo32, float(size))) : 0;
        u32 alike = 0;
        static_assert(kItems <= 32, "a bit an item");
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 bin = slots[k] >> kRankBits;
            const u32 first = shared.bins[bin], parts = shared.bins[bin + 1] - first;
            const u32 part = first + __umulhi(fraction(k), parts);
            slots[k] = squeeze ? __umulhi(part, squeeze) : part;
            alike |= u32(parts >= kSureParts * codes_per_bin) << k;
        }
        __syncthreads();  // all places are read before the bins are cleared
        const auto is_alike = [&](int k) { return bool(alike >> k & 1); };
        return count_bins([&](int k) { return slots[k]; }, is_alike, kCrowdedBin, 0, size, shared, slots, begin, end);
    }

    // Codes from registers to the places of their bins.
    static __device__ __forceinline__ void scatter(const Code (&codes)[kItems], const Value (&values)[kItems], int size,
                                                   const u32 (&slots)[kItems], SharedStorage& shared) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 place = shared.bins[slots[k] >> kRankBits] + (slots[k] & kRankMask);
            shared.code(place) = codes[k];
            if constexpr (kHasPayload<Value>) shared.value(place) = values[k];
        }
        __syncthreads();  // every bin is complete before it is mended
    }

    // Whether every skewed bin holds one code only. The codes are in the places of their bins.
    static __device__ __forceinline__ bool crowds_are_alike(const Code (&codes)[kItems], int size,
                                                            const u32 (&slots)[kItems], const SharedStorage& shared) {
        bool unlike = false;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 bin = slots[k] >> kRankBits, first = shared.bins[bin];
            unlike = unlike || (shared.bins[bin + 1] - first > kCrowdedBin && codes[k] != shared.code(first));
        }
        return !__syncthreads_or(unlike);
    }

    // As mend, of this thread's bins but the skewed ones.
    static __device__ __noinline__ void mend_others(SharedStorage& shared) {
        const u32* bins = shared.bins + threadIdx.x * Tile::kBinsPerThread;
        for (int b = 0; b < Tile::kBinsPerThread; ++b) {
            if (bins[b + 1] - bins[b] <= kCrowdedBin) mend(shared, bins[b], bins[b + 1]);
        }
    }

    // Sorts the block's codes (striped over the threads) into shared memory.
    static __device__ __forceinline__ void sort(const Code (&codes)[kItems], const Value (&values)[kItems], int size,
                                                SharedStorage& shared) {
        u32 slots[kItems];
        u32 begin, end;
        bool exact = false;
        const bool merge = count_measured(codes, values, size, shared, slots, begin, end, exact);
        scatter(codes, values, size, slots, shared);
        if (!merge && !exact) mend(shared, begin, end);
        if (merge) {
            // Few distinct floats, say.
            if (!kHasPayload<Value> && crowds_are_alike(codes, size, slots, shared)) mend_others(shared);
            else merge_sort(shared, size);
        }
        __syncthreads();  // the bucket is sorted before it is stored
    }
};

}  // namespace gpusort
