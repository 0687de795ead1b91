// Where the fine buckets of a most-significant-digit sort begin: quantiles of a sample.
//
//   keys (n) -> sample_codes -> samples (s), their range -> build_map -> QuantileMap
//
// One key from each of s equal stretches of the input, at a hashed place in it, so that neither order nor period of
// the input shows in the sample.
#include "block.cuh"
#include "digits.cuh"
#include "elements.cuh"
#include "sampling.cuh"

namespace gpusort {

struct SampleRange {
    u64 least_complement;
    u64 greatest;
};

template <class Source>
__global__ void sample_codes(const void* keys, Offset n, typename Source::Code* samples, u32 num_samples,
                             SampleRange* range) {
    using Code = typename Source::Code;
    const u32 j = blockIdx.x * blockDim.x + threadIdx.x;
    u64 least_complement = 0, greatest = 0;
    if (j < num_samples) {
        const Code code = Source::load(keys, sample_place(j, n / num_samples), 0);
        samples[j] = code;
        least_complement = ~u64(code);
        greatest = code;
    }
    least_complement = warp_max(least_complement);
    greatest = warp_max(greatest);
    if (threadIdx.x % kWarpThreads == 0) {
        raise_max(&range->least_complement, least_complement);
        raise_max(&range->greatest, greatest);
    }
}

constexpr int kMapThreads = 1024;
constexpr int kIntervalsPerThread = kIntervals / kMapThreads;
constexpr float kUniformSigmas = 6.0f;  // no interval of 2^11 strays further by chance

// Least code and interval width that cover the range; aligned to a power of two where the range is, so that
// uniform keys get exactly equal buckets.
__device__ __forceinline__ void cover_range(const SampleRange* range, u64& least, int& width_bits) {
    least = ~range->least_complement;
    const int bits = bit_length(range->greatest - least);
    const int varying = bit_length(range->greatest ^ least);
    if (bits == varying) least = varying == 64 ? 0 : least >> varying << varying;
    width_bits = bits > kIntervalBits ? bits - kIntervalBits : 0;
}

// Samples in each interval of the range, added to `counts`.
template <class Code>
__global__ void __launch_bounds__(kMapThreads)
    count_samples(const Code* samples, u32 num_samples, const SampleRange* range, u32* counts) {
    __shared__ u32 block_counts[kIntervals];
    u64 least;
    int width_bits;
    cover_range(range, least, width_bits);
    for (int i = threadIdx.x; i < kIntervals; i += kMapThreads) block_counts[i] = 0;
    __syncthreads();  // counts are zero before samples are counted
    for (u32 j = blockIdx.x * kMapThreads + threadIdx.x; j < num_samples; j += gridDim.x * kMapThreads) {
        atomicAdd(&block_counts[(u64(samples[j]) - least) >> width_bits], 1u);
    }
    __syncthreads();  // the block's samples are counted before its counts are added
    for (int i = threadIdx.x; i < kIntervals; i += kMapThreads) {
        if (block_counts[i] > 0) atomicAdd(&counts[i], block_counts[i]);
    }
}

constexpr u32 kCrowdedShare = 12;  // times the mean of all intervals: an interval of uniform floats stays below

using MapScan = LeanScan<u32, kMapThreads>;

// By all threads of one block, two intervals a thread: the head of the map. Gives how many samples are in this thread's
// intervals and before them.
__device__ __forceinline__ u32 begin_map(const u32* counts, u32 num_samples, u32 num_fine, u64 least, int width_bits,
                                         QuantileMap* map, MapScan::SharedStorage& shared,
                                         u32 (&own)[kIntervalsPerThread]) {
    u32 sum = 0;
    bool even = num_samples > kIntervals;
    const float mean = float(num_samples) / kIntervals;
    for (int k = 0; k < kIntervalsPerThread; ++k) {
        own[k] = counts[threadIdx.x * kIntervalsPerThread + k];
        const float stray = float(own[k]) - mean;
        even = even && stray * stray <= kUniformSigmas * kUniformSigmas * mean;
        sum += own[k];
    }
    const bool plain = __syncthreads_and(even);
    if (threadIdx.x == 0) {
        map->least = least;
        map->width_bits = width_bits;
        map->num_fine = num_fine;
        map->plain = plain;
        map->sub_bits = 0;
        map->num_words = kIntervals;
        map->uneven = 0;
    }
    return MapScan::exclusive(sum, shared);
}

// The intervals of this thread, from what begin_map gave.
__device__ __forceinline__ void share_buckets(QuantileMap* map, u32 num_samples, u32 num_fine, u32 before,
                                              const u32 (&own)[kIntervalsPerThread]) {
    for (int k = 0; k < kIntervalsPerThread; ++k) {
        map->intervals[threadIdx.x * kIntervalsPerThread + k] = pack_interval(before, own[k], num_samples, num_fine);
        before += own[k];
    }
}

// One block: the map of samples counted by count_samples, but for what crowded intervals are cut into: their words name
// the first of their own intervals, and `befores` the samples before those.
__global__ void __launch_bounds__(kMapThreads) build_map(const u32* counts, u32 num_samples, u32 num_fine,
                                                         const SampleRange* range, QuantileMap* map, u32* befores) {
    __shared__ MapScan::SharedStorage shared;
    u64 least;
    int width_bits;
    cover_range(range, least, width_bits);
    u32 own[kIntervalsPerThread];
    u32 before = begin_map(counts, num_samples, num_fine, least, width_bits, map, shared, own);
    share_buckets(map, num_samples, num_fine, before, own);
    u32 crowded = 0;
    for (u32 count : own) crowded += count > kCrowdedShare * (num_samples / kIntervals);
    __syncthreads();  // the scan's storage is free before it is used again
    const u32 rank = MapScan::exclusive(crowded, shared);
    const u32 num_crowded = shared.before[MapScan::kWarps];
    if (num_crowded == 0) return;  // the whole block leaves
    // No further than single codes.
    const int sub_bits = min(width_bits, bit_length(kSubIntervals / num_crowded) - 1);
    if (threadIdx.x == 0) {
        map->sub_bits = sub_bits;
        map->num_words = kIntervals + (num_crowded << sub_bits);
    }
    for (u32 k = 0, r = rank; k < kIntervalsPerThread; before += own[k], ++k) {
        if (own[k] <= kCrowdedShare * (num_samples / kIntervals) || sub_bits == 0) continue;
        map->intervals[threadIdx.x * kIntervalsPerThread + k] = (kIntervals + (r << sub_bits)) | kSubdivided
                                                                                                     << kHalfBits;
        befores[r++] = before;
    }
}

// Samples in the intervals of subdivided ones, added to `counts`.
template <class Code>
__global__ void __launch_bounds__(kMapThreads)
    count_subdivided(const Code* samples, u32 num_samples, const QuantileMap* map, u32* counts) {
    const int sub_bits = map->sub_bits, width_bits = map->width_bits;
    if (sub_bits == 0) return;
    for (u32 j = blockIdx.x * kMapThreads + threadIdx.x; j < num_samples; j += gridDim.x * kMapThreads) {
        const u64 distance = u64(samples[j]) - map->least;
        const u32 interval = map->intervals[distance >> width_bits];
        if (interval >> kHalfBits != kSubdivided) continue;
        const u32 sub = u32(distance >> (width_bits - sub_bits)) & ((1u << sub_bits) - 1);
        atomicAdd(&counts[(interval & kHalfMask) - kIntervals + sub], 1u);
    }
}

// One block: the intervals of subdivided ones, two a thread.
__global__ void __launch_bounds__(kMapThreads)
    share_subdivided(const u32* counts, const u32* befores, u32 num_samples, u32 num_fine, QuantileMap* map) {
    __shared__ MapScan::SharedStorage shared;
    __shared__ u32 firsts[kSubIntervals];  // samples in all subdivided intervals before each
    const int sub_bits = map->sub_bits;
    if (sub_bits == 0) return;  // the whole block leaves
    constexpr u32 kPerThread = kSubIntervals / kMapThreads;
    const u32 begin = threadIdx.x * kPerThread;
    u32 sum = 0;
    for (u32 k = 0; k < kPerThread; ++k) sum += counts[begin + k];
    u32 before = MapScan::exclusive(sum, shared);
    for (u32 k = 0; k < kPerThread; before += counts[begin + k], ++k) firsts[begin + k] = before;
    __syncthreads();  // all sums are there before parents' are read
    const u32 num_words = map->num_words - kIntervals;
    for (u32 k = 0; k < kPerThread; ++k) {
        const u32 j = begin + k, parent = j >> sub_bits;
        if (j >= num_words) continue;
        const u32 inside = firsts[j] - firsts[parent << sub_bits];
        map->intervals[kIntervals + j] = pack_interval(befores[parent] + inside, counts[j], num_samples, num_fine);
    }
}

// Whether buckets of a map come out uneven: `uneven` where those with `full` samples or more hold more than `most`
// samples and are `least` at least. Few codes that hold everything make few such buckets, which need no further level;
// keys that crowd at every scale make many, and so do rows that are unlike. A bucket is 2^fine_bits fine ones of one row
// of `length` elements. `table` (buckets of all rows) and `arrived` are zero.
template <class Code>
__global__ void __launch_bounds__(kMapThreads)
    judge_map(const Code* samples, u32 num_samples, QuantileMap* map, Offset n, Offset length, u32 fine_bits,
              u32 num_buckets, u32* table, u32* arrived, u32 full, u32 most, u32 least) {
    using Scan = LeanScan<Offset, kMapThreads>;
    constexpr int kBucketBits = 20;  // number of buckets in the low bits, samples above
    __shared__ __align__(16) u32 intervals[kMapWords];
    __shared__ typename Scan::SharedStorage shared;
    __shared__ bool is_last;
    if (map->plain && length == n) return;  // the whole grid leaves
    const FineMap<Code> fine(map, intervals);
    __syncthreads();  // the intervals are there before they are looked at
    const u32 row_buckets = fine.num_fine >> fine_bits;
    for (u32 j = blockIdx.x * kMapThreads + threadIdx.x; j < num_samples; j += gridDim.x * kMapThreads) {
        const u32 row = length == n ? 0 : u32(sample_place(j, n / num_samples) / length);
        const u32 f = fine.plain ? fine.fine_plain(samples[j]) : fine.fine_by_share(samples[j]);
        atomicAdd(&table[row * row_buckets + (f >> fine_bits)], 1u);
    }
    __threadfence();
    __syncthreads();  // the block's samples are counted before it counts as arrived
    if (threadIdx.x == 0) is_last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    __syncthreads();  // all threads know whether theirs is the last block
    if (!is_last) return;
    __threadfence();
    Offset sum = 0;
#pragma unroll 8
    for (u32 f = threadIdx.x; f < num_buckets; f += kMapThreads) {
        const u32 count = __ldcg(&table[f]);
        if (count >= full) sum += (Offset(count) << kBucketBits) + 1;
    }
    Scan::exclusive(sum, shared);
    if (threadIdx.x > 0) return;
    const Offset all = shared.before[Scan::kWarps];
    map->uneven = (all >> kBucketBits) > most && (all & ((1u << kBucketBits) - 1)) >= least;
}

constexpr int kSmallSamples = 16;  // a thread

// All of the above in one block, for inputs so small that launches would take longer than the work. Clears the words
// that the next kernels count in, as well.
template <class Source>
__global__ void __launch_bounds__(kMapThreads)
    map_small(const void* keys, Offset n, u32 num_fine, QuantileMap* map, u64* cleared, u32 num_cleared) {
    using Code = typename Source::Code;
    __shared__ struct {
        SampleRange range;
        u32 counts[kIntervals];
        MapScan::SharedStorage scan;
    } shared;
    const u32 num_samples = u32(min(Offset(kMapThreads * kSmallSamples), n / 2));
    const Offset stretch = n / num_samples;
    Code codes[kSmallSamples];
    u64 least_complement = 0, greatest = 0;
    for (u32 i = threadIdx.x; i < num_cleared; i += kMapThreads) cleared[i] = 0;
    for (int i = threadIdx.x; i < kIntervals; i += kMapThreads) shared.counts[i] = 0;
    if (threadIdx.x == 0) shared.range.least_complement = shared.range.greatest = 0;
#pragma unroll
    for (int k = 0; k < kSmallSamples; ++k) {
        const u32 j = k * kMapThreads + threadIdx.x;
        if (j >= num_samples) break;
        codes[k] = Source::load(keys, sample_place(j, stretch), 0);
        least_complement = ~u64(codes[k]) > least_complement ? ~u64(codes[k]) : least_complement;
        greatest = u64(codes[k]) > greatest ? u64(codes[k]) : greatest;
    }
    least_complement = warp_max(least_complement);
    greatest = warp_max(greatest);
    __syncthreads();  // range and counts are clear before warps add to them
    if (threadIdx.x % kWarpThreads == 0) {
        atomicMax(&shared.range.least_complement, least_complement);
        atomicMax(&shared.range.greatest, greatest);
    }
    __syncthreads();  // every warp's range is in before intervals are found
    u64 least;
    int width_bits;
    cover_range(&shared.range, least, width_bits);
#pragma unroll
    for (int k = 0; k < kSmallSamples; ++k) {
        if (k * kMapThreads + threadIdx.x >= num_samples) break;
        atomicAdd(&shared.counts[(u64(codes[k]) - least) >> width_bits], 1u);
    }
    __syncthreads();  // all samples are counted before they are shared out
    u32 own[kIntervalsPerThread];
    const u32 before = begin_map(shared.counts, num_samples, num_fine, least, width_bits, map, shared.scan, own);
    share_buckets(map, num_samples, num_fine, before, own);
}

}  // namespace gpusort
