// Sorts one bucket in shared memory: one counting step over its range, then a look at the neighbours.
//
//   codes      range [least, greatest] of the bucket, found first
//   fields     16 to a key: 2-bit counters, 16 to a word, so that few codes share one         LinearMap of the range
//   scan       of the words' sums: a code's place is its word's, and what the lower fields of the word hold
//   scatter    codes to their places; those that share a field, in any order
//   look       thread i looks at the codes in places i - 2 .. i + 2 and moves its own by those that stand wrong
//
// When the range has no more codes than fields, the counting step has sorted already. Where more than three codes share
// a field, or would (few distinct codes), the same words count bins of about one code each: codes rank within their
// bin. Bins that come out uneven are left to `GeneralTile`.
//
// Measured (profiler, 2^28 random u32): an insertion sort of each thread's stretch of bins took 131 instructions and 35
// shared-memory wavefronts for 32 keys, and the step was bound by the latter.
#pragma once
#include "primitives/block.cuh"
#include "buckets/digits.cuh"
#include "keys/elements.cuh"

namespace gpusort {

constexpr int kFieldBits = 2;
constexpr int kFieldsPerWord = 32 / kFieldBits;
constexpr u32 kMostInField = (1u << kFieldBits) - 1;
constexpr int kWindow = kMostInField - 1;  // codes that share a field stand at most so far from their places
constexpr u32 kLowBits = 0x55555555u;      // of all fields of a word
constexpr u32 kFieldsPerKey = 10;          // fewer, and one field in a bucket of 4096 codes overflows

constexpr u32 kSpreadCodes = 2;  // times as many codes as keys in the range; of fewer, several keys share each

constexpr u32 kUnevenBin = 12;   // codes in one bin past which a second counting step pays
constexpr int kArrivalBits = 4;  // of a code's rank in its bin, by arrival: holds kUnevenBin
constexpr int kArrivalsPerWord = 32 / kArrivalBits;
static_assert(kUnevenBin < 1u << kArrivalBits, "ranks of even bins fit");

// Digits of codes and of what breaks their ties: where several keys share each code, a bin for each would hold too many.
// Ties are broken by the code's low word (kPacked), or by the value.
template <class Code, class Value, bool kPacked>
struct SpreadMap {
    static constexpr bool kTies = true;

    LinearMap line;
    u64 least;  // code, without what breaks ties
    u32 least_tie;
    u64 span;  // of what breaks ties
    u32 exact;

    static __device__ __forceinline__ u64 code_of(Code code) { return kPacked ? u64(code) >> kPositionBits : code; }
    static __device__ __forceinline__ u32 tie_of(Code code, Value value) {
        if constexpr (kPacked) return u32(code);
        else return u32(value);
    }
    __device__ __forceinline__ u32 digit(Code code, Value value) const {
        return line.digit((code_of(code) - least) * span + (tie_of(code, value) - least_tie));
    }
};

template <class Code, class Value, int kThreads, int kItems, int kBins>
struct UniformTile {
    static constexpr int kTile = kThreads * kItems;
    static constexpr int kBinsPerThread = kBins / kThreads;
    static constexpr int kVectorBins = kBinsPerThread % 4 == 0 ? 4 : 2;
    static constexpr int kVectors = kBinsPerThread / kVectorBins;
    static constexpr int kWarps = kThreads / kWarpThreads;
    using Scan = LeanScan<u32, kThreads>;
    static_assert(kBins % (2 * kThreads) == 0, "every thread owns whole vectors of bins");

    // Bins that one access moves: a thread's own lie side by side, and accesses of single ones would share banks.
    struct alignas(sizeof(u32) * kVectorBins) BinVector {
        u32 bins[kVectorBins];
    };

    static constexpr int kFields = kBins * kFieldsPerWord;
    static constexpr int kPaddedTile = kTile + 2 * kWindow;  // the look at neighbours needs no guard

    struct SharedStorage {
        Code padded_codes[kPaddedTile];
        Value padded_values[kHasPayload<Value> ? kPaddedTile : 1];
        alignas(16) u32 bins[kBins + 1];  // counts, then first places; the last: the place behind all
        alignas(16) u16 places[kBins];    // before the fields of a word
        u64 warp_greatest[kWarps];
        u64 warp_least[kWarps];
        typename Scan::SharedStorage scan;

        __device__ __forceinline__ Code& code(int i) { return padded_codes[i + kWindow]; }
        __device__ __forceinline__ Code code(int i) const { return padded_codes[i + kWindow]; }
        __device__ __forceinline__ Value& value(int i) { return padded_values[kHasPayload<Value> ? i + kWindow : 0]; }
        __device__ __forceinline__ Value value(int i) const {
            return padded_values[kHasPayload<Value> ? i + kWindow : 0];
        }
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

    static __device__ __forceinline__ void clear_bins(SharedStorage& shared) {
        BinVector* vectors = reinterpret_cast<BinVector*>(shared.bins);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) vectors[v * kThreads + threadIdx.x] = BinVector{};
    }

    // Replaces the counts of this thread's bins by first places. Gives its stretch, and the most codes in one of them.
    static __device__ __forceinline__ u32 scan_bins(SharedStorage& shared, int size, u32& begin, u32& end) {
        BinVector* own = reinterpret_cast<BinVector*>(shared.bins + threadIdx.x * kBinsPerThread);
        BinVector counts[kVectors];
        u32 sum = 0, most = 0;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            counts[v] = own[v];
#pragma unroll
            for (u32 count : counts[v].bins) {
                most = max(most, count);
                sum += count;
            }
        }
        begin = end = Scan::exclusive(sum, shared.scan);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
#pragma unroll
            for (u32& bin : counts[v].bins) {
                const u32 count = bin;
                bin = end;
                end += count;
            }
            own[v] = counts[v];
        }
        if (threadIdx.x == 0) shared.bins[kBins] = u32(size);
        return most;
    }

    // How many codes the fields of a word hold; of those in `mask`.
    static __device__ __forceinline__ u32 sum_fields(u32 word, u32 mask = ~0u) {
        return __popc(word & mask & kLowBits) + 2 * __popc(word & mask & ~kLowBits);
    }

    // Replaces the fields of this thread's words by places before them.
    static __device__ __forceinline__ void scan_fields(SharedStorage& shared) {
        const BinVector* own = reinterpret_cast<const BinVector*>(shared.bins + threadIdx.x * kBinsPerThread);
        struct alignas(sizeof(u16) * kVectorBins) PlaceVector {
            u16 places[kVectorBins];
        };
        PlaceVector* places = reinterpret_cast<PlaceVector*>(shared.places + threadIdx.x * kBinsPerThread);
        u32 sums[kBinsPerThread], sum = 0;
#pragma unroll
        for (int w = 0; w < kBinsPerThread; ++w) {
            sums[w] = sum;
            sum += sum_fields(own[w / kVectorBins].bins[w % kVectorBins]);
        }
        const u32 begin = Scan::exclusive(sum, shared.scan);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            PlaceVector vector;
#pragma unroll
            for (int w = 0; w < kVectorBins; ++w) vector.places[w] = u16(begin + sums[v * kVectorBins + w]);
            places[v] = vector;
        }
    }

    // Counts the codes into fields. Gives false, for the whole block, where a field cannot hold its codes.
    static __device__ __forceinline__ bool count_fields(const Code (&codes)[kItems], int size, const LinearMap& map,
                                                        SharedStorage& shared,
                                                        u32 (&ranks)[kItems / kFieldsPerWord + 1]) {
        clear_bins(shared);
        __syncthreads();  // fields are zero before codes are counted
        u32 most = 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            u32 rank = 0;
            if (k * kThreads + int(threadIdx.x) < size) {
                const u32 field = map.digit(codes[k]), shift = field % kFieldsPerWord * kFieldBits;
                rank = atomicAdd(&shared.bins[field / kFieldsPerWord], 1u << shift) >> shift & kMostInField;
            }
            most = max(most, rank);
            const u32 word = k % kFieldsPerWord == 0 ? 0 : ranks[k / kFieldsPerWord];
            ranks[k / kFieldsPerWord] = word | rank << k % kFieldsPerWord * kFieldBits;
        }
        return !__syncthreads_or(most == kMostInField);  // also: all codes are counted before the fields are summed
    }

    static __device__ __forceinline__ void scatter_by_fields(const Code (&codes)[kItems], const Value (&values)[kItems],
                                                             int size, const LinearMap& map, SharedStorage& shared,
                                                             const u32 (&ranks)[kItems / kFieldsPerWord + 1]) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 field = map.digit(codes[k]), w = field / kFieldsPerWord;
            const u32 lower = (1u << field % kFieldsPerWord * kFieldBits) - 1;
            const u32 rank = ranks[k / kFieldsPerWord] >> k % kFieldsPerWord * kFieldBits & kMostInField;
            const u32 place = shared.places[w] + sum_fields(shared.bins[w], lower) + rank;
            shared.code(place) = codes[k];
            if constexpr (kHasPayload<Value>) shared.value(place) = values[k];
        }
        if (threadIdx.x < kWindow) {
            shared.code(-1 - int(threadIdx.x)) = 0;
            shared.code(size + threadIdx.x) = Code(~Code(0));
            if constexpr (kHasPayload<Value>) {
                shared.value(-1 - int(threadIdx.x)) = 0;
                shared.value(size + threadIdx.x) = Value(~Value(0));
            }
        }
    }

    // Sorts by fields, if they can hold the codes; otherwise emits nothing.
    template <class Emit>
    static __device__ __forceinline__ bool sort_by_fields(const Code (&codes)[kItems], const Value (&values)[kItems],
                                                          int size, Code least, Code greatest, SharedStorage& shared,
                                                          Emit emit) {
        const LinearMap map = LinearMap::over(least, greatest, kFields);
        u32 ranks[kItems / kFieldsPerWord + 1];
        if (!count_fields(codes, size, map, shared, ranks)) return false;
        scan_fields(shared);
        __syncthreads();  // places are there before codes are scattered
        scatter_by_fields(codes, values, size, map, shared, ranks);
        __syncthreads();  // every code is in its place before its neighbours are looked at
        const bool sorted = !kHasPayload<Value> && map.exact;
        for (int i = threadIdx.x; i < size; i += kThreads) {
            const Code code = shared.code(i);
            const Value value = shared.value(i);
            int place = i;
            if (!sorted) {
#pragma unroll
                for (int d = 1; d <= kWindow; ++d) {
                    place -= comes_before(code, value, shared.code(i - d), shared.value(i - d));
                    place += comes_before(shared.code(i + d), shared.value(i + d), code, value);
                }
            }
            emit(u32(place), code, value);
        }
        return true;
    }

    // Counts the codes into bins, ranks of arrival packed into words, and scans the counts. Gives whether any bin of
    // the block holds more than `limit` codes.
    template <class Map>
    static __device__ __forceinline__ bool count_bins(const Code (&codes)[kItems], const Value (&values)[kItems],
                                                      int size, const Map& map, u32 limit, SharedStorage& shared,
                                                      u32 (&ranks)[kItems / kArrivalsPerWord + 1]) {
        clear_bins(shared);
        __syncthreads();  // bins are zero before codes are counted
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 rank = k * kThreads + int(threadIdx.x) < size
                                 ? atomicAdd(&shared.bins[map.digit(codes[k], values[k])], 1u)
                                 : 0;
            const u32 word = k % kArrivalsPerWord == 0 ? 0 : ranks[k / kArrivalsPerWord];
            ranks[k / kArrivalsPerWord] = word | rank << k % kArrivalsPerWord * kArrivalBits;
        }
        __syncthreads();  // all codes are counted before the bins are scanned
        u32 begin, end;
        const u32 most = scan_bins(shared, size, begin, end);
        return __syncthreads_or(most > limit);  // also: first places are there before codes are scattered
    }

    // Where the code in place i belongs: behind the codes of its bin that come before it, equal ones by their places.
    static __device__ __forceinline__ u32 find_place(const SharedStorage& shared, u32 i, Code code, Value value,
                                                     u32 bin) {
        const u32 begin = shared.bins[bin], end = shared.bins[bin + 1];
        u32 place = begin;
#pragma unroll 1  // most bins hold one to three codes
        for (u32 j = begin; j < end; ++j) {
            const Code other = shared.code(j);
            if constexpr (kHasPayload<Value>) place += comes_before(other, shared.value(j), code, value);
            else place += other < code || (other == code && j < i);
        }
        return place;
    }

    // Sorts by bins of no more than one code each: every code claims the next place of its bin.
    template <class Map, class Emit>
    static __device__ __forceinline__ void sort_by_single_bins(const Code (&codes)[kItems],
                                                               const Value (&values)[kItems], int size, const Map& map,
                                                               SharedStorage& shared, Emit emit) {
        u32 ranks[kItems / kArrivalsPerWord + 1];
        count_bins(codes, values, size, map, kTile, shared, ranks);
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) < size)
                shared.code(atomicAdd(&shared.bins[map.digit(codes[k], values[k])], 1u)) = codes[k];
        }
        __syncthreads();  // every code is in its place before it is stored
        for (int i = threadIdx.x; i < size; i += kThreads) emit(u32(i), shared.code(i), Value{});
    }

    // The bins of codes between two ends. Holds two barriers where ties are looked at: for ranges with fewer codes than
    // keys, or not many more.
    template <class Map>
    static __device__ __forceinline__ Map make_map(const Code (&codes)[kItems], const Value (&values)[kItems], int size,
                                                   Code least, Code greatest, SharedStorage& shared) {
        if constexpr (Map::kTies) {
            u32 ties[kItems], least_tie, greatest_tie;
#pragma unroll
            for (int k = 0; k < kItems; ++k) ties[k] = Map::tie_of(codes[k], values[k]);
            __syncthreads();  // the codes' range is read before that of the ties overwrites it
            find_range(ties, size, shared, least_tie, greatest_tie);
            const u64 first = Map::code_of(least), span = u64(greatest_tie) - least_tie + 1;
            const LinearMap line = LinearMap::over(0, (Map::code_of(greatest) - first + 1) * span - 1, kBins);
            return {line, first, least_tie, span, line.exact};
        } else {
            return LinearMap::over(least, greatest, kBins);
        }
    }

    // Sorts by bins, if these come out even; otherwise emits nothing.
    template <class Map, class Emit>
    static __device__ __forceinline__ bool sort_by_bins(const Code (&codes)[kItems], const Value (&values)[kItems],
                                                        int size, const Map& map, SharedStorage& shared, Emit emit) {
        if (!kHasPayload<Value> && map.exact) {
            sort_by_single_bins(codes, values, size, map, shared, emit);
            return true;
        }
        u32 ranks[kItems / kArrivalsPerWord + 1];
        if (count_bins(codes, values, size, map, kUnevenBin, shared, ranks)) return false;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (k * kThreads + int(threadIdx.x) >= size) continue;
            const u32 rank =
                ranks[k / kArrivalsPerWord] >> k % kArrivalsPerWord * kArrivalBits & ((1u << kArrivalBits) - 1);
            const u32 place = shared.bins[map.digit(codes[k], values[k])] + rank;
            shared.code(place) = codes[k];
            if constexpr (kHasPayload<Value>) shared.value(place) = values[k];
        }
        __syncthreads();  // every bin is complete before its codes are compared
        for (int i = threadIdx.x; i < size; i += kThreads) {
            const Code code = shared.code(i);
            const Value value = shared.value(i);
            emit(find_place(shared, i, code, value, map.digit(code, value)), code, value);
        }
        return true;
    }

    // Whether fields are likely to hold codes of this range.
    static __device__ __forceinline__ bool fits_fields(Code least, Code greatest, int size) {
        return greatest - least >= Code(kFieldsPerKey * size);
    }
};

}  // namespace gpusort
