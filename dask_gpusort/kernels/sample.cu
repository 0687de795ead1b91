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
        const Offset stretch = n / num_samples;
        const Code code = Source::load(keys, j * stretch + mix(j) % stretch, 0);
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
__global__ void __launch_bounds__(kMapThreads) count_samples(const Code* samples, u32 num_samples,
                                                             const SampleRange* range, u32* counts) {
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

// By all threads of one block: shares of the fine buckets from the samples counted in each interval (two a thread).
__device__ __forceinline__ void share_buckets(const u32* counts, u32 num_samples, u32 num_fine, u64 least, int width_bits,
                                              QuantileMap* map, LeanScan<u32, kMapThreads>::SharedStorage& shared) {
    u32 own[kIntervalsPerThread], sum = 0;
    bool even = num_samples > kIntervals;
    const float mean = float(num_samples) / kIntervals;
    for (int k = 0; k < kIntervalsPerThread; ++k) {
        own[k] = counts[threadIdx.x * kIntervalsPerThread + k];
        const float stray = float(own[k]) - mean;
        even = even && stray * stray <= kUniformSigmas * kUniformSigmas * mean;
        sum += own[k];
    }
    const bool plain = __syncthreads_and(even);
    u32 before = LeanScan<u32, kMapThreads>::exclusive(sum, shared);
    for (int k = 0; k < kIntervalsPerThread; ++k) {
        const u32 first = u64(before) * num_fine / num_samples, next = u64(before + own[k]) * num_fine / num_samples;
        const u32 width = next - first < kHalfMask ? next - first : kHalfMask;
        map->intervals[threadIdx.x * kIntervalsPerThread + k] = (first < num_fine ? first : num_fine - 1) | width << kHalfBits;
        before += own[k];
    }
    if (threadIdx.x == 0) {
        map->least = least;
        map->width_bits = width_bits;
        map->num_fine = num_fine;
        map->plain = plain;
    }
}

// One block: the map of samples counted by count_samples.
__global__ void __launch_bounds__(kMapThreads) build_map(const u32* counts, u32 num_samples, u32 num_fine,
                                                         const SampleRange* range, QuantileMap* map) {
    __shared__ LeanScan<u32, kMapThreads>::SharedStorage shared;
    u64 least;
    int width_bits;
    cover_range(range, least, width_bits);
    share_buckets(counts, num_samples, num_fine, least, width_bits, map, shared);
}

constexpr int kSmallSamples = 16;  // a thread

// All of the above in one block, for inputs so small that launches would take longer than the work. Clears the words
// that the next kernels count in, as well.
template <class Source>
__global__ void __launch_bounds__(kMapThreads) map_small(const void* keys, Offset n, u32 num_fine, QuantileMap* map,
                                                         u64* cleared, u32 num_cleared) {
    using Code = typename Source::Code;
    __shared__ struct {
        SampleRange range;
        u32 counts[kIntervals];
        LeanScan<u32, kMapThreads>::SharedStorage scan;
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
        codes[k] = Source::load(keys, j * stretch + mix(j) % stretch, 0);
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
    share_buckets(shared.counts, num_samples, num_fine, least, width_bits, map, shared.scan);
}

}  // namespace gpusort
