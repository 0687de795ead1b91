// Sorts one bucket in shared memory: one counting step over its range, then a comparison of neighbours.
//
//   codes      range [least, greatest] of the bucket, found first
//   fields     16 to a key: 2-bit counters, 16 to a word, so that few codes share one      LinearMap of the range
//   scan       of the words' sums: a code's rank is its word's, plus the counts of the lower fields of the word
//   scatter    codes to their ranks; those that share a field, in any order
//   compare    thread i compares the codes at i - 2 .. i + 2 and moves its own past those that are out of order
//
// When the range has no more codes than fields, the counting step has sorted already. Where more than three codes share
// a field, or would (few distinct codes), the same words count bins of about one code each, and codes rank within their
// bin. Bins that come out imbalanced are left to `GeneralTile`.
//
// Measured (profiler, 2^28 random u32): an insertion sort of each thread's range of bins took 131 instructions and 35
// shared-memory wavefronts for 32 keys, and the step was bound by the latter.
#pragma once
#include "policy/sizes.cuh"
#include "primitives/block.cuh"
#include "keys/elements.cuh"
#include "buckets/segment_digits.cuh"

namespace gpusort {

constexpr int kFieldsPerWord = 32 / kFieldBits;
constexpr u32 kLowBits = 0x55555555u;  // of all fields of a word
constexpr u32 kFieldsPerKey = 10;      // with fewer, one field in a bucket of 4096 codes overflows

constexpr u32 kSpreadCodes = 2;  // codes a key in the range, below which several keys share each code

constexpr u32 kImbalancedBin = 12;  // codes in one bin past which a second counting step pays
constexpr int kArrivalBits = 4;     // of a code's rank in its bin, by arrival: holds kImbalancedBin
constexpr int kArrivalsPerWord = 32 / kArrivalBits;
static_assert(kImbalancedBin < 1u << kArrivalBits, "ranks in balanced bins fit");

// Digits of codes with what breaks their ties, for buckets where several keys share each code. Ties are broken by the
// code's low word (kPacked), or by the value.
template <class Code, class Value, bool kPacked>
struct SpreadMap {
    static constexpr bool kTies = true;

    LinearMap map;
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
        return map.digit((code_of(code) - least) * span + (tie_of(code, value) - least_tie));
    }
};

// The block that sorts a bucket of `size` codes, which the threads hold striped: code k of thread t is number
// k * kThreads + t.
template <class Code, class Value, int kThreads, int kItems, int kBins>
struct UniformTile {
    static constexpr int kTile = kThreads * kItems;
    static constexpr int kBinsPerThread = kBins / kThreads;
    static constexpr int kVectorBins = kBinsPerThread % 4 == 0 ? 4 : 2;
    static constexpr int kVectors = kBinsPerThread / kVectorBins;
    static constexpr int kWarps = kThreads / kWarpThreads;
    static constexpr int kFields = kBins * kFieldsPerWord;
    static constexpr int kPaddedTile = kTile + 2 * kWindow;  // neighbours are read without a guard
    using Scan = BlockScan<u32, kThreads>;
    using Codes = Code[kItems];
    using Values = Value[kItems];
    using FieldRanks = u32[kItems / kFieldsPerWord + 1];  // packed, kFieldBits each
    using BinRanks = u32[kItems / kArrivalsPerWord + 1];  // packed, kArrivalBits each
    static_assert(kBins % (2 * kThreads) == 0, "every thread owns whole vectors of bins");

    // Bins that one access moves. A thread's bins are contiguous, so accesses of single bins would have bank conflicts.
    struct alignas(sizeof(u32) * kVectorBins) BinVector {
        u32 bins[kVectorBins];
    };

    struct SharedStorage {
        Code padded_codes[kPaddedTile];
        Value padded_values[kHasValues<Value> ? kPaddedTile : 1];
        alignas(16) u32 bins[kBins + 1];    // counts, then first ranks; the last: the number of codes
        alignas(16) u16 word_ranks[kBins];  // ranks before the fields of a word
        u64 warp_greatest[kWarps];
        u64 warp_least[kWarps];
        typename Scan::SharedStorage scan;

        __device__ __forceinline__ Code& code(int i) { return padded_codes[i + kWindow]; }
        __device__ __forceinline__ Code code(int i) const { return padded_codes[i + kWindow]; }
        __device__ __forceinline__ Value& value(int i) { return padded_values[kHasValues<Value> ? i + kWindow : 0]; }
        __device__ __forceinline__ Value value(int i) const {
            return padded_values[kHasValues<Value> ? i + kWindow : 0];
        }
    };

    SharedStorage& shared;
    int size;

    __device__ __forceinline__ UniformTile(SharedStorage& shared_, int size_) : shared(shared_), size(size_) {}

    static __device__ __forceinline__ bool comes_before(Code a, Value x, Code b, Value y) {
        if constexpr (kHasValues<Value>) return a < b || (a == b && x < y);
        return a < b;
    }
    __device__ __forceinline__ bool is_filled(int k) const { return k * kThreads + int(threadIdx.x) < size; }

    // Least and greatest of the block's codes (or values). Contains one barrier.
    template <class T>
    __device__ __forceinline__ void find_range(const T (&codes)[kItems], T& least, T& greatest) {
        least = T(~T(0));
        greatest = 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (is_filled(k)) {
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

    __device__ __forceinline__ void clear_bins() {
        BinVector* vectors = reinterpret_cast<BinVector*>(shared.bins);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) vectors[v * kThreads + threadIdx.x] = BinVector{};
    }

    // Replace the counts of this thread's bins by first ranks. [begin, end) are the ranks in these bins; returns the
    // most codes in one of them.
    __device__ __forceinline__ u32 scan_bins(u32& begin, u32& end) {
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

    // Codes that the fields of a word count; only the fields in `mask`.
    static __device__ __forceinline__ u32 sum_fields(u32 word, u32 mask = ~0u) {
        return __popc(word & mask & kLowBits) + 2 * __popc(word & mask & ~kLowBits);
    }

    // Find the rank before the fields of each of this thread's words.
    __device__ __forceinline__ void scan_fields() {
        const BinVector* own = reinterpret_cast<const BinVector*>(shared.bins + threadIdx.x * kBinsPerThread);
        struct alignas(sizeof(u16) * kVectorBins) RankVector {
            u16 ranks[kVectorBins];
        };
        RankVector* word_ranks = reinterpret_cast<RankVector*>(shared.word_ranks + threadIdx.x * kBinsPerThread);
        u32 sums[kBinsPerThread], sum = 0;
#pragma unroll
        for (int w = 0; w < kBinsPerThread; ++w) {
            sums[w] = sum;
            sum += sum_fields(own[w / kVectorBins].bins[w % kVectorBins]);
        }
        const u32 begin = Scan::exclusive(sum, shared.scan);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            RankVector vector;
#pragma unroll
            for (int w = 0; w < kVectorBins; ++w) vector.ranks[w] = u16(begin + sums[v * kVectorBins + w]);
            word_ranks[v] = vector;
        }
    }

    // Count the codes into fields. Returns false, for the whole block, where a field cannot hold its codes.
    __device__ __forceinline__ bool count_fields(const Codes& codes, const LinearMap& map, FieldRanks& ranks) {
        clear_bins();
        __syncthreads();  // fields are zero before codes are counted
        u32 most = 0;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            u32 rank = 0;
            if (is_filled(k)) {
                const u32 field = map.digit(codes[k]), shift = field % kFieldsPerWord * kFieldBits;
                rank = atomicAdd(&shared.bins[field / kFieldsPerWord], 1u << shift) >> shift & kMostInField;
            }
            most = max(most, rank);
            const u32 word = k % kFieldsPerWord == 0 ? 0 : ranks[k / kFieldsPerWord];
            ranks[k / kFieldsPerWord] = word | rank << k % kFieldsPerWord * kFieldBits;
        }
        return !__syncthreads_or(most == kMostInField);  // also: all codes are counted before the fields are summed
    }

    // Write the codes to their ranks, and sentinels beyond both ends for the comparison of neighbours.
    __device__ __forceinline__ void scatter_by_fields(const Codes& codes, const Values& values, const LinearMap& map,
                                                      const FieldRanks& ranks) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (!is_filled(k)) continue;
            const u32 field = map.digit(codes[k]), w = field / kFieldsPerWord;
            const u32 lower = (1u << field % kFieldsPerWord * kFieldBits) - 1;
            const u32 arrival = ranks[k / kFieldsPerWord] >> k % kFieldsPerWord * kFieldBits & kMostInField;
            const u32 rank = shared.word_ranks[w] + sum_fields(shared.bins[w], lower) + arrival;
            shared.code(rank) = codes[k];
            if constexpr (kHasValues<Value>) shared.value(rank) = values[k];
        }
        if (threadIdx.x < kWindow) {
            shared.code(-1 - int(threadIdx.x)) = 0;
            shared.code(size + threadIdx.x) = Code(~Code(0));
            if constexpr (kHasValues<Value>) {
                shared.value(-1 - int(threadIdx.x)) = 0;
                shared.value(size + threadIdx.x) = Value(~Value(0));
            }
        }
    }

    // Sort by fields and emit every code with its rank. Returns false, with nothing emitted, where a field cannot hold
    // its codes.
    template <class Emit>
    __device__ __forceinline__ bool sort_by_fields(const Codes& codes, const Values& values, Code least, Code greatest,
                                                   Emit emit) {
        const LinearMap map = LinearMap::over(least, greatest, kFields);
        FieldRanks ranks;
        if (!count_fields(codes, map, ranks)) return false;
        scan_fields();
        __syncthreads();  // the words' ranks are there before codes are scattered
        scatter_by_fields(codes, values, map, ranks);
        __syncthreads();  // all codes are scattered before neighbours are compared
        const bool sorted = !kHasValues<Value> && map.exact;
        for (int i = threadIdx.x; i < size; i += kThreads) {
            const Code code = shared.code(i);
            const Value value = shared.value(i);
            int rank = i;
            if (!sorted) {
#pragma unroll
                for (int d = 1; d <= kWindow; ++d) {
                    rank -= comes_before(code, value, shared.code(i - d), shared.value(i - d));
                    rank += comes_before(shared.code(i + d), shared.value(i + d), code, value);
                }
            }
            emit(u32(rank), code, value);
        }
        return true;
    }

    // Count the codes into bins, pack their ranks of arrival into words, and scan the counts. Returns whether any bin of
    // the block holds more than `limit` codes.
    template <class Map>
    __device__ __forceinline__ bool count_bins(const Codes& codes, const Values& values, const Map& map, u32 limit,
                                               BinRanks& ranks) {
        clear_bins();
        __syncthreads();  // bins are zero before codes are counted
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 rank = is_filled(k) ? atomicAdd(&shared.bins[map.digit(codes[k], values[k])], 1u) : 0;
            const u32 word = k % kArrivalsPerWord == 0 ? 0 : ranks[k / kArrivalsPerWord];
            ranks[k / kArrivalsPerWord] = word | rank << k % kArrivalsPerWord * kArrivalBits;
        }
        __syncthreads();  // all codes are counted before the bins are scanned
        u32 begin, end;
        const u32 most = scan_bins(begin, end);
        return __syncthreads_or(most > limit);  // also: first ranks are there before codes are scattered
    }

    // Rank of the code at i: after the codes of its bin that come before it; equal codes keep their order.
    __device__ __forceinline__ u32 rank_in_bin(u32 i, Code code, Value value, u32 bin) const {
        const u32 begin = shared.bins[bin], end = shared.bins[bin + 1];
        u32 rank = begin;
#pragma unroll 1  // most bins hold one to three codes
        for (u32 j = begin; j < end; ++j) {
            const Code other = shared.code(j);
            if constexpr (kHasValues<Value>) rank += comes_before(other, shared.value(j), code, value);
            else rank += other < code || (other == code && j < i);
        }
        return rank;
    }

    // Sort by bins of one code each: every key claims the next rank of its bin.
    template <class Map, class Emit>
    __device__ __forceinline__ void sort_by_single_bins(const Codes& codes, const Values& values, const Map& map,
                                                        Emit emit) {
        BinRanks ranks;
        count_bins(codes, values, map, kTile, ranks);
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (is_filled(k)) shared.code(atomicAdd(&shared.bins[map.digit(codes[k], values[k])], 1u)) = codes[k];
        }
        __syncthreads();  // all codes are scattered before they are stored
        for (int i = threadIdx.x; i < size; i += kThreads) emit(u32(i), shared.code(i), Value{});
    }

    // The map from a range of codes to bins. Contains two barriers where ties are mapped.
    template <class Map>
    __device__ __forceinline__ Map make_map(const Codes& codes, const Values& values, Code least, Code greatest) {
        if constexpr (Map::kTies) {
            u32 ties[kItems], least_tie, greatest_tie;
#pragma unroll
            for (int k = 0; k < kItems; ++k) ties[k] = Map::tie_of(codes[k], values[k]);
            __syncthreads();  // the codes' range is read before that of the ties overwrites it
            find_range(ties, least_tie, greatest_tie);
            const u64 first = Map::code_of(least), span = u64(greatest_tie) - least_tie + 1;
            const LinearMap map = LinearMap::over(0, (Map::code_of(greatest) - first + 1) * span - 1, kBins);
            return {map, first, least_tie, span, map.exact};
        } else {
            return LinearMap::over(least, greatest, kBins);
        }
    }

    // Sort by bins and emit every code with its rank. Returns false, with nothing emitted, where bins are imbalanced.
    template <class Map, class Emit>
    __device__ __forceinline__ bool sort_by_bins(const Codes& codes, const Values& values, const Map& map, Emit emit) {
        if (!kHasValues<Value> && map.exact) {
            sort_by_single_bins(codes, values, map, emit);
            return true;
        }
        BinRanks ranks;
        if (count_bins(codes, values, map, kImbalancedBin, ranks)) return false;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (!is_filled(k)) continue;
            const u32 arrival =
                ranks[k / kArrivalsPerWord] >> k % kArrivalsPerWord * kArrivalBits & ((1u << kArrivalBits) - 1);
            const u32 rank = shared.bins[map.digit(codes[k], values[k])] + arrival;
            shared.code(rank) = codes[k];
            if constexpr (kHasValues<Value>) shared.value(rank) = values[k];
        }
        __syncthreads();  // every bin is complete before its codes are compared
        for (int i = threadIdx.x; i < size; i += kThreads) {
            const Code code = shared.code(i);
            const Value value = shared.value(i);
            emit(rank_in_bin(i, code, value, map.digit(code, value)), code, value);
        }
        return true;
    }

    // Whether fields are likely to hold the codes of a range.
    __device__ __forceinline__ bool fits_fields(Code least, Code greatest) const {
        return greatest - least >= Code(kFieldsPerKey * size);
    }
};

}  // namespace gpusort
