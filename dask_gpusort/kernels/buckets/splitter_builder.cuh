// Builds a splitter map, by one block, from the numbers of samples in equal intervals of their range.
#pragma once
#include "primitives/block.cuh"
#include "buckets/splitter_map.cuh"

namespace gpusort {

struct SampleRange {
    u64 least_complement;  // both are maxima from zero
    u64 greatest;
    u64 falls, rises;  // whether some sample is less, or greater, than the one before it
};
constexpr int kSampleRangeBytes = 32;
static_assert(sizeof(SampleRange) == kSampleRangeBytes, "splitters.py allocates ranges of this size");

constexpr int kMapThreads = 1024;
constexpr int kIntervalsPerThread = kIntervals / kMapThreads;
constexpr float kUniformSigmas = 6.0f;  // no interval of 2^11 deviates further by chance
constexpr u32 kSkewedShare = 12;        // times the mean of all intervals: an interval of uniform floats stays below
constexpr u32 kSkewedValueShare = 24;   // the same of values, whose intervals are not subdivided
static_assert(kSkewedValueShare * ((1u << kHalfBits) / kIntervals) << kValueFraction < kSubdivided >> kValueFraction,
              "the buckets of an interval fit its field");

// Intervals of equal width that cover the coordinates of all samples; aligned to a power of two where the range is, so
// that uniform keys get exactly equal buckets.
struct EqualIntervals {
    u64 least;
    u64 range;  // greatest coordinate covered, less `least`
    int width_bits;

    __device__ __forceinline__ explicit EqualIntervals(const SampleRange* samples)
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
    // Over all coordinates of values.
    __device__ __forceinline__ EqualIntervals() : least(0), range(~0u), width_bits(32 - kIntervalBits) {}
    __device__ __forceinline__ u32 interval(u64 coordinate) const { return u32((coordinate - least) >> width_bits); }
    // Samples expected in interval k if they are uniform; the last interval may be covered only in part.
    __device__ __forceinline__ float expected(u32 k, u32 num_samples) const {
        const u64 first = u64(k) << width_bits;
        if (first > range) return 0.0f;
        const u64 last = min(first + ((1ull << width_bits) - 1), range);
        return float(num_samples) * (float(last - first) + 1.0f) / (float(range) + 1.0f);
    }
};

using MapScan = BlockScan<u32, kMapThreads>;

// What the counts say about the distribution of the samples.
struct SampleShape {
    bool is_uniform;
    bool is_skewed;  // an interval holds a large share
};

constexpr u32 kSampleUnits = 64;      // a sample counts as so many units: means are no whole numbers
constexpr int kLeastReach = 8;        // of a neighbourhood: intervals on either side
constexpr int kMostReach = 64;        // the same
constexpr u32 kEnoughSamples = 2048;  // their noise is 2 %
constexpr u32 kTailSamples = 4;       // samples assumed beyond each end; almost always an overestimate
constexpr u64 kNarrowCodes = 1ull << 32;

// Samples in interval k, in units: the mean of its neighbourhood where the counts there differ by no more than chance,
// and otherwise the interval's own count. By chance the squared deviations over the mean sum to width - 1, and to twice
// that in one neighbourhood of a hundred. Neighbourhoods are symmetric, so that a slope keeps its mean, and grow while
// they hold few samples.
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

// The block that writes a map. Every thread owns kIntervalsPerThread consecutive intervals; `own` are their counts.
struct MapBuilder {
    using Counts = u32[kIntervalsPerThread];

    SplitterMap* map;
    u32 num_samples, num_fine;
    MapScan::SharedStorage& shared;

    __device__ __forceinline__ u32 first_interval() const { return threadIdx.x * kIntervalsPerThread; }
    __device__ __forceinline__ bool is_skewed(u32 count, u32 share) const {
        return count > share * (num_samples / kIntervals);
    }

    // Load this thread's counts and compare those of all threads with a uniform sample.
    __device__ __forceinline__ SampleShape inspect(const u32* counts, const EqualIntervals& intervals, u32 skewed_share,
                                                   Counts& own) const {
        bool even = num_samples > kIntervals, skewed = false;
        for (int i = 0; i < kIntervalsPerThread; ++i) {
            const u32 k = first_interval() + i;
            own[i] = counts[k];
            const float expected = intervals.expected(k, num_samples), deviation = float(own[i]) - expected;
            even = even && deviation * deviation <= kUniformSigmas * kUniformSigmas * (expected + 1.0f);
            skewed = skewed || is_skewed(own[i], skewed_share);
        }
        return {bool(__syncthreads_and(even)), bool(__syncthreads_or(skewed))};
    }

    // Write the head of the map. Returns the number of samples in the intervals before this thread's.
    __device__ __forceinline__ u32 begin(const EqualIntervals& intervals, bool is_uniform, const Counts& own) const {
        if (threadIdx.x == 0) {
            map->least = intervals.least;
            map->range = intervals.range;
            map->width_bits = intervals.width_bits;
            map->num_fine = num_fine;
            // Rounded down, so that the last coordinate is in the last bucket.
            const int range_bits = intervals.width_bits + kIntervalBits;
            const u64 positions =
                (range_bits > 32 ? intervals.range >> (range_bits - 32) : intervals.range << (32 - range_bits)) + 1;
            map->step = u32(min((u64(num_fine) << 32) / positions, u64(~0u)));
            map->flags.is_uniform = is_uniform;
            map->flags.by_value = map->flags.is_imbalanced = map->flags.is_narrow = map->is_too_wide = 0;
            map->base = 0;
            map->sub_bits = 0;
            map->num_words = kIntervals;
        }
        u32 sum = 0;
        for (u32 count : own) sum += count;
        return MapScan::exclusive(sum, shared);
    }

    // Where codes within 2^32 of each other may count from: most have as much space above them as below.
    __device__ __forceinline__ void find_base(const SampleRange* samples) const {
        const u64 least = ~samples->least_complement, range = samples->greatest - least;
        map->flags.is_narrow = range < kNarrowCodes;
        const u64 margin = (kNarrowCodes - 1 - range) / 2;
        map->base = least > margin ? least - margin : 0;
    }

    // Cut this thread's intervals into buckets in proportion to their counts, of `total` in all.
    __device__ __forceinline__ void cut(u32 total, u32 before, const Counts& own, int fraction = 0) const {
        for (int k = 0; k < kIntervalsPerThread; ++k) {
            map->intervals[first_interval() + k] = pack_interval(before, own[k], total, num_fine, fraction);
            before += own[k];
        }
    }

    // The same by smoothed counts: the noise of a sample is larger than that of the buckets it makes. The intervals at
    // the ends hold the keys beyond them, too.
    __device__ __forceinline__ void cut_smoothed(const u32* counts, int fraction) const {
        u32 own[kIntervalsPerThread], sum = 0;
        for (int i = 0; i < kIntervalsPerThread; ++i) {
            const int k = threadIdx.x * kIntervalsPerThread + i;
            own[i] = smoothed_count(counts, k);
            if (k == 0 || k == kIntervals - 1) own[i] += kTailSamples * kSampleUnits;
            sum += own[i];
        }
        __syncthreads();  // the scan's storage is free before it is used again
        const u32 before = MapScan::exclusive(sum, shared);
        cut(shared.before[MapScan::kWarps], before, own, fraction);
    }

    // Reserve subintervals for the skewed intervals: the word of such an interval names the first of them, and `befores`
    // gets the number of samples before it.
    __device__ __forceinline__ void subdivide(int width_bits, u32 before, const Counts& own, u32* befores) const {
        u32 skewed = 0;
        for (u32 count : own) skewed += is_skewed(count, kSkewedShare);
        __syncthreads();  // the scan's storage is free before it is used again
        const u32 rank = MapScan::exclusive(skewed, shared);
        const u32 num_skewed = shared.before[MapScan::kWarps];
        // A subinterval is a single code at the least.
        const int sub_bits = min(width_bits, bit_length(kSubIntervals / num_skewed) - 1);
        if (threadIdx.x == 0) {
            map->sub_bits = sub_bits;
            map->num_words = kIntervals + (num_skewed << sub_bits);
        }
        for (u32 k = 0, r = rank; k < kIntervalsPerThread; before += own[k], ++k) {
            if (!is_skewed(own[k], kSkewedShare) || sub_bits == 0) continue;
            map->intervals[first_interval() + k] = (kIntervals + (r << sub_bits)) | kSubdivided << kHalfBits;
            befores[r++] = before;
        }
    }
};

}  // namespace gpusort
