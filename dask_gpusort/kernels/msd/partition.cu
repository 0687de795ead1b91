// Most-significant-digit partition: every key moves to the bucket of its digit, in any order inside the bucket.
//
// After Satish, Harris and Garland (IPDPS 2009, section 4): a tile is ordered by digit in shared memory and written out
// in that order, so that neighbours in memory are written together. Equal keys are equal bits (or carry their position
// as a tie-break), so a partition need not be stable, and two of their steps get cheaper, as in the hybrid radix sort of
// Stehle and Jacobsen (SIGMOD 2017): ranks come from atomics in shared memory instead of 1-bit splits, and a tile claims
// its output range from one global cursor a bucket instead of a scanned column.
//
//   load      tile of kThreads x kItems codes of one segment, in registers
//   rank      counts[digit]++ gives each code its rank among the tile's codes of that digit
//   reserve   scan of counts -> rank in the tile; cursors[digit] += counts[digit] -> offset in the output
//   scatter   codes to shared memory in digit order
//   store     shared memory to the output, runs of one digit together
//
// `partition_stable` keeps the input order inside a bucket, with values of any width beside the keys. From then on the
// offset of a key in the output breaks ties as its position in the input did.
#include "primitives/block.cuh"
#include "keys/elements.cuh"
#include "buckets/segment_digits.cuh"
#include "buckets/splitter_map.cuh"
#include "lsd/onesweep_tile.cuh"

namespace gpusort {

constexpr u32 kNoDigit = 0xFFFFu;  // of a slot past the end of the tile
constexpr int kRankBits = 16;      // a tile holds at most 2^16 keys
constexpr u32 kRankMask = (1u << kRankBits) - 1;
constexpr int kMatchedLanes = 4;  // lanes with one digit from which on ranking by ballot pays
constexpr int kProbes = 3;        // lanes whose digits are compared with all others

// Map kinds, one of which is compiled into a kernel: both are too much code, so the host waits to learn which applies.
enum class MapKind { kUniform, kSplitters };

// The coarse part (first level) or the rest (second level) of a code's fine bucket. In the second level, the codes of a
// segment use few intervals, which are read from global memory.
template <class Domain, bool kCoarse, MapKind kKind>
struct FineDigits {
    using Code = typename Domain::Code;
    static constexpr bool kCopied = kCoarse && kKind != MapKind::kUniform;
    static constexpr int kSharedWords = kCopied ? kMapWords : kWordsPerVector;
    // In the second level, neighbours look up the same interval in one access.
    static constexpr bool kIsCheap =
        Domain::kIsCheap &&
        (kKind == MapKind::kUniform || (kKind == MapKind::kSplitters && Domain::kByValue && !kCoarse));
    FineMap<Domain> map;
    u32 fine_bits;

    __device__ __forceinline__ FineDigits(const void* splitters, const Segment*, u32 fine_bits_, u64 base,
                                          u32* shared_intervals)
        : FineDigits(static_cast<const SplitterMap*>(splitters), fine_bits_, base, shared_intervals) {
        if (kCopied) copy_intervals(static_cast<const SplitterMap*>(splitters), shared_intervals);
    }
    __device__ __forceinline__ FineDigits(const SplitterMap* splitters, u32 fine_bits_, u64 base,
                                          const u32* shared_intervals)
        : map(splitters, kCopied ? shared_intervals : splitters->intervals, base), fine_bits(fine_bits_) {}
    template <class Value>
    __device__ __forceinline__ u32 digit(Code code, Value) const {
        const u32 fine = kKind == MapKind::kUniform ? map.uniform_bucket(code) : map.splitter_bucket(code);
        return kCoarse ? fine >> fine_bits : fine & ((1u << fine_bits) - 1);
    }
    __device__ __forceinline__ bool is_cheap() const { return kIsCheap; }
    __device__ __forceinline__ bool is_empty() const { return false; }
};

// The same for codes that have a position packed below them.
template <class Digits>
struct PackedDigits : Digits {
    using Digits::Digits;

    template <class Value>
    __device__ __forceinline__ u32 digit(u64 code, Value value) const {
        return Digits::digit(u32(code >> kPositionBits), value);
    }
};

// The same for one-to-one codes in a tile of a stable pass: codes that compare equal share a digit.
template <class Order, class Digits>
struct KeyDigits : Digits {
    static constexpr bool kKept = !Digits::kIsCheap;
    using Digits::Digits;

    __device__ __forceinline__ u32 digit(typename Order::Code code) const {
        return Digits::digit(Order::canonical(code), NoValue{});
    }
    __device__ __forceinline__ u32 greatest() const { return digit(typename Order::Code(~typename Order::Code(0))); }
};

// Rank by ballot for the lanes with the warp's most frequent digit. Two candidates are tested: the most frequent digit of
// the last round, and lane 0's digit. One lane adds for all of its lanes; the other lanes add for themselves.
template <bool kFull>
__device__ __forceinline__ u32 claim_matched(u32* counts, u32 digit, u32& most_frequent) {
    const u32 fresh = __shfl_sync(kWholeWarp, digit, 0);
    u32 peers = __ballot_sync(kWholeWarp, digit == most_frequent);
    const u32 fresh_peers = __ballot_sync(kWholeWarp, digit == fresh);
    if (__popc(fresh_peers) > __popc(peers)) {
        most_frequent = fresh;
        peers = fresh_peers;
    }
    const u32 lane = threadIdx.x % kWarpThreads;
    const u32 leader = __ffs(peers) - 1;
    u32 base = 0;
    if (lane == leader && (kFull || most_frequent != kNoDigit)) {
        base = atomicAdd(&counts[most_frequent], u32(__popc(peers)));
    }
    base = __shfl_sync(kWholeWarp, base, leader);
    if (digit == most_frequent) return base + __popc(peers & ((1u << lane) - 1));
    return kFull || digit != kNoDigit ? atomicAdd(&counts[digit], 1u) : 0;
}

// One tile of one segment. A slot holds digit << kRankBits | rank among the tile's keys of that digit. kFull: the tile
// has kKeys keys, so that no slot needs a test.
template <class Source, class Value, class Digits, int kThreads, int kItems, int kMaxDigits>
struct PartitionTile {
    static constexpr int kKeys = kThreads * kItems;
    using Code = typename Source::Code;
    using Raw = typename Source::Raw;
    using Scan = BlockScan<u32, kThreads>;
    static_assert(kMaxDigits <= kThreads, "one thread scans and reserves one digit");

    struct SharedStorage {
        Code codes[kKeys];
        Value values[kHasValues<Value> ? kKeys : 1];
        u16 digits[kKeys];
        u32 counts[kMaxDigits];    // then the first rank in the tile of each digit
        Offset moves[kMaxDigits];  // offset in the output minus rank in the tile
        alignas(16) u32 map_words[Digits::kSharedWords];
        typename Scan::SharedStorage scan;
    };

    const void* keys_in;
    const Value* values_in;
    Code* codes_out;
    Value* values_out;
    Offset* cursors;  // of the segment
    u64 base;
    Offset first;  // offset of the tile in the input
    int valid;     // keys of the tile
    SharedStorage& shared;
    const int t;  // number of the thread

    template <bool kFull>
    __device__ __forceinline__ bool is_filled(int k) const {
        return kFull || k * kThreads + t < valid;
    }
    // Read, or made, where it is used: a thread's values would take as many registers as a block less costs.
    __device__ __forceinline__ Value value(int k) const { return load_payload(values_in, first + k * kThreads + t, 0); }

    template <bool kFull>
    __device__ __forceinline__ void load(Raw (&raws)[kItems]) const {
        const Raw* keys = static_cast<const Raw*>(keys_in) + first + t;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            if (is_filled<kFull>(k)) raws[k] = keys[k * kThreads];
        }
    }

    template <bool kFull>
    __device__ __forceinline__ void find_digits(const Digits& digits, const Raw (&raws)[kItems], Code (&codes)[kItems],
                                                u32 (&slots)[kItems]) const {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const Offset i = first + k * kThreads + t;
            codes[k] = is_filled<kFull>(k) ? Source::encode(raws[k], i, base) : Code(0);
            slots[k] = is_filled<kFull>(k) ? digits.digit(codes[k], value(k)) : kNoDigit;
        }
    }

    template <bool kFull>
    __device__ __forceinline__ void rank(u32 (&slots)[kItems]) {
        u32* counts = shared.counts;
        u32 most_frequent;
        if (count_most_frequent<kProbes>(slots[0], most_frequent) >= kMatchedLanes) {
#pragma unroll
            for (int k = 0; k < kItems; ++k)
                slots[k] = slots[k] << kRankBits | claim_matched<kFull>(counts, slots[k], most_frequent);
        } else {
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                const u32 rank = kFull || slots[k] != kNoDigit ? atomicAdd(&counts[slots[k]], 1u) : 0;
                slots[k] = slots[k] << kRankBits | rank;
            }
        }
    }

    // Turn the counts into first ranks, and claim the output ranges of all digits.
    __device__ __forceinline__ void reserve() {
        const u32 count = t < kMaxDigits ? shared.counts[t] : 0;
        Offset reserved = 0;
        if (count > 0) reserved = atomicAdd(&cursors[t], Offset(count));
        const u32 rank = Scan::exclusive(count, shared.scan);
        if (t < kMaxDigits) {
            shared.counts[t] = rank;
            shared.moves[t] = reserved - rank;
        }
    }

    template <bool kFull>
    __device__ __forceinline__ void scatter(const Code (&codes)[kItems], const u32 (&slots)[kItems], bool keep_digits) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 digit = slots[k] >> kRankBits;
            if (!is_filled<kFull>(k)) continue;
            const u32 rank = shared.counts[digit] + (slots[k] & kRankMask);
            shared.codes[rank] = codes[k];
            if (keep_digits) shared.digits[rank] = u16(digit);
            if constexpr (kHasValues<Value>) shared.values[rank] = value(k);
        }
    }

    template <bool kFull>
    __device__ __forceinline__ void store(const Digits& digits, bool are_kept) const {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = k * kThreads + t;
            if (!is_filled<kFull>(k)) break;
            const Code code = shared.codes[i];
            const Value value = shared.values[kHasValues<Value> ? i : 0];
            const u32 digit = are_kept ? shared.digits[i] : digits.digit(code, value);
            const Offset out = shared.moves[digit] + i;
            codes_out[out] = code;
            if constexpr (kHasValues<Value>) values_out[out] = value;
        }
    }

    template <bool kFull>
    __device__ __forceinline__ void process(const void* map, u32 fine_bits, const Segment* segment) {
        Raw raws[kItems];
        load<kFull>(raws);  // all loads are issued before the first is waited for
        const Digits digits(map, segment, fine_bits, base, shared.map_words);
        if (digits.is_empty()) return;  // a segment of one code; the whole block leaves
        if (t < kMaxDigits) shared.counts[t] = 0;
        __syncthreads();  // counts are zero and the map is copied before digits are ranked
        Code codes[kItems];
        u32 slots[kItems];
        find_digits<kFull>(digits, raws, codes, slots);
        rank<kFull>(slots);
        __syncthreads();  // all ranks are claimed before the counts are scanned
        reserve();
        __syncthreads();                              // first ranks of all digits are known before codes are scattered
        const bool keep_digits = !digits.is_cheap();  // else they are computed again
        scatter<kFull>(codes, slots, keep_digits);
        __syncthreads();  // the tile is in digit order before it is written out
        store<kFull>(digits, keep_digits);
    }
};

template <class Source, class Value, class Digits, int kThreads, int kItems, int kMaxDigits, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    partition(const void* keys_in, const Value* values_in, typename Source::Code* codes_out, Value* values_out,
              const void* map, u32 fine_bits, const Segment* segments, u32 num_segments, Offset* cursors, u64 base) {
    using Tile = PartitionTile<Source, Value, Digits, kThreads, kItems, kMaxDigits>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Tile::SharedStorage& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);

    const Segment* segment = segments + (num_segments == 1 ? 0 : find_segment(segments, num_segments, blockIdx.x));
    const Offset tile_first = (blockIdx.x - segment->first_tile) * Tile::kKeys;
    if (tile_first >= segment->size) return;  // the grid is an upper bound; the whole block leaves
    const Offset left = segment->size - tile_first;
    Tile tile{keys_in,
              values_in,
              codes_out,
              values_out,
              cursors + segment->table,
              base,
              segment->start + tile_first,
              int(min(left, Offset(Tile::kKeys))),
              shared,
              int(threadIdx.x)};
    if (left >= Tile::kKeys) tile.template process<true>(map, fine_bits, segment);
    else tile.template process<false>(map, fine_bits, segment);
}

// A whole array by its coarse digits (at most kRadix), stable: one-to-one codes and values. Tiles take their numbers from
// a ticket, so that every tile that a block waits for has begun.
template <class Source, class Value, class Digits, int kThreads, int kItems, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    partition_stable(const void* keys_in, const Value* values_in, typename Source::Code* codes_out, Value* values_out,
                     Offset n, const void* map, u32 fine_bits, const Offset* starts, u32* status, u32* tickets) {
    using Code = typename Source::Code;
    using Tile = OnesweepTile<Code, Value, Digits, u32, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Tile::SharedStorage& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    const Digits digits(map, nullptr, fine_bits, 0, shared.map_words);
    if (threadIdx.x == 0) shared.ticket = atomicAdd(tickets, 1u);
    __syncthreads();  // the ticket is drawn and the map is copied before the tile is read
    const Tile tile{{keys_in, values_in, codes_out, values_out, n}, digits, {status}, shared.ticket, shared};
    tile.template process<Source, Codes<Code>>(starts);
}

}  // namespace gpusort
