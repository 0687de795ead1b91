// One more level for buckets that do not fit a block: measure their ranges, sample and count digits, list the children.
//
//   segments (s) -> measure_segments -> range of each       a segment of one code needs no more sorting
//                -> plan_segments    -> digits, mode
//                -> sample_segments  -> intervals (table)    where the range is wide
//                -> count_segments   -> counts (table)
//                -> scan_segments    -> starts, cursors      the children, for partition and block sort
#include "policy/sizes.cuh"
#include "primitives/block.cuh"
#include "primitives/basics.cuh"
#include "keys/elements.cuh"
#include "buckets/segment_digits.cuh"

namespace gpusort {

template <int kItems>
constexpr int kTile = kSegmentThreads * kItems;  // of all kernels of a level, the partition among them

// This block's tile of a segment.
template <int kItems, class SegmentType>
struct SegmentTile {
    SegmentType* segment;
    Offset tile_first;  // offset in the segment

    __device__ __forceinline__ SegmentTile(SegmentType* segments, u32 num_segments)
        : segment(segments + (num_segments == 1 ? 0 : find_segment(segments, num_segments, blockIdx.x))),
          tile_first((blockIdx.x - segment->first_tile) * kTile<kItems>) {}
    // The grid is an upper bound: blocks past the last tile have no keys.
    __device__ __forceinline__ bool is_empty() const { return tile_first >= segment->size; }
    __device__ __forceinline__ int valid() const { return int(min(segment->size - tile_first, Offset(kTile<kItems>))); }
    __device__ __forceinline__ Offset first() const { return segment->start + tile_first; }
};

template <class Code>
__device__ __forceinline__ void widen(u64& least_complement, u64& greatest, Code code) {
    const u64 complement = ~u64(code);
    least_complement = complement > least_complement ? complement : least_complement;
    greatest = u64(code) > greatest ? u64(code) : greatest;
}

__device__ __forceinline__ void publish_range(u64 least_complement, u64 greatest, u64* least_out, u64* greatest_out) {
    least_complement = warp_max(least_complement);
    greatest = warp_max(greatest);
    if (threadIdx.x % kWarpThreads != 0) return;
    raise_max(least_out, least_complement);
    raise_max(greatest_out, greatest);
}

// Make the rows of a matrix segments.
__global__ void list_rows(Segment* segments, u32 num_rows, Offset length) {
    const u32 row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < num_rows) begin_segment(segments[row], row * length, length);
}

template <class Source, class Value, int kItems>
__global__ void __launch_bounds__(kSegmentThreads)
    measure_segments(const void* codes_in, const Value* values_in, Segment* segments, u32 num_segments) {
    const SegmentTile<kItems, Segment> tile(segments, num_segments);
    if (tile.is_empty()) return;
    Segment* segment = tile.segment;
    const int valid = tile.valid();
    const Offset first = tile.first();
    u64 least_complement = 0, greatest = 0, least_position = 0, greatest_position = 0;
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kSegmentThreads + threadIdx.x;
        if (i >= valid) continue;
        widen(least_complement, greatest, Source::load(codes_in, first + i, 0));
        if constexpr (kHasValues<Value>)
            widen(least_position, greatest_position, load_payload(values_in, first + i, 0));
    }
    publish_range(least_complement, greatest, &segment->least_complement, &segment->greatest);
    if constexpr (kHasValues<Value>) {
        publish_range(least_position, greatest_position, &segment->least_position_complement,
                      &segment->greatest_position);
    }
}

// Outcome of the plan, read by the host.
struct SegmentPlan {
    u64 num_children;
    u64 num_constant;  // segments of one code (and no positions to order)
};
constexpr int kPlanWords = 2;
static_assert(sizeof(SegmentPlan) == kPlanWords * sizeof(u64), "recursive_partition.py reads so many words");

// One block: number the tiles of the segments. Run before measure_segments.
template <int kItems>
__global__ void __launch_bounds__(kSegmentThreads) number_tiles(Segment* segments, u32 num_segments) {
    using Scan = BlockScan<Offset, kSegmentThreads>;
    __shared__ typename Scan::SharedStorage shared;
    Offset before = 0;
    for (u32 first = 0; first < num_segments; first += kSegmentThreads) {
        const u32 s = first + threadIdx.x;
        const Offset tiles = s < num_segments ? (segments[s].size + kTile<kItems> - 1) / kTile<kItems> : 0;
        Offset total;
        const Offset lower = Scan::exclusive(tiles, shared, total);
        if (s < num_segments) segments[s].first_tile = before + lower;
        before += total;
        __syncthreads();  // the scan's storage is free before the next round
    }
}

constexpr u32 kFewestDigits = 4;  // fewer gain too little for a pass over the keys

// Number of digits: such that a child has about `target` keys; as many as codes where the range is short; none for a
// segment of one code.
__device__ __forceinline__ u32 choose_digits(Offset size, u64 range, u32 target) {
    if (range == 0) return 0;
    if (range < kMaxSegmentDigits) return u32(range) + 1;
    const Offset wanted = (size + target - 1) / target;
    return wanted < kFewestDigits ? kFewestDigits : wanted < kMaxSegmentDigits ? u32(wanted) : kMaxSegmentDigits;
}

// Choose a segment's digits, its map (by width, which a sample may replace by splitters) and its mode.
template <bool kPositions>
__device__ __forceinline__ Offset plan_segment(Segment& segment, u32 target) {
    u64 least = ~segment.least_complement, greatest = segment.greatest;
    const bool by_position = kPositions && least == greatest;
    if (by_position) {
        least = ~segment.least_position_complement;
        greatest = segment.greatest_position;
    }
    const Offset digits = choose_digits(segment.size, greatest - least, target);
    segment.digits = u32(digits);
    segment.map = CoarseMap::over(least, greatest, digits < 2 ? 2 : u32(digits));
    segment.mode = by_position ? kByPosition : segment.map.exact ? kByCode : kBySplitters;
    return digits;
}

// One block: the map of each segment, and its row of the table. A segment of one code has none.
template <bool kPositions>
__global__ void __launch_bounds__(kSegmentThreads)
    plan_segments(Segment* segments, u32 num_segments, u32 target, SegmentPlan* plan) {
    using Scan = BlockScan<Offset, kSegmentThreads>;
    __shared__ typename Scan::SharedStorage shared;
    Offset before = 0;
    for (u32 first = 0; first < num_segments; first += kSegmentThreads) {
        const u32 s = first + threadIdx.x;
        Offset digits = 0;
        if (s < num_segments) {
            digits = plan_segment<kPositions>(segments[s], target);
            if (digits == 0) atomicAdd(&plan->num_constant, 1ull);
        }
        Offset total;
        const Offset lower = Scan::exclusive(digits, shared, total);
        if (s < num_segments) segments[s].table = before + lower;
        before += total;
        __syncthreads();  // the scan's storage is free before the next round
    }
    if (threadIdx.x == 0) plan->num_children = before;
}

// The running count of a uniform sample of 2^11 deviates from its line by a 16th of the sample once in a million.
constexpr u32 kUniformShare = 16;
constexpr u32 kSegmentSamples = 2048;  // 4 a digit: one child in a thousand exceeds twice the mean
constexpr u32 kMaxSegmentIntervals = kMaxSegmentDigits * kIntervalsPerDigit;
static_assert(kMaxSegmentIntervals == 2 * kSegmentThreads, "two intervals a thread");

// The block that samples one segment.
struct SegmentSampler {
    using Scan = BlockScan<u32, kSegmentThreads>;
    struct SharedStorage {
        u32 counts[kMaxSegmentIntervals];
        typename Scan::SharedStorage scan;
    };

    Segment& segment;
    u32 num_intervals, num_samples;
    CoarseMap map;  // to intervals
    SharedStorage& shared;

    __device__ __forceinline__ SegmentSampler(Segment& segment_, SharedStorage& shared_)
        : segment(segment_), shared(shared_) {
        // With at least two codes an interval, the greatest code is in the upper half of the last interval, and so in
        // another digit than the least: every level makes progress, whatever the sample.
        const u64 range = segment.greatest - ~segment.least_complement;
        num_intervals = u32(min(u64(segment.digits * kIntervalsPerDigit), range / 2));
        num_samples = u32(min(Offset(kSegmentSamples), segment.size / 2));
        map = CoarseMap::over(~segment.least_complement, segment.greatest, num_intervals);
    }

    template <class Source>
    __device__ __forceinline__ void count(const void* codes_in) {
        const Offset stratum = segment.size / num_samples;
        for (u32 i = threadIdx.x; i < kMaxSegmentIntervals; i += kSegmentThreads) shared.counts[i] = 0;
        __syncthreads();  // counts are zero before samples are counted
        for (u32 j = threadIdx.x; j < num_samples; j += kSegmentThreads) {
            const auto code = Source::load(codes_in, segment.start + sample_position(j, stratum), 0);
            atomicAdd(&shared.counts[map.digit(code)], 1u);
        }
        __syncthreads();  // all samples are counted before they are summed
    }

    // Cut the intervals into digits in proportion to their samples, or keep digits of equal width if the sample is
    // uniform: those are cheaper.
    __device__ __forceinline__ void cut(u32* intervals) {
        const u32 digits = segment.digits;
        const u32 i = 2 * threadIdx.x, first = shared.counts[i], second = shared.counts[i + 1];
        const u32 before = Scan::exclusive(first + second, shared.scan);
        const int deviation = int(before) - int(i * num_samples / num_intervals);  // unused beyond the last interval
        const bool even = i >= num_intervals || abs(deviation) <= int(num_samples / kUniformShare) + 1;
        const bool by_width = __syncthreads_and(even && digits >= kUniformShare);
        if (threadIdx.x == 0 && by_width) segment.mode = kByWidth;
        if (threadIdx.x == 0 && !by_width) segment.map = map;
        if (i >= num_intervals) return;
        u32* row = intervals + segment.table * kIntervalsPerDigit;
        row[i] = pack_interval(before, first, num_samples, digits);
        row[i + 1] = pack_interval(before + first, second, num_samples, digits);
    }
};

// One block a segment.
template <class Source>
__global__ void __launch_bounds__(kSegmentThreads)
    sample_segments(const void* codes_in, Segment* segments, u32* intervals) {
    __shared__ SegmentSampler::SharedStorage shared;
    Segment& segment = segments[blockIdx.x];
    if (segment.digits == 0 || segment.mode != kBySplitters) return;  // the whole block leaves
    SegmentSampler sampler(segment, shared);
    sampler.count<Source>(codes_in);
    sampler.cut(intervals);
}

// Add one to the count of each lane's digit; `present`: the lane has a key, as lane 0 does where any lane does. Lanes with
// lane 0's digit are added at once: clustered keys would be serialized at one counter.
__device__ __forceinline__ void count_digit(u32* counts, u32 digit, bool present) {
    const u32 leader_digit = __shfl_sync(kWholeWarp, digit, 0);
    const u32 peers = __ballot_sync(kWholeWarp, present && digit == leader_digit);
    if (threadIdx.x % kWarpThreads == 0 && peers) atomicAdd(&counts[leader_digit], u32(__popc(peers)));
    if (present && digit != leader_digit) atomicAdd(&counts[digit], 1u);
}

template <class Source, class Value, int kItems>
__global__ void __launch_bounds__(kSegmentThreads)
    count_segments(const void* codes_in, const Value* values_in, const u32* intervals, const Segment* segments,
                   u32 num_segments, u64* counts) {
    using Code = typename Source::Code;
    using Digits = SegmentDigits<Code, false>;
    __shared__ u32 tile_counts[kMaxSegmentDigits];
    __shared__ u32 shared_intervals[Digits::kSharedWords];
    const SegmentTile<kItems, const Segment> tile(segments, num_segments);
    if (tile.is_empty() || tile.segment->digits == 0) return;
    const int valid = tile.valid();
    const Offset first = tile.first();
    const Digits digits(intervals, tile.segment, 0, 0, shared_intervals);
    tile_counts[threadIdx.x] = 0;
    __syncthreads();  // counts are zero and intervals are copied before digits are counted
    Code codes[kItems];
    Value values[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kSegmentThreads + threadIdx.x;
        codes[k] = i < valid ? Source::load(codes_in, first + i, 0) : Code(0);
        values[k] = i < valid ? load_payload(values_in, first + i, 0) : Value{};
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const bool present = k * kSegmentThreads + int(threadIdx.x) < valid;
        count_digit(tile_counts, present ? digits.digit(codes[k], values[k]) : 0, present);
    }
    __syncthreads();  // the tile is counted before its counts are added to the table
    const u32 count = tile_counts[threadIdx.x];
    if (count > 0) atomicAdd(&counts[tile.segment->table + threadIdx.x], u64(count));
}

// One block a segment: first offsets of its children, as starts and as cursors. A template is compiled only in programs
// that launch it.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    scan_segments(const Segment* segments, const u64* counts, Offset* starts, Offset* cursors) {
    using Scan = BlockScan<Offset, kThreads>;
    __shared__ typename Scan::SharedStorage shared;
    const Segment& segment = segments[blockIdx.x];
    const bool is_child = threadIdx.x < segment.digits;
    Offset total;
    const Offset lower = Scan::exclusive(is_child ? counts[segment.table + threadIdx.x] : 0, shared, total);
    if (!is_child) return;
    starts[segment.table + threadIdx.x] = segment.start + lower;
    cursors[segment.table + threadIdx.x] = segment.start + lower;
}

// Where every digit is one code and keys travel alone, the counts suffice: write every code as often as it was counted.
template <class Sink, class Code, int kItems>
__global__ void __launch_bounds__(kSegmentThreads)
    fill_segments(const Offset* starts, void* keys_out, const Segment* segments, u32 num_segments, u64 base) {
    __shared__ Offset shared_starts[kMaxSegmentDigits];
    const SegmentTile<kItems, const Segment> tile(segments, num_segments);
    const Segment& segment = *tile.segment;
    if (tile.is_empty() || segment.digits == 0 || segment.mode != kByCode) return;
    const int valid = tile.valid();
    const Offset first = tile.first();
    for (u32 d = threadIdx.x; d < segment.digits; d += kSegmentThreads) shared_starts[d] = starts[segment.table + d];
    __syncthreads();  // the starts are copied before they are searched
    for (int i = threadIdx.x; i < valid; i += kSegmentThreads) {
        u32 digit = 0;
#pragma unroll
        for (u32 step = kMaxSegmentDigits / 2; step > 0; step /= 2) {
            if (digit + step < segment.digits && shared_starts[digit + step] <= first + i) digit += step;
        }
        Sink::store(keys_out, nullptr, first + i, Code(segment.map.least + digit), NoValue{}, base);
    }
}

// Decode the segments of one code, and leave the others as they are.
template <class Sink, class Code, class Value, int kItems>
__global__ void __launch_bounds__(kSegmentThreads)
    store_constant(const Value* values_in, void* keys_out, void* positions_out, const Segment* segments,
                   u32 num_segments, u64 base) {
    const SegmentTile<kItems, const Segment> tile(segments, num_segments);
    const Segment& segment = *tile.segment;
    if (tile.is_empty() || segment.digits > 0) return;
    const int valid = tile.valid();
    const Offset first = tile.first();
    for (int i = threadIdx.x; i < valid; i += kSegmentThreads) {
        Sink::store(keys_out, positions_out, first + i, Code(segment.greatest), load_payload(values_in, first + i, 0),
                    base);
    }
}

}  // namespace gpusort
