// Where the fine buckets of a most-significant-digit sort begin: splitters of a sample.
//
//   keys (n) -> sample_codes -> samples (s), their range -> count_samples -> build_map -> SplitterMap
//
// One key from each of s equal stretches of the input, at a hashed place in it, so that neither order nor period of
// the input shows in the sample. Floats are counted by their codes and by their values: what is even is taken.
#include "primitives/block.cuh"
#include "buckets/digits.cuh"
#include "keys/elements.cuh"
#include "primitives/stratified_sampling.cuh"

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

// Least place and interval width that cover the samples' codes; aligned to a power of two where they are, so that
// uniform keys get exactly equal buckets.
struct Cover {
    u64 least;
    u64 range;  // distance of the last place that is covered
    int width_bits;

    __device__ __forceinline__ explicit Cover(const SampleRange* samples)
        : least(~samples->least_complement), range(samples->greatest - least) {
        const u64 greatest = samples->greatest;
        const int bits = bit_length(range);
        const int varying = bit_length(greatest ^ least);
        if (bits == varying) {
            least = varying == 64 ? 0 : least >> varying << varying;
            range = varying == 64 ? ~0ull : (1ull << varying) - 1;
        }
        width_bits = bits > kIntervalBits ? bits - kIntervalBits : 0;
    }
    // That of all places of values.
    __device__ __forceinline__ Cover() : least(0), range(~0u), width_bits(32 - kIntervalBits) {}
    __device__ __forceinline__ u32 interval(u64 place) const { return u32((place - least) >> width_bits); }
    // Samples that each interval has of a uniform sample; of one that only begins in the range, its share.
    __device__ __forceinline__ float expected(u32 k, u32 num_samples) const {
        const u64 first = u64(k) << width_bits;
        if (first > range) return 0.0f;
        const u64 last = min(first + ((1ull << width_bits) - 1), range);
        return float(num_samples) * (float(last - first) + 1.0f) / (float(range) + 1.0f);
    }
};

template <class Domain>
__device__ __forceinline__ bool fit_transform(const SampleRange* range, LinearTransform& line) {
    using Code = typename Domain::Code;
    return Domain::draw(Code(~range->least_complement), Code(range->greatest), line);
}

// Samples in each interval, added to `counts`: by their codes, and after those by their values.
template <class Domain>
__global__ void __launch_bounds__(kMapThreads)
    count_samples(const typename Domain::Code* samples, u32 num_samples, const SampleRange* range, u32* counts) {
    using Code = typename Domain::Code;
    constexpr int kCounted = kIntervals * (Domain::kHasValues ? 2 : 1);
    __shared__ u32 block_counts[kCounted];
    const Cover cover(range);
    LinearTransform line{};
    bool has_line = false;
    if constexpr (Domain::kHasValues) has_line = fit_transform<Domain>(range, line);
    const Domain domain(line);
    for (int i = threadIdx.x; i < kCounted; i += kMapThreads) block_counts[i] = 0;
    __syncthreads();  // counts are zero before samples are counted
    for (u32 j = blockIdx.x * kMapThreads + threadIdx.x; j < num_samples; j += gridDim.x * kMapThreads) {
        const Code code = samples[j];
        atomicAdd(&block_counts[cover.interval(code)], 1u);
        if (has_line) atomicAdd(&block_counts[kIntervals + Cover().interval(domain.place(code))], 1u);
    }
    __syncthreads();  // the block's samples are counted before its counts are added
    for (int i = threadIdx.x; i < kCounted; i += kMapThreads) {
        if (block_counts[i] > 0) atomicAdd(&counts[i], block_counts[i]);
    }
}

constexpr u32 kCrowdedShare = 12;  // times the mean of all intervals: an interval of uniform floats stays below
constexpr u32 kValueShare = 24;    // the same of values, whose intervals are cut no further
static_assert(kValueShare * ((1u << kHalfBits) / kIntervals) << kValueFraction < kSubdivided >> kValueFraction,
              "their buckets fit");

using MapScan = LeanScan<u32, kMapThreads>;

// What samples say of a domain.
struct Evenness {
    bool plain;   // they are uniform over the range
    bool skewed;  // an interval holds a large share
};

// By all threads of one block, two intervals a thread, which are read into `own`.
__device__ __forceinline__ Evenness look_at(const u32* counts, u32 num_samples, const Cover& cover, u32 crowded_share,
                                            u32 (&own)[kIntervalsPerThread]) {
    bool even = num_samples > kIntervals, skewed = false;
    for (int i = 0; i < kIntervalsPerThread; ++i) {
        const u32 k = threadIdx.x * kIntervalsPerThread + i;
        own[i] = counts[k];
        const float expected = cover.expected(k, num_samples), stray = float(own[i]) - expected;
        even = even && stray * stray <= kUniformSigmas * kUniformSigmas * (expected + 1.0f);
        skewed = skewed || own[i] > crowded_share * (num_samples / kIntervals);
    }
    return {bool(__syncthreads_and(even)), bool(__syncthreads_or(skewed))};
}

// The head of the map, by one block. Gives how many samples are in the intervals before this thread's own.
__device__ __forceinline__ u32 begin_map(const Cover& cover, bool plain, u32 num_fine,
                                         const u32 (&own)[kIntervalsPerThread], SplitterMap* map,
                                         MapScan::SharedStorage& shared) {
    if (threadIdx.x == 0) {
        map->least = cover.least;
        map->range = cover.range;
        map->width_bits = cover.width_bits;
        map->num_fine = num_fine;
        // Rounded down, so that the last place is in the last bucket.
        const int range_bits = cover.width_bits + kIntervalBits;
        const u64 positions =
            (range_bits > 32 ? cover.range >> (range_bits - 32) : cover.range << (32 - range_bits)) + 1;
        map->step = u32(min((u64(num_fine) << 32) / positions, u64(~0u)));
        map->plain = plain;
        map->by_value = map->uneven = map->narrow = map->strayed = 0;
        map->base = 0;
        map->sub_bits = 0;
        map->num_words = kIntervals;
    }
    u32 sum = 0;
    for (u32 count : own) sum += count;
    return MapScan::exclusive(sum, shared);
}

constexpr u64 kNarrowCodes = 1ull << 32;

// Where codes of samples that lie close may count from: most have as much room above them as below.
__device__ __forceinline__ void find_base(const SampleRange* samples, SplitterMap* map) {
    const u64 least = ~samples->least_complement, range = samples->greatest - least;
    map->narrow = range < kNarrowCodes;
    const u64 room = (kNarrowCodes - 1 - range) / 2;
    map->base = least > room ? least - room : 0;
}

// The intervals of this thread, of `own` samples each after `before` others.
__device__ __forceinline__ void share_buckets(SplitterMap* map, u32 num_samples, u32 num_fine, u32 before,
                                              const u32 (&own)[kIntervalsPerThread], int fraction = 0) {
    for (int k = 0; k < kIntervalsPerThread; ++k) {
        map->intervals[threadIdx.x * kIntervalsPerThread + k] =
            pack_interval(before, own[k], num_samples, num_fine, fraction);
        before += own[k];
    }
}

constexpr u32 kSampleUnits = 64;  // a sample's: means are no whole numbers
constexpr int kLeastReach = 8;    // of a neighbourhood, intervals on either side
constexpr int kMostReach = 64;
constexpr u32 kEnoughSamples = 2048;  // whose noise is 2 %
constexpr u32 kTailSamples = 4;       // as many more are thought to lie beyond an end, or nearly all of the time fewer

// Samples of an interval: the mean of its neighbourhood, where the counts there differ no more than chance makes them,
// and otherwise its own. (The squares of their deviations, over the mean, have the sum width - 1 by chance, and in one
// neighbourhood of a hundred twice that.) As many neighbours on either side, so that a slope stays one, and more of
// them where samples are few.
__device__ __forceinline__ u32 smoothed_count(const u32* counts, int k) {
    u32 found = counts[k] * kSampleUnits, sum = counts[k];
    u64 squares = u64(sum) * sum;
    int done = 0;
    for (int most = kLeastReach; most <= kMostReach && sum < kEnoughSamples; most *= 2) {
        const int reach = min(most, min(k, kIntervals - 1 - k)), width = 2 * reach + 1;
        for (; done < reach; ++done) {
            const u32 below = counts[k - done - 1], above = counts[k + done + 1];
            sum += below + above;
            squares += u64(below) * below + u64(above) * above;
        }
        if (width * squares - u64(sum) * sum > u64(2 * width - 1) * sum) break;
        found = u32(u64(sum) * kSampleUnits / u32(width));
    }
    return found;
}

// As share_buckets, of smoothed counts: a sample's noise is larger than that of the buckets it makes. The intervals at
// the ends hold what lies beyond them, too.
__device__ __forceinline__ void share_smoothed(SplitterMap* map, const u32* counts, u32 num_fine, int fraction,
                                               MapScan::SharedStorage& shared) {
    u32 own[kIntervalsPerThread], sum = 0;
    for (int i = 0; i < kIntervalsPerThread; ++i) {
        const int k = threadIdx.x * kIntervalsPerThread + i;
        own[i] = smoothed_count(counts, k);
        if (k == 0 || k == kIntervals - 1) own[i] += kTailSamples * kSampleUnits;
        sum += own[i];
    }
    __syncthreads();  // the scan's storage is free before it is used again
    const u32 before = MapScan::exclusive(sum, shared);
    share_buckets(map, shared.before[MapScan::kWarps], num_fine, before, own, fraction);
}

// One block: the map of samples counted by count_samples, but for what skewed intervals are cut into: their words name
// the first of their own intervals, and `befores` the samples before those. Values are taken where they crowd
// nowhere: they have no intervals of intervals.
template <class Domain>
__global__ void __launch_bounds__(kMapThreads) build_map(const u32* counts, u32 num_samples, u32 num_fine,
                                                         const SampleRange* range, SplitterMap* map, u32* befores) {
    __shared__ MapScan::SharedStorage shared;
    Cover cover(range);
    u32 own[kIntervalsPerThread];
    Evenness evenness = look_at(counts, num_samples, cover, kCrowdedShare, own);
    const u32* table = counts;
    bool by_value = false;
    LinearTransform line{};
    if constexpr (Domain::kHasValues) {
        u32 own_values[kIntervalsPerThread];
        const Evenness values = look_at(counts + kIntervals, num_samples, Cover(), kValueShare, own_values);
        by_value = fit_transform<Domain>(range, line) && !evenness.plain && (values.plain || !values.skewed);
        if (by_value) {
            cover = Cover();
            table = counts + kIntervals;
            evenness = values;
            for (int k = 0; k < kIntervalsPerThread; ++k) own[k] = own_values[k];
        }
    }
    u32 before = begin_map(cover, evenness.plain, num_fine, own, map, shared);
    if (by_value && threadIdx.x == 0) {
        map->by_value = 1;
        map->line = line;
    }
    if (!by_value && threadIdx.x == 0) find_base(range, map);
    if (evenness.plain) return;  // the whole block leaves
    if (by_value || !evenness.skewed) {
        share_smoothed(map, table, num_fine, by_value ? kValueFraction : 0, shared);
        return;  // the whole block leaves
    }
    share_buckets(map, num_samples, num_fine, before, own);
    u32 skewed = 0;
    for (u32 count : own) skewed += count > kCrowdedShare * (num_samples / kIntervals);
    __syncthreads();  // the scan's storage is free before it is used again
    const u32 rank = MapScan::exclusive(skewed, shared);
    const u32 num_crowded = shared.before[MapScan::kWarps];
    // No further than single codes.
    const int sub_bits = min(cover.width_bits, bit_length(kSubIntervals / num_crowded) - 1);
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
    count_subdivided(const Code* samples, u32 num_samples, const SplitterMap* map, u32* counts) {
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
    share_subdivided(const u32* counts, const u32* befores, u32 num_samples, u32 num_fine, SplitterMap* map) {
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
// samples and are `least` at least; or where they hold more than `nearly_all`, are `few` at least, and buckets with
// samples are `spread` times as many. Few codes that hold everything make few such buckets and no others, and need no
// further level; keys that crowd at every domain make many, and so do rows that are unlike. A bucket is 2^fine_bits fine
// ones of one row of `length` elements. `table` (buckets of all rows) and `arrived` are zero.
template <class Domain>
__global__ void __launch_bounds__(kMapThreads)
    check_balance(const typename Domain::Code* samples, u32 num_samples, SplitterMap* map, Offset n, Offset length,
                  u32 fine_bits, u32 num_buckets, u32* table, u32* arrived, u32 full, u32 most, u32 least,
                  u32 nearly_all, u32 few, u32 spread) {
    using Scan = LeanScan<Offset, kMapThreads>;
    constexpr int kBucketBits = 20;  // overfull buckets in the low bits, buckets with samples above, and their samples
    constexpr Offset kBucketMask = (Offset(1) << kBucketBits) - 1;
    __shared__ __align__(16) u32 intervals[kMapWords];
    __shared__ typename Scan::SharedStorage shared;
    __shared__ bool is_last;
    if (map->plain && length == n) return;  // the whole grid leaves
    const SampledMap<Domain> sampled(map, intervals);
    __syncthreads();  // the intervals are there before they are looked at
    const u32 row_buckets = map->num_fine >> fine_bits;
    for (u32 j = blockIdx.x * kMapThreads + threadIdx.x; j < num_samples; j += gridDim.x * kMapThreads) {
        const u32 row = length == n ? 0 : u32(sample_place(j, n / num_samples) / length);
        atomicAdd(&table[row * row_buckets + (sampled.fine(samples[j]) >> fine_bits)], 1u);
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
        if (count > 0) sum += Offset(1) << kBucketBits;
        if (count >= full) sum += (Offset(count) << 2 * kBucketBits) + 1;
    }
    Scan::exclusive(sum, shared);
    if (threadIdx.x > 0) return;
    const Offset all = shared.before[Scan::kWarps];
    const Offset overfull = all & kBucketMask, filled = all >> kBucketBits & kBucketMask;
    const Offset held = all >> 2 * kBucketBits;
    map->uneven =
        (held > most && overfull >= least) || (held > nearly_all && overfull >= few && filled >= spread * overfull);
}

constexpr int kSmallSamples = 16;  // a thread

// All of the above in one block, for inputs so small that launches would take longer than the work. Clears the words
// that the next kernels count in, as well.
template <class Source>
__global__ void __launch_bounds__(kMapThreads)
    map_small(const void* keys, Offset n, u32 num_fine, SplitterMap* map, u64* cleared, u32 num_cleared) {
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
    const Cover cover(&shared.range);
#pragma unroll
    for (int k = 0; k < kSmallSamples; ++k) {
        if (k * kMapThreads + threadIdx.x >= num_samples) break;
        atomicAdd(&shared.counts[cover.interval(codes[k])], 1u);
    }
    __syncthreads();  // all samples are counted before they are shared out
    u32 own[kIntervalsPerThread];
    const bool plain = look_at(shared.counts, num_samples, cover, kCrowdedShare, own).plain;
    begin_map(cover, plain, num_fine, own, map, shared.scan);
    if (!plain) share_smoothed(map, shared.counts, num_fine, 0, shared.scan);
}

}  // namespace gpusort
