// One tile of a stable pass over one digit of the codes, with decoupled look-back.
//
// Satish, Harris and Garland (IPDPS 2009), section 4, with their steps 2 to 4 in one reading of the keys (Adinets and
// Merrill, "Onesweep", 2022): a tile counts its digits, publishes the counts, and walks back over the tiles before it
// until one has published a full prefix.
//
//   status (tiles x 256)   | prefix | prefix | counts | counts | this tile
//                                       ^-------+--------+------ sum of what is found, published as this tile's prefix
//
//   load      each warp a contiguous stretch, so that (warp, round, lane) is the input order
//   rank      lanes of one digit meet in a word: each sets its bit there, and counts the lower ones
//   scatter   to shared memory in digit order, then out in runs
//
// A short tile is filled up with the greatest code: those stay behind all others, and are not written.
#pragma once
#include "primitives/block.cuh"
#include "primitives/warp_match.cuh"
#include "keys/elements.cuh"
#include "lsd/byte_digits.cuh"

namespace gpusort {

// A status word: what it holds in the top two bits, a count below. 32 bits serve fewer than 2^30 keys.
template <class Count>
constexpr Count kCounts = Count(1) << (sizeof(Count) * 8 - 2);
template <class Count>
constexpr Count kPrefix = Count(1) << (sizeof(Count) * 8 - 1);
template <class Count>
constexpr Count kCountMask = kCounts<Count> - 1;

constexpr int kLookBack = 4;  // status words that are read at a time, so that their latencies overlap

// Where the words of a digit lie. Each group of 32 begins four banks on: of keys with few bits set, most digits would
// share the first banks.
constexpr int kBankShift = 4;
constexpr int kWords = kRadix + kRadix / kWarpThreads * kBankShift;
__device__ __forceinline__ u32 word_of(u32 digit) { return digit + digit / kWarpThreads * kBankShift; }
__device__ __forceinline__ u32 digit_of_word(u32 word) {
    return word - word / (kWarpThreads + kBankShift) * kBankShift;
}

// One word holds flag and count, so no fence is needed.
template <class Count>
__device__ __forceinline__ Count read_status(const Count* word) {
    return *(const volatile Count*)word;
}
template <class Count>
__device__ __forceinline__ void write_status(Count* word, Count value) {
    *(volatile Count*)word = value;
}

// Keys of this thread's digit in all tiles before `tile`, which has published its own.
template <class Count>
__device__ __forceinline__ Count look_back(const Count* status, u32 tile, u32 digit) {
    Count before = 0;
    for (;;) {
        Count words[kLookBack];
#pragma unroll
        for (int j = 0; j < kLookBack; ++j) {
            words[j] = tile > j ? read_status(&status[Offset(tile - 1 - j) * kRadix + digit]) : kPrefix<Count>;
        }
        u32 found = 0;
#pragma unroll
        for (int j = 0; j < kLookBack; ++j) {
            if (found < j || words[j] == 0) continue;
            before += words[j] & kCountMask<Count>;
            if (words[j] & kPrefix<Count>) return before;
            ++found;
        }
        tile -= found;
    }
}

// `Digits` has `digit(code)`, below kRadix, and `greatest()`, that of the greatest code; kKept where to keep digits costs
// less than to compute them again; and kSharedWords of shared memory for what they are computed by.
template <class Code, class Value, class Digits, class Count, int kThreads, int kItems>
struct OnesweepTile {
    static constexpr int kTile = kThreads * kItems;
    static constexpr int kWarps = kThreads / kWarpThreads;
    static constexpr int kRankBits = 16;  // a tile holds at most 2^16 keys
    static constexpr u32 kRankMask = (1u << kRankBits) - 1;
    static constexpr int kHotLanes = 4;  // lanes of one digit that make a ballot pay
    static constexpr int kProbes = 2;    // lanes asked for a digit that many others share
    static constexpr Code kGreatest = Code(~Code(0));
    static_assert(kThreads >= kRadix, "one thread looks back for one digit");

    struct SharedStorage {
        union {
            alignas(16) u32 map_words[Digits::kSharedWords];  // until the digits are known
            Code codes[kTile];
        };
        Value values[kHasPayload<Value> ? kTile : 1];
        u32 peers[kWarps][kWords];   // a bit for each lane of the warp that holds the digit
        u32 counts[kWarps][kWords];  // of each warp; then the warp's first place in the tile
        Count moves[kRadix];         // place in the output minus place in the tile
        typename LeanScan<u32, kThreads>::SharedStorage scan;
        u32 ticket;
        u8 digits[Digits::kKept ? kTile : 1];
    };

    // Clears what the ranks of the calling warp are found by.
    static __device__ __forceinline__ void clear(SharedStorage& shared) {
        const int warp = threadIdx.x / kWarpThreads, lane = threadIdx.x % kWarpThreads;
        for (int i = lane; i < kWords; i += kWarpThreads) shared.peers[warp][i] = shared.counts[warp][i] = 0;
        __syncwarp();  // the words are zero before a bit is set
    }

    // The digit of code k, which its slot holds if it is kept.
    static __device__ __forceinline__ u32 digit_at(const Digits& digits, const Code (&codes)[kItems],
                                                   const u32 (&slots)[kItems], int k) {
        if constexpr (Digits::kKept) return slots[k];
        else return digits.digit(codes[k]);
    }

    // Word of the digit << 16 | stable rank within the warp; the warp's counts in shared memory. Where lanes crowd, those
    // of the digit `hot` find each other by a ballot.
    template <bool kCrowded>
    static __device__ __forceinline__ void rank(const Digits& digits, const Code (&codes)[kItems], u32 hot,
                                                u32* peers_of, u32* counts, u32 (&slots)[kItems]) {
        const u32 own = 1u << threadIdx.x % kWarpThreads;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 digit = digit_at(digits, codes, slots, k), word = word_of(digit);
            const u32 hot_peers = kCrowded ? __ballot_sync(kWholeWarp, digit == hot) : 0;
            if (!kCrowded || digit != hot) atomicOr(&peers_of[word], own);
            __syncwarp();  // all lanes of a digit are there before any looks
            const u32 peers = kCrowded && digit == hot ? hot_peers : peers_of[word], before = counts[word];
            const u32 lower = __popc(peers & (own - 1));
            slots[k] = word << kRankBits | (before + lower);
            __syncwarp();  // every lane has read both words before they change
            if (lower == 0) {
                counts[word] = before + __popc(peers);
                peers_of[word] = 0;
            }
            __syncwarp();  // the words are as the next round needs them
        }
    }

    // Moves tile `tile` of the input to its places in the output.
    template <class Source, class Sink, class Start>
    static __device__ __forceinline__ void pass(const void* keys_in, const Value* values_in, void* keys_out,
                                                void* values_out, Offset n, const Digits& digits, const Start* starts,
                                                Count* status, u32 tile, SharedStorage& shared) {
        const int t = threadIdx.x, warp = t / kWarpThreads, lane = t % kWarpThreads;
        const Offset first = Offset(tile) * kTile;
        const int valid = int(min(n - first, Offset(kTile)));
        const int warp_first = warp * kWarpThreads * kItems + lane;
        Code codes[kItems];
        u32 slots[kItems];
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = warp_first + k * kWarpThreads;
            codes[k] = i < valid ? Source::load(keys_in, first + i, 0) : kGreatest;
        }
        if constexpr (Digits::kKept) {
#pragma unroll
            for (int k = 0; k < kItems; ++k) slots[k] = digits.digit(codes[k]);
        }
        clear(shared);
        u32 hot;
        if (count_most_frequent<kProbes>(digit_at(digits, codes, slots, 0), hot) >= kHotLanes) {
            rank<true>(digits, codes, hot, shared.peers[warp], shared.counts[warp], slots);
        } else {
            rank<false>(digits, codes, hot, shared.peers[warp], shared.counts[warp], slots);
        }
        __syncthreads();  // all warps are counted before their counts are added up
        u32 count = 0;
        if (t < kRadix) {
#pragma unroll
            for (int w = 0; w < kWarps; ++w) count += shared.counts[w][word_of(t)];
        }
        const Count own = count - (t == digits.greatest() ? kTile - valid : 0);
        Count* published = status + Offset(tile) * kRadix + t;
        if (t < kRadix) write_status(published, (tile == 0 ? kPrefix<Count> : kCounts<Count>) | own);
        const u32 place = LeanScan<u32, kThreads>::exclusive(count, shared.scan);
        if (t < kRadix) {
            u32 next = place;
#pragma unroll
            for (int w = 0; w < kWarps; ++w) {
                const u32 of_warp = shared.counts[w][word_of(t)];
                shared.counts[w][word_of(t)] = next;
                next += of_warp;
            }
        }
        __syncthreads();  // places of all warps are known before codes are scattered
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 word = slots[k] >> kRankBits;
            slots[k] = shared.counts[warp][word] + (slots[k] & kRankMask);
            shared.codes[slots[k]] = codes[k];
            if constexpr (Digits::kKept) shared.digits[slots[k]] = u8(digit_of_word(word));
        }
        if constexpr (kHasPayload<Value>) {
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                const int i = warp_first + k * kWarpThreads;
                if (i < valid) shared.values[slots[k]] = load_payload(values_in, first + i, 0);
            }
        }
        // Only now: the tiles before this one have published meanwhile.
        if (t < kRadix) {
            const Count before = look_back(status, tile, t);
            if (tile > 0) write_status(published, kPrefix<Count> | Count(before + own));
            shared.moves[t] = Count(starts[t]) + before - place;
        }
        __syncthreads();  // the tile is in digit order and knows its places before it is written out
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = k * kThreads + t;
            if (i >= valid) break;
            const Code code = shared.codes[i];
            u32 digit;
            if constexpr (Digits::kKept) digit = shared.digits[i];
            else digit = digits.digit(code);
            const Count at = shared.moves[digit] + i;
            Sink::store(keys_out, values_out, at, code, shared.values[kHasPayload<Value> ? i : 0]);
        }
    }
};

}  // namespace gpusort
