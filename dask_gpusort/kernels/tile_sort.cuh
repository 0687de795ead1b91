// Sorts one bucket in shared memory: one counting step over its own range, then insertion inside the few-key bins.
//
//   codes      range [least, greatest] of the bucket, found first
//   bins       about one code each: LinearMap of that range; ranks from returning atomics
//   scatter    codes to the places of their bins
//   mend       thread t owns kBinsPerThread neighbouring bins, a contiguous stretch: insertion sort of that stretch
//
// When bins come out uneven (floats crowd in the upper exponents), the codes are counted once more, with each bin cut
// into as many parts as it holds codes. When one bin still holds too many (clustered keys), the stretches are merged
// instead: insertion sort of kItems codes a thread, then merge-path rounds of doubling width. When the range has no more codes than bins, the counting step
// has sorted already.
#pragma once
#include "block.cuh"
#include "digits.cuh"
#include "elements.cuh"

namespace gpusort {

constexpr u32 kUnevenBin = 12;   // codes in one bin past which a second counting step pays
constexpr u32 kCrowdedBin = 24;  // codes in one bin past which k^2 / 4 insertion steps cost more than merging

// Two bins a word: their 16-bit counts, then their first places.
constexpr int kBinBits = 16;
constexpr u32 kBinMask = (1u << kBinBits) - 1;

template <class Code, class Value, int kThreads, int kItems, int kBins>
struct TileSort {
    static constexpr int kTile = kThreads * kItems;
    static constexpr int kBinsPerThread = kBins / kThreads;
    static constexpr int kWordsPerThread = kBinsPerThread / 2;
    static constexpr int kWarps = kThreads / kWarpThreads;
    using Scan = LeanScan<u32, kThreads>;
    static_assert(kBins % (2 * kThreads) == 0, "every thread owns whole words of bins");
    static_assert(kTile <= 1 << kBinBits, "places fit half a word");

    struct SharedStorage {
        Code codes[kTile];
        Value values[kHasPayload<Value> ? kTile : 1];
        u32 bins[kBins / 2];
        u64 warp_greatest[kWarps];
        u64 warp_least[kWarps];
        typename Scan::SharedStorage scan;
    };

    static __device__ __forceinline__ bool comes_before(Code a, Value x, Code b, Value y) {
        if constexpr (kHasPayload<Value>) return a < b || (a == b && x < y);
        return a < b;
    }

    // Least and greatest of the block's codes (or values). Holds one barrier.
    template <class T>
    static __device__ __forceinline__ void find_range(const T (&codes)[kItems], int size, SharedStorage& shared,
                                                      T& least, T& greatest) {
        least = T(~T(0));
        greatest = 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) < size) {
                least = codes[k] < least ? codes[k] : least;
                greatest = codes[k] > greatest ? codes[k] : greatest;
            }
        }
        least = warp_min(least);
        greatest = warp_max(greatest);
        if (threadIdx.x % kWarpThreads == 0) {
            shared.warp_least[threadIdx.x / kWarpThreads] = least;
            shared.warp_greatest[threadIdx.x / kWarpThreads] = greatest;
        }
        __syncthreads();  // every warp's range is there before any is read
        const int w = threadIdx.x % kWarpThreads % kWarps;
        least = warp_min(T(shared.warp_least[w]));
        greatest = warp_max(T(shared.warp_greatest[w]));
    }

    // Replaces the counts of this thread's bins by first places. Gives its stretch, and the most codes in one of them.
    static __device__ __forceinline__ u32 scan_bins(SharedStorage& shared, u32& begin, u32& end) {
        u32* words = shared.bins + threadIdx.x * kWordsPerThread;
        u32 sums = 0, most = 0;
#pragma unroll
        for (int w = 0; w < kWordsPerThread; ++w) {
            const u32 low = words[w] & kBinMask, high = words[w] >> kBinBits;
            most = max(most, max(low, high));
            sums += low + high;
        }
        begin = Scan::exclusive(sums, shared.scan);
        end = begin + sums;
        u32 place = begin;
#pragma unroll
        for (int w = 0; w < kWordsPerThread; ++w) {
            const u32 word = words[w];
            const u32 second = place + (word & kBinMask);
            words[w] = place | second << kBinBits;
            place = second + (word >> kBinBits);
        }
        return most;
    }

    // Insertion sort of the codes at [begin, end) by one thread.
    static __device__ __forceinline__ void mend(SharedStorage& shared, u32 begin, u32 end) {
        if (begin >= end) return;
        Code last = shared.codes[begin];
        Value last_value = shared.values[kHasPayload<Value> ? begin : 0];
        for (u32 p = begin + 1; p < end; ++p) {
            const Code code = shared.codes[p];
            const Value value = shared.values[kHasPayload<Value> ? p : 0];
            if (!comes_before(code, value, last, last_value)) {
                last = code;
                last_value = value;
                continue;
            }
            u32 q = p;
            do {
                shared.codes[q] = shared.codes[q - 1];
                if constexpr (kHasPayload<Value>) shared.values[q] = shared.values[q - 1];
                --q;
            } while (q > begin && comes_before(code, value, shared.codes[q - 1], shared.values[kHasPayload<Value> ? q - 1 : 0]));
            shared.codes[q] = code;
            if constexpr (kHasPayload<Value>) shared.values[q] = value;
        }
    }

    // How many of the first `diagonal` outputs of the merge of [a, a_end) and [b, b_end) come from a.
    static __device__ __forceinline__ int merge_path(const SharedStorage& shared, int a, int a_end, int b, int b_end,
                                                     int diagonal) {
        int low = max(0, diagonal - (b_end - b)), high = min(diagonal, a_end - a);
        while (low < high) {
            const int middle = (low + high) / 2;
            const int i = a + middle, j = b + diagonal - 1 - middle;
            const Value* values = shared.values;
            const bool b_first = comes_before(shared.codes[j], values[kHasPayload<Value> ? j : 0], shared.codes[i],
                                              values[kHasPayload<Value> ? i : 0]);
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
            const int i = kHasPayload<Value> ? a : 0, j = kHasPayload<Value> ? b : 0;
            const bool take_b = a >= a_end || (b < b_end && comes_before(shared.codes[b], shared.values[j], shared.codes[a], shared.values[i]));
            codes[k] = shared.codes[take_b ? b : a];
            values[k] = shared.values[take_b ? j : i];
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
                shared.codes[first + k] = codes[k];
                if constexpr (kHasPayload<Value>) shared.values[first + k] = values[k];
            }
        }
    }

    static __device__ __forceinline__ void clear_bins(SharedStorage& shared) {
        for (int w = threadIdx.x; w < kBins / 2; w += kThreads) shared.bins[w] = 0;
    }

    // Counts every code into the bin `bin_of(k)`, and replaces the counts by first places. Slot k becomes the bin and
    // the rank in it. Gives this thread's stretch, and whether any bin of the block holds more than `limit` codes.
    template <class BinOf>
    static __device__ __forceinline__ bool count_bins(BinOf bin_of, u32 limit, int size, SharedStorage& shared,
                                                      u32 (&slots)[kItems], u32& begin, u32& end) {
        clear_bins(shared);
        __syncthreads();  // bins are zero before codes are counted
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 bin = bin_of(k);
            const int shift = (bin & 1) * kBinBits;
            const u32 rank = atomicAdd(&shared.bins[bin >> 1], 1u << shift) >> shift & kBinMask;
            slots[k] = bin << kBinBits | rank;
        }
        __syncthreads();  // all codes are counted before the bins are scanned
        const u32 most = scan_bins(shared, begin, end);
        return __syncthreads_or(most > limit);  // also: first places are there before codes are scattered
    }

    // The same over the measured range of the codes; of the values, where all codes are equal. Gives whether the bins
    // are crowded and hold codes that still need sorting; `exact` where no bin holds two codes.
    static __device__ __forceinline__ bool count_measured(const Code (&codes)[kItems], const Value (&values)[kItems], int size,
                                                          SharedStorage& shared, u32 (&slots)[kItems], u32& begin,
                                                          u32& end, bool& exact) {
        Code least, greatest;
        find_range(codes, size, shared, least, greatest);
        LinearMap map = LinearMap::over(least, greatest, kBins);
        if constexpr (kHasPayload<Value>) {
            const bool by_value = least == greatest;
            if (by_value) {
                Value low, high;
                __syncthreads();  // the codes' range is read before the values' overwrites it
                find_range(values, size, shared, low, high);
                map = LinearMap::over(low, high, kBins);
            }
            exact = false;
            const auto bin_of = [&](int k) { return by_value ? map.digit(values[k]) : map.digit(codes[k]); };
            if (!count_bins(bin_of, kUnevenBin, size, shared, slots, begin, end)) return false;
            const auto fraction = [&](int k) { return by_value ? map.fraction(values[k]) : map.fraction(codes[k]); };
            return recount(fraction, size, shared, slots, begin, end);
        } else {
            exact = map.exact;
            const auto bin_of = [&](int k) { return map.digit(codes[k]); };
            if (!count_bins(bin_of, kUnevenBin, size, shared, slots, begin, end) || exact) return false;
            return recount([&](int k) { return map.fraction(codes[k]); }, size, shared, slots, begin, end);
        }
    }

    static __device__ __forceinline__ u32 first_place(const SharedStorage& shared, u32 bin) {
        return shared.bins[bin >> 1] >> (bin & 1) * kBinBits & kBinMask;
    }

    // Counts again, with each bin cut into as many parts as it holds codes: `fraction(k)` is the place inside the bin.
    // Gives whether a bin is crowded even so.
    template <class Fraction>
    static __device__ __forceinline__ bool recount(Fraction fraction, int size, SharedStorage& shared,
                                                   u32 (&slots)[kItems], u32& begin, u32& end) {
        const u32 squeeze = size > kBins ? __float2uint_rz(__fdiv_rd(float(kBins) * kTwoTo32, float(size))) : 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 bin = slots[k] >> kBinBits;
            const u32 first = first_place(shared, bin);
            const u32 next = bin + 1 < kBins ? first_place(shared, bin + 1) : u32(size);
            const u32 part = first + __umulhi(fraction(k), next - first);
            slots[k] = squeeze ? __umulhi(part, squeeze) : part;
        }
        __syncthreads();  // all places are read before the bins are cleared
        return count_bins([&](int k) { return slots[k]; }, kCrowdedBin, size, shared, slots, begin, end);
    }

    // Codes from registers to the places of their bins.
    static __device__ __forceinline__ void scatter(const Code (&codes)[kItems], const Value (&values)[kItems], int size,
                                                   const u32 (&slots)[kItems], SharedStorage& shared) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 place = first_place(shared, slots[k] >> kBinBits) + (slots[k] & kBinMask);
            shared.codes[place] = codes[k];
            if constexpr (kHasPayload<Value>) shared.values[place] = values[k];
        }
        __syncthreads();  // every bin is complete before it is mended
    }

    // Sorts the block's codes (striped over the threads) into shared.codes, by bins that the caller knows to be even.
    // Gives up where they are not: false for the whole block, and nothing is sorted. kExact: no bin holds two codes.
    template <bool kExact, class BinOf>
    static __device__ __forceinline__ bool sort_even(const Code (&codes)[kItems], const Value (&values)[kItems], int size,
                                                     BinOf bin_of, SharedStorage& shared) {
        u32 slots[kItems];
        u32 begin, end;
        if (count_bins(bin_of, kExact ? kTile : kUnevenBin, size, shared, slots, begin, end)) return false;
        scatter(codes, values, size, slots, shared);
        if constexpr (!kExact) {
            mend(shared, begin, end);
            __syncthreads();  // the bucket is sorted before it is stored
        }
        return true;
    }

    // The same for codes of any distribution.
    static __device__ __forceinline__ void sort(const Code (&codes)[kItems], const Value (&values)[kItems], int size,
                                                SharedStorage& shared) {
        u32 slots[kItems];
        u32 begin, end;
        bool exact = false;
        const bool merge = count_measured(codes, values, size, shared, slots, begin, end, exact);
        scatter(codes, values, size, slots, shared);
        if (merge) merge_sort(shared, size);
        else if (!exact) mend(shared, begin, end);
        __syncthreads();  // the bucket is sorted before it is stored
    }
};

}  // namespace gpusort
