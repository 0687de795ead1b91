// Most-significant-digit partition: every key to the bucket of its digit, in any order inside the bucket.
//
// After Satish, Harris and Garland (section 4): a tile is ordered by digit in shared memory and written out in that
// order, so that neighbours in memory are written together. Equal keys are equal bits (or carry their position as a
// tie-break), so two of their steps get cheaper: ranks come from returning shared-memory atomics instead of 1-bit
// splits, and a tile claims its room from one global cursor a bucket instead of a scanned column.
//
//   load      tile of kThreads x kItems codes of one segment, in registers
//   rank      counts[digit]++ gives each code its place among the tile's codes of that digit
//   reserve   scan of counts -> place in the tile; cursors[digit] += counts[digit] -> place in the output
//   scatter   codes to shared memory in digit order
//   store     shared memory to the output, runs of one digit together
//
// `partition_stable` keeps the order inside a bucket, with values of any width beside the keys: from then on the place of
// a key in the output tells ties apart as its position in the input did.
#include "primitives/block.cuh"
#include "primitives/warp_match.cuh"
#include "buckets/digits.cuh"
#include "keys/elements.cuh"
#include "msd/find_segment.cuh"
#include "lsd/onesweep_tile.cuh"

namespace gpusort {

constexpr u32 kNoDigit = 0xFFFFu;  // of a slot past the end of the tile
constexpr int kRankBits = 16;      // a tile holds at most 2^16 keys
constexpr int kHotLanes = 4;       // lanes of one digit that make ranking by ballot pay
constexpr int kProbes = 3;         // lanes asked for a digit that many others share

// Which kinds of map a kernel knows: both kinds are too many instructions to keep at hand for large inputs, where the
// host waits to learn the kind.
enum class Maps { kUniform, kByShare, kEither };

// The level-1 (high) or level-2 (low) part of the fine bucket of a code. The codes of a segment of level 2 lie in few
// intervals, which are read where they are.
template <class Domain, bool kCoarse, Maps kMaps>
struct FineDigits {
    using Code = typename Domain::Code;
    static constexpr bool kCopied = kCoarse && kMaps != Maps::kUniform;
    static constexpr int kSharedWords = kCopied ? kMapWords : kWordsPerVector;
    // In the second level the look-ups of neighbours are one access.
    static constexpr bool kIsCheap =
        Domain::kIsCheap && (kMaps == Maps::kUniform || (kMaps == Maps::kByShare && Domain::kHasValues && !kCoarse));
    FineMap<Domain> map;
    u32 fine_bits;
    bool plain;

    __device__ __forceinline__ FineDigits(const void* splitters, const Segment*, u32 fine_bits_, u64 base,
                                          u32* shared_intervals)
        : FineDigits(static_cast<const SplitterMap*>(splitters), fine_bits_, base, shared_intervals) {
        if (kCopied) copy_intervals(static_cast<const SplitterMap*>(splitters), shared_intervals);
    }
    __device__ __forceinline__ FineDigits(const SplitterMap* splitters, u32 fine_bits_, u64 base,
                                          const u32* shared_intervals)
        : map(splitters, kCopied ? shared_intervals : splitters->intervals, base),
          fine_bits(fine_bits_),
          plain(kMaps == Maps::kUniform || (kMaps == Maps::kEither && splitters->plain)) {}
    template <class Value>
    __device__ __forceinline__ u32 digit(Code code, Value) const {
        const u32 fine = plain ? map.fine_plain(code) : map.fine_by_share(code);
        return kCoarse ? fine >> fine_bits : fine & ((1u << fine_bits) - 1);
    }
    __device__ __forceinline__ bool is_cheap() const { return kIsCheap; }
    __device__ __forceinline__ bool is_empty() const { return false; }
};

// The same of codes that have a place below them.
template <class Digits>
struct OfPacked : Digits {
    using Digits::Digits;

    template <class Value>
    __device__ __forceinline__ u32 digit(u64 code, Value value) const {
        return Digits::digit(u32(code >> kPositionBits), value);
    }
};

// The same of one-to-one codes, for a tile of a stable pass: those that compare equal share a digit.
template <class Order, class Digits>
struct OfKeys : Digits {
    static constexpr bool kKept = !Digits::kIsCheap;
    using Digits::Digits;

    __device__ __forceinline__ u32 digit(typename Order::Code code) const {
        return Digits::digit(Order::canonical(code), NoValue{});
    }
    __device__ __forceinline__ u32 greatest() const { return digit(typename Order::Code(~typename Order::Code(0))); }
};

// Rank by ballot for the lanes of the warp's most frequent digit, as far as two guesses find it: the one that was most
// frequent in the last round (`hot`), and lane 0's. One lane adds for all of them; other lanes add for themselves.
template <bool kFull>
__device__ __forceinline__ u32 claim_skewed(u32* counts, u32 digit, u32& hot) {
    const u32 fresh = __shfl_sync(kWholeWarp, digit, 0);
    u32 peers = __ballot_sync(kWholeWarp, digit == hot);
    const u32 fresh_peers = __ballot_sync(kWholeWarp, digit == fresh);
    if (__popc(fresh_peers) > __popc(peers)) {
        hot = fresh;
        peers = fresh_peers;
    }
    const u32 lane = threadIdx.x % kWarpThreads;
    const u32 leader = __ffs(peers) - 1;
    u32 base = 0;
    if (lane == leader && (kFull || hot != kNoDigit)) base = atomicAdd(&counts[hot], u32(__popc(peers)));
    base = __shfl_sync(kWholeWarp, base, leader);
    if (digit == hot) return base + __popc(peers & ((1u << lane) - 1));
    return kFull || digit != kNoDigit ? atomicAdd(&counts[digit], 1u) : 0;
}

// Replaces each digit by digit << 16 | rank among the tile's keys of that digit.
template <bool kFull, int kItems>
__device__ __forceinline__ void rank_tile(u32* counts, u32 (&slots)[kItems]) {
    u32 hot;
    if (count_most_frequent<kProbes>(slots[0], hot) >= kHotLanes) {
#pragma unroll
        for (int k = 0; k < kItems; ++k) slots[k] = slots[k] << kRankBits | claim_skewed<kFull>(counts, slots[k], hot);
    } else {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 rank = kFull || slots[k] != kNoDigit ? atomicAdd(&counts[slots[k]], 1u) : 0;
            slots[k] = slots[k] << kRankBits | rank;
        }
    }
}

template <class Code, class Value, int kThreads, int kItems, int kMaxDigits, int kSharedWords>
struct PartitionStorage {
    static constexpr int kTile = kThreads * kItems;
    Code codes[kTile];
    Value values[kHasPayload<Value> ? kTile : 1];
    u16 digits[kTile];
    u32 counts[kMaxDigits];    // then the first place in the tile of each digit
    Offset moves[kMaxDigits];  // place in the output minus place in the tile
    alignas(16) u32 map_words[kSharedWords];
    typename LeanScan<u32, kThreads>::SharedStorage scan;
};

template <bool kValue_>
struct Truth {
    static constexpr bool kValue = kValue_;
};

// A tile of one segment, from element `first` of the input on. kFull: all its slots are filled, so that nothing asks.
template <bool kFull, class Source, class Value, class Digits, int kThreads, int kItems, int kMaxDigits, class Storage>
__device__ __forceinline__ void partition_tile(const void* keys_in, const Value* values_in,
                                               typename Source::Code* codes_out, Value* values_out, const void* map,
                                               u32 fine_bits, const Segment* segment, Offset first, int valid,
                                               Offset* cursors, u64 base, Storage& shared) {
    using Code = typename Source::Code;
    const int t = threadIdx.x;
    const auto is_filled = [&](int k) { return kFull || k * kThreads + t < valid; };

    // All keys are on their way before the first one is waited for.
    const typename Source::Raw* keys = static_cast<const typename Source::Raw*>(keys_in) + first + t;
    typename Source::Raw raws[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        if (is_filled(k)) raws[k] = keys[k * kThreads];
    }
    // Read, or made, where it is needed: registers for all of a thread's would be those of a block.
    const auto value_of = [&](int k) { return load_payload(values_in, first + k * kThreads + t, 0); };
    const Digits digits(map, segment, fine_bits, base, shared.map_words);
    if (digits.is_empty()) return;  // a segment of one code; the whole block leaves
    if (t < kMaxDigits) shared.counts[t] = 0;
    __syncthreads();  // counts are zero and the map is copied before digits are ranked
    Code codes[kItems];
    u32 slots[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        codes[k] = is_filled(k) ? Source::encode(raws[k], first + k * kThreads + t, base) : Code(0);
        slots[k] = is_filled(k) ? digits.digit(codes[k], value_of(k)) : kNoDigit;
    }
    rank_tile<kFull>(shared.counts, slots);
    __syncthreads();  // all ranks are claimed before the counts are scanned
    const u32 count = t < kMaxDigits ? shared.counts[t] : 0;
    Offset reserved = 0;
    if (count > 0) reserved = atomicAdd(&cursors[t], Offset(count));
    const u32 place = LeanScan<u32, kThreads>::exclusive(count, shared.scan);
    if (t < kMaxDigits) {
        shared.counts[t] = place;
        shared.moves[t] = reserved - place;
    }
    __syncthreads();                       // places of all digits are known before codes are scattered
    const bool cheap = digits.is_cheap();  // to compute the digit again costs less than to keep it
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const u32 digit = slots[k] >> kRankBits;
        if (!is_filled(k)) continue;
        const u32 at = shared.counts[digit] + (slots[k] & ((1u << kRankBits) - 1));
        shared.codes[at] = codes[k];
        if (!cheap) shared.digits[at] = u16(digit);
        if constexpr (kHasPayload<Value>) shared.values[at] = value_of(k);
    }
    __syncthreads();  // the tile is in digit order before it is written out
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + t;
        if (!is_filled(k)) break;
        const Code code = shared.codes[i];
        const Value value = shared.values[kHasPayload<Value> ? i : 0];
        const u32 digit = cheap ? digits.digit(code, value) : shared.digits[i];
        const Offset at = shared.moves[digit] + i;
        codes_out[at] = code;
        if constexpr (kHasPayload<Value>) values_out[at] = value;
    }
}

template <class Source, class Value, class Digits, int kThreads, int kItems, int kMaxDigits, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    partition(const void* keys_in, const Value* values_in, typename Source::Code* codes_out, Value* values_out,
              const void* map, u32 fine_bits, const Segment* segments, u32 num_segments, Offset* cursors, u64 base) {
    constexpr int kTile = kThreads * kItems;
    static_assert(kMaxDigits <= kThreads, "one thread scans and reserves one digit");
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    using Storage = PartitionStorage<typename Source::Code, Value, kThreads, kItems, kMaxDigits, Digits::kSharedWords>;
    Storage& shared = *reinterpret_cast<Storage*>(shared_bytes);

    const Segment* segment = segments + (num_segments == 1 ? 0 : find_segment(segments, num_segments, blockIdx.x));
    const Offset tile_first = (blockIdx.x - segment->first_tile) * kTile;
    if (tile_first >= segment->size) return;  // the grid is an upper bound; the whole block leaves
    const Offset first = segment->start + tile_first, left = segment->size - tile_first;
    const auto move = [&](auto full) {
        partition_tile<decltype(full)::kValue, Source, Value, Digits, kThreads, kItems, kMaxDigits>(
            keys_in, values_in, codes_out, values_out, map, fine_bits, segment, first, int(min(left, Offset(kTile))),
            cursors + segment->table, base, shared);
    };
    if (left >= kTile) move(Truth<true>{});
    else move(Truth<false>{});
}

// A whole array by its coarse digits (at most kRadix), stable: one-to-one codes and values. Tiles take their numbers from
// a ticket, so that every tile a block waits for has begun.
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
