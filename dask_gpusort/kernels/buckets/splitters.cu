// Sampled splitters: where the fine buckets of a most-significant-digit sort begin.
//
//   keys (n) -> sample_codes -> samples (s), their range -> count_samples -> build_map -> SplitterMap
//                             skewed intervals: count_subdivided -> cut_subdivided
//                             would buckets be overfull: check_balance -> flag of the map
//
// After Leischner, Osipov and Sanders (IPDPS 2010), who also draw splitters from a sample. Here the sample is stratified:
// one key at a hashed position in each of s equal strata of the input, so that neither order nor period of the input
// biases it. Floats are counted by code and by value, and the domain with the more even counts is taken.
#include "primitives/block.cuh"
#include "primitives/basics.cuh"
#include "keys/elements.cuh"
#include "buckets/splitter_builder.cuh"

namespace gpusort {

template <class Source>
__global__ void sample_codes(const void* keys, Offset n, typename Source::Code* samples, u32 num_samples,
                             SampleRange* range) {
    using Code = typename Source::Code;
    const u32 j = blockIdx.x * blockDim.x + threadIdx.x;
    u64 least_complement = 0, greatest = 0;
    if (j < num_samples) {
        const Code code = Source::load(keys, sample_position(j, n / num_samples), 0);
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

template <class Domain>
__device__ __forceinline__ bool fit_transform(const SampleRange* range, LinearTransform& transform) {
    using Code = typename Domain::Code;
    return Domain::fit(Code(~range->least_complement), Code(range->greatest), transform);
}

// Add the samples in each interval to `counts`: by code, and behind those by value. Whether samples fall or rise is found
// by block, not where they are drawn: thousands of warps would write to one word.
template <class Domain>
__global__ void __launch_bounds__(kMapThreads)
    count_samples(const typename Domain::Code* samples, u32 num_samples, SampleRange* range, u32* counts) {
    using Code = typename Domain::Code;
    constexpr int kCounted = kIntervals * (Domain::kByValue ? 2 : 1);
    __shared__ u32 block_counts[kCounted];
    const EqualIntervals intervals(range);
    LinearTransform transform{};
    bool has_transform = false;
    if constexpr (Domain::kByValue) has_transform = fit_transform<Domain>(range, transform);
    const Domain domain(transform);
    for (int i = threadIdx.x; i < kCounted; i += kMapThreads) block_counts[i] = 0;
    __syncthreads();  // counts are zero before samples are counted
    bool falls = false, rises = false;
    for (u32 j = blockIdx.x * kMapThreads + threadIdx.x; j < num_samples; j += gridDim.x * kMapThreads) {
        const Code code = samples[j], before = samples[j > 0 ? j - 1 : 0];
        falls = falls || code < before;
        rises = rises || before < code;
        atomicAdd(&block_counts[intervals.interval(code)], 1u);
        if (has_transform)
            atomicAdd(&block_counts[kIntervals + EqualIntervals().interval(domain.coordinate(code))], 1u);
    }
    falls = __syncthreads_or(falls);  // the block's samples are counted before its counts are added
    rises = __syncthreads_or(rises);
    if (threadIdx.x == 0 && falls) range->falls = 1;
    if (threadIdx.x == 0 && rises) range->rises = 1;
    for (int i = threadIdx.x; i < kCounted; i += kMapThreads) {
        if (block_counts[i] > 0) atomicAdd(&counts[i], block_counts[i]);
    }
}

// One block: the map of the samples that count_samples has counted, except for the subintervals of skewed intervals.
// Values are mapped where they are not skewed, since a map by value has no subintervals.
template <class Domain>
__global__ void __launch_bounds__(kMapThreads) build_map(const u32* counts, u32 num_samples, u32 num_fine,
                                                         const SampleRange* range, SplitterMap* map, u32* befores) {
    __shared__ MapScan::SharedStorage shared;
    const MapBuilder builder{map, num_samples, num_fine, shared};
    EqualIntervals intervals(range);
    MapBuilder::Counts own;
    SampleShape shape = builder.inspect(counts, intervals, kSkewedShare, own);
    const u32* table = counts;
    bool by_value = false;
    LinearTransform transform{};
    if constexpr (Domain::kByValue) {
        MapBuilder::Counts own_values;
        const SampleShape values =
            builder.inspect(counts + kIntervals, EqualIntervals(), kSkewedValueShare, own_values);
        by_value =
            fit_transform<Domain>(range, transform) && !shape.is_uniform && (values.is_uniform || !values.is_skewed);
        if (by_value) {
            intervals = EqualIntervals();
            table = counts + kIntervals;
            shape = values;
            for (int k = 0; k < kIntervalsPerThread; ++k) own[k] = own_values[k];
        }
    }
    const u32 before = builder.begin(intervals, shape.is_uniform, own);
    if (threadIdx.x == 0) map->flags.is_in_order = !(range->falls && range->rises);
    if (by_value && threadIdx.x == 0) {
        map->flags.by_value = 1;
        map->transform = transform;
    }
    if (!by_value && threadIdx.x == 0) builder.find_base(range);
    if (shape.is_uniform) return;  // the whole block leaves
    if (by_value || !shape.is_skewed) return builder.cut_smoothed(table, by_value ? kValueFraction : 0);
    builder.cut(num_samples, before, own);
    builder.subdivide(intervals.width_bits, before, own, befores);
}

// Add the samples in each subinterval to `counts`.
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

// One block: cut the subintervals into buckets, two a thread. A template is compiled only in programs that launch it.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    cut_subdivided(const u32* counts, const u32* befores, u32 num_samples, u32 num_fine, SplitterMap* map) {
    using Scan = BlockScan<u32, kThreads>;
    __shared__ typename Scan::SharedStorage shared;
    __shared__ u32 firsts[kSubIntervals];  // samples in all subintervals before each
    const int sub_bits = map->sub_bits;
    if (sub_bits == 0) return;  // the whole block leaves
    constexpr u32 kPerThread = kSubIntervals / kThreads;
    const u32 begin = threadIdx.x * kPerThread;
    u32 sum = 0;
    for (u32 k = 0; k < kPerThread; ++k) sum += counts[begin + k];
    u32 before = Scan::exclusive(sum, shared);
    for (u32 k = 0; k < kPerThread; before += counts[begin + k], ++k) firsts[begin + k] = before;
    __syncthreads();  // all sums are there before those of other threads' parents are read
    const u32 num_words = map->num_words - kIntervals;
    for (u32 k = 0; k < kPerThread; ++k) {
        const u32 j = begin + k, parent = j >> sub_bits;
        if (j >= num_words) continue;
        const u32 inside = firsts[j] - firsts[parent << sub_bits];
        map->intervals[kIntervals + j] = pack_interval(befores[parent] + inside, counts[j], num_samples, num_fine);
    }
}

// LSD passes beat another MSD level when overfull buckets hold more than this share of the sample and number at least
// `least`; fewer contain few distinct keys.
constexpr double kOverfullShare = 0.3;
// Also when nearly the whole sample is in overfull buckets, if at least so many times as many buckets are non-empty: 16
// distinct codes leave no others. Of 6 random words, 2^28 uint32 keys take 6.8 ms by levels and 4.2 by LSD passes; of 8
// words 6.1 and 4.0.
constexpr double kNearlyAllShare = 0.9;
constexpr Offset kFewOverfull = 24, kNonEmptyRatio = 2;
// Also when nearly the whole sample is in overfull buckets, and at most this share of the bytes varies: LSD passes leave
// the others out. Few codes far from each other are such keys, of which each level sees two buckets.
constexpr int kVaryingShare = 2;
// Codes of the sample whose bytes are compared, for each thread of a block.
constexpr u32 kComparedPerThread = 16;

// Sums over buckets, packed into one word so that one scan adds all three.
struct BucketTally {
    static constexpr int kBits =
        20;  // overfull buckets in the low bits, non-empty ones above, then samples in overfull
    static constexpr Offset kMask = (Offset(1) << kBits) - 1;

    static __device__ __forceinline__ Offset of_bucket(u32 count, u32 full) {
        return (count > 0 ? Offset(1) << kBits : 0) + (count >= full ? (Offset(count) << 2 * kBits) + 1 : 0);
    }
    static __device__ __forceinline__ bool is_imbalanced(Offset sum, u32 num_samples, u32 least) {
        const Offset overfull = sum & kMask, non_empty = sum >> kBits & kMask, held = sum >> 2 * kBits;
        return (held > u32(kOverfullShare * num_samples) && overfull >= least) ||
               (holds_nearly_all(sum, num_samples) && overfull >= kFewOverfull &&
                non_empty >= kNonEmptyRatio * overfull);
    }
    static __device__ __forceinline__ bool holds_nearly_all(Offset sum, u32 num_samples) {
        return sum >> 2 * kBits > u32(kNearlyAllShare * num_samples);
    }
};

// Whether few bytes vary among codes from all over the sample. A whole block calls it; `varying` is shared.
template <class Code>
__device__ __forceinline__ bool few_bytes_vary(const Code* samples, u32 num_samples, u32 (&varying)[sizeof(u64) / 4]) {
    if (threadIdx.x == 0) varying[0] = varying[1] = 0;
    __syncthreads();  // the words are zero before bits are set
    u64 bits = 0;
    const u32 stride = num_samples / (kComparedPerThread * kMapThreads) + 1;
    for (u32 j = threadIdx.x * stride; j < num_samples; j += kMapThreads * stride) {
        bits |= u64(samples[j]) ^ u64(samples[0]);
    }
    atomicOr(&varying[0], u32(bits));
    atomicOr(&varying[1], u32(bits >> 32));
    __syncthreads();  // all bits are set before they are read
    int count = 0;
    for (u64 word = varying[0] | u64(varying[1]) << 32; word; word >>= 8) count += (word & 255) != 0;
    return kVaryingShare * count <= int(sizeof(Code));
}

// Count this block as arrived. Returns whether it is the last of the grid, which may then read what all have written.
__device__ __forceinline__ bool is_last_to_arrive(u32* arrived, bool& shared) {
    __threadfence();
    __syncthreads();  // the block's writes are done before it counts as arrived
    if (threadIdx.x == 0) shared = atomicAdd(arrived, 1u) == gridDim.x - 1;
    __syncthreads();  // all threads know whether theirs is the last block
    return shared;
}

// Mark the map imbalanced if its buckets are (see the constants above); `full` samples make a bucket overfull. A bucket
// is 2^fine_bits fine buckets of one row of `length` keys. `table`, zeros, has one word a bucket of all rows, and one more
// for the blocks that have arrived. Skew at every scale makes many overfull buckets, and so do rows of different ranges.
template <class Domain>
__global__ void __launch_bounds__(kMapThreads)
    check_balance(const typename Domain::Code* samples, u32 num_samples, SplitterMap* map, Offset n, Offset length,
                  u32 fine_bits, u32 num_buckets, u32* table, u32 full, u32 least) {
    using Scan = BlockScan<Offset, kMapThreads>;
    __shared__ __align__(16) u32 intervals[kMapWords];
    __shared__ typename Scan::SharedStorage shared;
    __shared__ bool is_last;
    __shared__ u32 varying[sizeof(u64) / 4];
    // Of a uniform sample, buckets are overfull only where each has one code. The whole grid leaves.
    if (map->flags.is_uniform && map->range >= map->num_fine && length == n) return;
    const SampledMap<Domain> sampled(map, intervals);
    __syncthreads();  // the intervals are there before they are looked up
    const u32 row_buckets = map->num_fine >> fine_bits;
    for (u32 j = blockIdx.x * kMapThreads + threadIdx.x; j < num_samples; j += gridDim.x * kMapThreads) {
        const u32 row = length == n ? 0 : u32(sample_position(j, n / num_samples) / length);
        atomicAdd(&table[row * row_buckets + (sampled.fine(samples[j]) >> fine_bits)], 1u);
    }
    if (!is_last_to_arrive(&table[num_buckets], is_last)) return;
    __threadfence();
    Offset sum = 0;
#pragma unroll 8
    for (u32 f = threadIdx.x; f < num_buckets; f += kMapThreads) {
        sum += BucketTally::of_bucket(__ldcg(&table[f]), full);
    }
    Offset total;
    Scan::exclusive(sum, shared, total);
    const bool few_bytes = length == n && BucketTally::holds_nearly_all(total, num_samples) &&
                           few_bytes_vary(samples, num_samples, varying);
    if (threadIdx.x == 0) map->flags.is_imbalanced = few_bytes || BucketTally::is_imbalanced(total, num_samples, least);
}

}  // namespace gpusort
