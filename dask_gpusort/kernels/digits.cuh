// Monotone maps from codes to digits: what a most-significant-digit pass partitions by.
//
// A radix digit is the special case of a power-of-two width. Real keys crowd (half of all uniform floats in [0, 1)
// share one exponent), so the passes use two other monotone maps, and any monotone map sorts:
//
//   QuantileMap   fine bucket                     2^11 equal intervals of the sampled range, each cut into as many
//                 |        .----                  fine buckets as its share of the sample asks for; linear inside
//                 |   .---'                       an interval, clamped outside of the range
//                 |--'________ code
//   LinearMap     digits of equal width over one segment's own range [least, greatest]; one code a digit (`exact`)
//                 when the range has no more codes than digits
#pragma once
#include "order.cuh"
#include "scan.cuh"

namespace gpusort {

constexpr int kIntervalBits = 11;  // 8 KiB of shared memory; 128 samples each of 2^18
constexpr int kIntervals = 1 << kIntervalBits;
constexpr int kHalfBits = 16;  // an interval packs its first fine bucket and their number
constexpr u32 kHalfMask = (1u << kHalfBits) - 1;

__device__ __forceinline__ int bit_length(u64 value) { return 64 - __clzll((long long)value); }

struct QuantileMap {
    u64 least;                   // code at which interval 0 begins
    int width_bits;              // an interval covers 1 << width_bits codes
    u32 num_fine;                // fine buckets, at most 2^16
    u32 plain;                   // the sample is uniform: equal buckets, found without the intervals
    u32 intervals[kIntervals];   // first fine bucket | number of fine buckets << 16
};

// The map, as one thread uses it.
template <class Code>
struct FineMap {
    static constexpr int kCodeBits = int(sizeof(Code)) * 8;
    Code least;
    int width_bits;
    u32 num_fine;
    bool plain;
    const u32* intervals;  // in shared memory

    // Copies the intervals into shared memory where they are needed; the caller's barrier comes after.
    __device__ __forceinline__ FineMap(const QuantileMap* map, u32* shared_intervals)
        : least(Code(map->least)), width_bits(map->width_bits), num_fine(map->num_fine), plain(map->plain),
          intervals(shared_intervals) {
        if (plain) return;
        for (int i = threadIdx.x; i < kIntervals; i += blockDim.x) shared_intervals[i] = map->intervals[i];
    }
    // Without the intervals: for `bin` alone. No map: not plain.
    __device__ __forceinline__ explicit FineMap(const QuantileMap* map)
        : least(map ? Code(map->least) : Code(0)), width_bits(map ? map->width_bits : 0), num_fine(map ? map->num_fine : 1),
          plain(map && map->plain), intervals(nullptr) {}
    // Distance from the least code, as a fraction of the range of all intervals, of 2^32.
    __device__ __forceinline__ u32 position(Code code) const {
        const Code distance = Code(code - least);
        const int range_bits = width_bits + kIntervalBits;
        if constexpr (kCodeBits <= 32) return u32(distance) << (32 - range_bits);
        else return range_bits > 32 ? u32(distance >> (range_bits - 32)) : u32(distance) << (32 - range_bits);
    }
    __device__ __forceinline__ u32 fine(Code code) const {
        const Code distance = Code(code - least);
        const Code interval = Code(distance >> width_bits);
        u32 bucket;
        if (plain) {
            bucket = __umulhi(position(code), num_fine);
        } else {
            // The part of the interval below the code, as a fraction of 2^32.
            const Code fraction = Code(Code(distance << 1) << (kCodeBits - 1 - width_bits));
            const u32 part = kCodeBits > 32 ? u32(u64(fraction) >> 32) : u32(fraction);
            const u32 packed = intervals[u32(interval) % kIntervals];
            bucket = (packed & kHalfMask) + __umulhi(part, packed >> kHalfBits);
        }
        if (interval >= Code(kIntervals)) bucket = num_fine - 1;
        return code < least ? 0 : bucket;
    }
    // Place inside the fine bucket, as one of `bins` equal parts of it; only where the map is plain and the code in range.
    __device__ __forceinline__ u32 bin(Code code, u32 bins) const { return __umulhi(position(code) * num_fine, bins); }
};

constexpr float kTwoTo32 = 4294967296.0f;

struct LinearMap {
    u64 least;
    int drop_bits;  // makes the range fit 32 bits
    u32 scale;      // digits per code, times 2^32
    u32 exact;      // one code a digit

    template <class Code>
    __device__ __forceinline__ u32 digit(Code code) const {
        u32 distance;
        if constexpr (sizeof(Code) <= sizeof(u32)) distance = u32(code) - u32(least);
        else distance = u32((code - least) >> drop_bits);
        return exact ? distance : __umulhi(distance, scale);
    }
    // Place inside the digit, as a fraction of 2^32.
    template <class Code>
    __device__ __forceinline__ u32 fraction(Code code) const {
        return u32((u64(code) - least) >> drop_bits) * scale;
    }
    // The map of the range [least, greatest] to digits below `digits` (at least 2).
    static __device__ __forceinline__ LinearMap over(u64 least, u64 greatest, u32 digits) {
        const u64 range = greatest - least;
        const int bits = bit_length(range);
        LinearMap map;
        map.least = least;
        map.drop_bits = bits > 32 ? bits - 32 : 0;
        const u64 steps = (range >> map.drop_bits) + 1;
        map.exact = range < digits;
        // Rounded down, so that no code gets a digit past the last; a float's 24 bits are enough for digits of even
        // width, and a 64-bit division would cost a thread more than its keys do.
        map.scale = map.exact ? 0 : __float2uint_rz(__fdiv_rd(__uint2float_rd(digits) * kTwoTo32, __ull2float_ru(steps)));
        return map;
    }
};

// How the digits of a segment are found.
enum SegmentMode : u32 {
    kBySplitters,  // sampled splitters: even children whatever the codes are
    kByWidth,      // digits of equal width: the sample is uniform
    kByCode,       // one code a digit: the range is short
    kByPosition,   // all codes are equal and positions break the ties: digits of equal width over the positions
};

constexpr u32 kMaxSegmentDigits = 512;  // one digit a thread of the partition

// Consecutive elements that are partitioned by one table row of cursors.
struct Segment {
    Offset start;
    Offset size;
    Offset first_tile;      // number of the segment's first tile among the tiles of all segments
    Offset table;           // first cursor of the segment, and its first splitter
    u64 least_complement;   // of the codes: ~least and greatest, so that both are maxima from zero
    u64 greatest;
    u64 least_position_complement;  // the same of the positions, where they break ties
    u64 greatest_position;
    LinearMap map;
    u32 digits;  // none: all codes are equal, and nothing is left to sort
    SegmentMode mode;
};
static_assert(sizeof(Segment) == 96, "msd.py allocates segments by this size");

// The digits of one segment, as one thread uses them. Digit d of a sampled segment holds the codes from splitter d up
// to the next; digit 0 those below splitter 1. Segments of one code a digit need no partition where keys travel alone
// (kFilled): their counts say all.
template <class Code, bool kFilled>
struct SegmentDigits {
    static constexpr int kSharedWords = kMaxSegmentDigits * sizeof(Code) / sizeof(u32);
    LinearMap map;
    u32 digits;
    SegmentMode mode;
    const Code* splitters;  // in shared memory

    // Copies the splitters into shared memory where they are needed; the caller's barrier comes after.
    __device__ __forceinline__ SegmentDigits(const void* all_splitters, const Segment* segment, u32, u32* shared_words)
        : map(segment->map), digits(segment->digits), mode(segment->mode),
          splitters(reinterpret_cast<const Code*>(shared_words)) {
        if (mode != kBySplitters) return;
        const Code* row = static_cast<const Code*>(all_splitters) + segment->table;
        for (u32 d = threadIdx.x; d < digits; d += blockDim.x) reinterpret_cast<Code*>(shared_words)[d] = row[d];
    }
    // Number of splitters at or below each code, by halving steps; all codes take a step together, so that their
    // loads overlap.
    template <int kItems>
    __device__ __forceinline__ void search(const Code (&codes)[kItems], u32 (&found)[kItems]) const {
#pragma unroll
        for (int k = 0; k < kItems; ++k) found[k] = 0;
#pragma unroll 1
        for (u32 step = kMaxSegmentDigits / 2; step > 0; step /= 2) {
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                const u32 next = found[k] + step;
                if (next < digits && splitters[next] <= codes[k]) found[k] = next;
            }
        }
    }
    template <class Value, int kItems>
    __device__ __forceinline__ void find(const Code (&codes)[kItems], const Value (&values)[kItems], u32 (&found)[kItems]) const {
        if (mode == kBySplitters) {
            search(codes, found);
            return;
        }
#pragma unroll
        for (int k = 0; k < kItems; ++k) found[k] = digit(codes[k], values[k]);
    }
    // Only where `is_cheap`.
    template <class Value>
    __device__ __forceinline__ u32 digit(Code code, Value value) const {
        if constexpr (sizeof(Value) == sizeof(u32)) {
            if (mode == kByPosition) return map.digit(value);
        }
        return map.digit(code);
    }
    __device__ __forceinline__ bool is_cheap() const { return mode != kBySplitters; }
    __device__ __forceinline__ bool is_empty() const { return digits == 0 || (kFilled && mode == kByCode); }
};

}  // namespace gpusort
