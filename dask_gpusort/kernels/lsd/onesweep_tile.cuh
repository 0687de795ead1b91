// The digits of a least-significant-digit sort, one byte each, and the histograms of all digits in one reading of the
// keys.
#pragma once
#include "keys/elements.cuh"
#include "policy/sizes.cuh"
#include "primitives/block.cuh"

namespace gpusort {

template <class Code>
__device__ __forceinline__ u32 digit_of(Code code, int shift) {
    return u32(code >> shift) & (kRadix - 1);
}

// The digits of one pass; see OnesweepTile for the interface.
template <class Code>
struct ByteDigits {
    static constexpr bool kKept = false;
    static constexpr int kSharedWords = 1;
    int shift;

    __device__ __forceinline__ u32 digit(Code code) const { return digit_of(code, shift); }
    __device__ __forceinline__ u32 greatest() const { return kRadix - 1; }
};

constexpr int kCountThreads = 512;
constexpr int kCountItems = 8;  // loads in flight
constexpr int kCountTile = kCountThreads * kCountItems;

template <class Code>
struct DigitCounter {
    static constexpr int kPasses = sizeof(Code);
    // Each digit has several counters, and neighbouring lanes use different ones: atomics on one address serialize.
    static constexpr int kCopies = sizeof(Code) > 4 ? 2 : 4;

    struct SharedStorage {
        u32 counts[kPasses * kRadix * kCopies];
    };

    static __device__ __forceinline__ void clear(SharedStorage& shared) {
        for (int i = threadIdx.x; i < kPasses * kRadix * kCopies; i += blockDim.x) shared.counts[i] = 0;
    }
    static __device__ __forceinline__ void add(Code code, SharedStorage& shared) {
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
            const int counter = (pass * kRadix + digit_of(code, pass * kDigitBits)) * kCopies;
            atomicAdd(&shared.counts[counter + threadIdx.x % kCopies], 1u);
        }
    }
    // Counts every tile of the keys whose number is this block's, modulo the number of blocks.
    template <class Source>
    static __device__ __forceinline__ void count(const void* keys, Offset n, SharedStorage& shared) {
        const Offset stride = Offset(gridDim.x) * blockDim.x * kCountItems;
        for (Offset first = Offset(blockIdx.x) * blockDim.x * kCountItems; first < n; first += stride) {
            Code codes[kCountItems];
            if (first + blockDim.x * kCountItems <= n) {
#pragma unroll
                for (int k = 0; k < kCountItems; ++k) {
                    codes[k] = Source::load(keys, first + k * blockDim.x + threadIdx.x, 0);
                }
#pragma unroll
                for (int k = 0; k < kCountItems; ++k) add(codes[k], shared);
            } else {
                for (Offset i = first + threadIdx.x; i < n; i += blockDim.x) {
                    add(Source::load(keys, i, 0), shared);
                }
            }
        }
    }
    // Adds the block's counts to `counts`, shape (passes, 256).
    template <class Count>
    static __device__ __forceinline__ void flush(const SharedStorage& shared, Count* counts) {
        for (int i = threadIdx.x; i < kPasses * kRadix; i += blockDim.x) {
            u32 sum = 0;
            for (int copy = 0; copy < kCopies; ++copy) sum += shared.counts[i * kCopies + copy];
            if (sum > 0) atomicAdd(&counts[i], Count(sum));
        }
    }
};

// One tile of a onesweep pass: a stable pass over one digit of the codes that reads the keys once.
//
// Adinets and Merrill ("Onesweep", arXiv 2206.01784, 2022) join steps 2 to 4 of Satish, Harris and Garland (IPDPS
// 2009, section 4) in one kernel. A tile counts its digits and publishes the counts. Decoupled look-back (Merrill and
// Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016) sums the counts of the earlier tiles: it
// reads their status words, the nearest tile first, until it reaches a tile that has published a prefix.
//
//   status (tiles, 256)    | prefix | prefix | counts | counts | this tile
//                                       ^-------+--------+------ sum; plus this tile's counts: this tile's prefix
//
//   load       each warp reads a contiguous range, so that (warp, item, lane) is the input order
//   rank       warp matching: lanes with the same digit set their bits in one word, and count the lower bits
//   publish    the tile's counts
//   scatter    codes and values to shared memory, in digit order
//   look_back  the first offset in the output of each digit of the tile
//   store      shared memory to the output; keys of one digit are contiguous
//
// A partial tile is padded with the greatest code. The padding sorts last and is not stored.

// Positions of digits in padded tables (see kBankShift).
__device__ __forceinline__ u32 padded_digit(u32 digit) { return digit + digit / kWarpThreads * kBankShift; }
__device__ __forceinline__ u32 unpadded_digit(u32 padded) {
    return padded - padded / (kWarpThreads + kBankShift) * kBankShift;
}

// The status words of a pass, shape (tiles, 256), zero at first. A word holds a flag in its top two bits and a count
// below, so that no fence is needed. 32-bit words suffice for fewer than 2^30 keys.
template <class Count>
struct TileStatus {
    static constexpr Count kCounts = Count(1) << (sizeof(Count) * 8 - 2);  // flag: the count is that of the tile
    static constexpr Count kPrefix = Count(1) << (sizeof(Count) * 8 - 1);  // flag: of the tile and all earlier tiles
    static constexpr Count kCountMask = kCounts - 1;
    static constexpr int kLookBack = 4;  // words that are read at once, so that their latencies overlap

    Count* words;

    __device__ __forceinline__ Count read(u32 tile, u32 digit) const {
        return *(const volatile Count*)&words[Offset(tile) * kRadix + digit];
    }
    __device__ __forceinline__ void publish(u32 tile, u32 digit, Count word) const {
        *(volatile Count*)(words + Offset(tile) * kRadix + digit) = word;
    }
    // Keys of a digit in all tiles before `tile`, which has published its own counts.
    __device__ __forceinline__ Count look_back(u32 tile, u32 digit) const {
        Count before = 0;
        for (;;) {
            Count found[kLookBack];
#pragma unroll
            for (int j = 0; j < kLookBack; ++j) found[j] = tile > j ? read(tile - 1 - j, digit) : kPrefix;
            u32 num_published = 0;
#pragma unroll
            for (int j = 0; j < kLookBack; ++j) {
                if (num_published < j || found[j] == 0) continue;
                before += found[j] & kCountMask;
                if (found[j] & kPrefix) return before;
                ++num_published;
            }
            tile -= num_published;
        }
    }
};

// Inputs and outputs of one pass over n keys. Without `values_in` the values are the positions in the input.
template <class Value>
struct OnesweepArrays {
    const void* keys_in;
    const Value* values_in;
    void* keys_out;
    void* values_out;
    Offset n;
};

// `Digits` has `digit(code)`, below kRadix; `greatest()`, the digit of the greatest code; `kKept`, true if storing
// digits costs less than computing them again; and `kSharedWords`, the words of shared memory that it reads.
template <class Code, class Value, class Digits, class Count, int kThreads, int kItems>
struct OnesweepTile {
    static constexpr int kTileKeys = kThreads * kItems;
    static constexpr int kWarps = kThreads / kWarpThreads;
    static constexpr int kRankBits = 16;  // a tile holds at most 2^16 keys
    static constexpr u32 kRankMask = (1u << kRankBits) - 1;
    static constexpr int kMinBallotLanes = 4;  // lanes with the same digit from which on a ballot pays
    static constexpr int kProbes = 2;          // lanes probed for the most frequent digit
    static constexpr Code kPaddingCode = Code(~Code(0));
    static_assert(kThreads >= kRadix, "one thread looks back for one digit");
    using Scan = BlockScan<u32, kThreads>;

    struct SharedStorage {
        union {
            alignas(16) u32 map_words[Digits::kSharedWords];  // until all digits are computed
            Code codes[kTileKeys];
        };
        Value values[kHasValues<Value> ? kTileKeys : 1];
        u32 matches[kWarps][kPaddedRadix];  // a bit for each lane of the warp with this digit
        u32 counts[kWarps][kPaddedRadix];   // of each warp; then the warp's first offset in the tile
        Count moves[kRadix];                // offset in the output minus offset in the tile
        typename Scan::SharedStorage scan;
        u32 ticket;
        u8 digits[Digits::kKept ? kTileKeys : 1];
    };

    OnesweepArrays<Value> arrays;
    const Digits& digits;
    TileStatus<Count> status;
    u32 tile;
    SharedStorage& shared;
    Offset first_key = Offset(tile) * kTileKeys;
    int valid = int(min(arrays.n - first_key, Offset(kTileKeys)));  // keys of the tile, padding not included

    // Moves the tile's keys and values to their ranks. `starts` (256): first rank of each digit.
    template <class Source, class Sink, class Start>
    __device__ __forceinline__ void process(const Start* starts) const {
        Code codes[kItems];
        u32 slots[kItems];
        load<Source>(codes, slots);
        clear();
        rank(codes, slots);
        __syncthreads();  // all warps have counted their digits before the counts are summed
        const u32 count = sum_counts();
        const Count own = publish(count);
        const u32 first = Scan::exclusive(count, shared.scan);
        scan_warps(first);
        __syncthreads();  // the first offsets of all warps are known before codes are scattered
        scatter_codes(codes, slots);
        scatter_values(slots);
        look_back(own, first, starts);  // as late as possible: the earlier tiles have published meanwhile
        __syncthreads();                // the tile is in digit order and its moves are known before it is stored
        store<Sink>();
    }

private:
    static __device__ __forceinline__ int warp() { return threadIdx.x / kWarpThreads; }
    static __device__ __forceinline__ bool owns_digit() { return threadIdx.x < kRadix; }

    // Offset in the tile of this thread's key k before the pass.
    static __device__ __forceinline__ int offset_in(int k) {
        return warp() * kWarpThreads * kItems + threadIdx.x % kWarpThreads + k * kWarpThreads;
    }
    // Digit of code k; a stored digit is in the code's slot.
    __device__ __forceinline__ u32 digit_at(const Code (&codes)[kItems], const u32 (&slots)[kItems], int k) const {
        if constexpr (Digits::kKept) return slots[k];
        else return digits.digit(codes[k]);
    }

    template <class Source>
    __device__ __forceinline__ void load(Code (&codes)[kItems], u32 (&slots)[kItems]) const {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = offset_in(k);
            codes[k] = i < valid ? Source::load(arrays.keys_in, first_key + i, 0) : kPaddingCode;
        }
        if constexpr (Digits::kKept) {
#pragma unroll
            for (int k = 0; k < kItems; ++k) slots[k] = digits.digit(codes[k]);
        }
    }

    // Clears the tables of this warp.
    __device__ __forceinline__ void clear() const {
        for (int i = threadIdx.x % kWarpThreads; i < kPaddedRadix; i += kWarpThreads) {
            shared.matches[warp()][i] = shared.counts[warp()][i] = 0;
        }
        __syncwarp();  // the words are zero before a bit is set
    }

    // Sets the slots to padded digit << 16 | stable rank within the warp, and counts the warp's digits.
    __device__ __forceinline__ void rank(const Code (&codes)[kItems], u32 (&slots)[kItems]) const {
        u32 frequent;
        if (count_most_frequent<kProbes>(digit_at(codes, slots, 0), frequent) >= kMinBallotLanes) {
            rank_by_matching<true>(codes, slots, frequent);
        } else {
            rank_by_matching<false>(codes, slots, frequent);
        }
    }

    // Where keys are skewed, one ballot matches the lanes with the most frequent digit: their atomics would serialize.
    template <bool kSkewed>
    __device__ __forceinline__ void rank_by_matching(const Code (&codes)[kItems], u32 (&slots)[kItems],
                                                     u32 frequent) const {
        u32* const matches = shared.matches[warp()];
        u32* const counts = shared.counts[warp()];
        const u32 own = 1u << threadIdx.x % kWarpThreads;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 digit = digit_at(codes, slots, k), padded = padded_digit(digit);
            const u32 ballot = kSkewed ? __ballot_sync(kWholeWarp, digit == frequent) : 0;
            if (!kSkewed || digit != frequent) atomicOr(&matches[padded], own);
            __syncwarp();  // all lanes have set their bits before any word is read
            const u32 lanes = kSkewed && digit == frequent ? ballot : matches[padded], before = counts[padded];
            const u32 lower = __popc(lanes & (own - 1));
            slots[k] = padded << kRankBits | (before + lower);
            __syncwarp();  // all lanes have read both words before they change
            if (lower == 0) {
                counts[padded] = before + __popc(lanes);
                matches[padded] = 0;
            }
            __syncwarp();  // both words are up to date before the next round
        }
    }

    // Keys of this thread's digit in the tile, padding included.
    __device__ __forceinline__ u32 sum_counts() const {
        u32 count = 0;
        if (owns_digit()) {
#pragma unroll
            for (int w = 0; w < kWarps; ++w) count += shared.counts[w][padded_digit(threadIdx.x)];
        }
        return count;
    }

    // Publishes and returns the keys of this thread's digit, padding not included.
    __device__ __forceinline__ Count publish(u32 count) const {
        using Status = TileStatus<Count>;
        const Count own = count - (threadIdx.x == digits.greatest() ? kTileKeys - valid : 0);
        if (owns_digit()) status.publish(tile, threadIdx.x, (tile == 0 ? Status::kPrefix : Status::kCounts) | own);
        return own;
    }

    // Replaces each warp's count of this thread's digit by the first offset in the tile of the keys counted.
    __device__ __forceinline__ void scan_warps(u32 first) const {
        if (!owns_digit()) return;
        const u32 padded = padded_digit(threadIdx.x);
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            const u32 count = shared.counts[w][padded];
            shared.counts[w][padded] = first;
            first += count;
        }
    }

    // Scatters the codes to shared memory, and sets the slots to their offsets there.
    __device__ __forceinline__ void scatter_codes(const Code (&codes)[kItems], u32 (&slots)[kItems]) const {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const u32 padded = slots[k] >> kRankBits;
            slots[k] = shared.counts[warp()][padded] + (slots[k] & kRankMask);
            shared.codes[slots[k]] = codes[k];
            if constexpr (Digits::kKept) shared.digits[slots[k]] = u8(unpadded_digit(padded));
        }
    }

    __device__ __forceinline__ void scatter_values(const u32 (&slots)[kItems]) const {
        if constexpr (kHasValues<Value>) {
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                const int i = offset_in(k);
                if (i < valid) shared.values[slots[k]] = load_payload(arrays.values_in, first_key + i, 0);
            }
        }
    }

    // Finds where the keys of this thread's digit go, and publishes the prefix.
    template <class Start>
    __device__ __forceinline__ void look_back(Count own, u32 first, const Start* starts) const {
        if (!owns_digit()) return;
        const u32 digit = threadIdx.x;
        const Count before = status.look_back(tile, digit);
        if (tile > 0) status.publish(tile, digit, TileStatus<Count>::kPrefix | Count(before + own));
        shared.moves[digit] = Count(starts[digit]) + before - first;
    }

    template <class Sink>
    __device__ __forceinline__ void store() const {
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = k * kThreads + threadIdx.x;
            if (i >= valid) break;
            const Code code = shared.codes[i];
            u32 digit;
            if constexpr (Digits::kKept) digit = shared.digits[i];
            else digit = digits.digit(code);
            const Count rank = shared.moves[digit] + i;
            Sink::store(arrays.keys_out, arrays.values_out, rank, code, shared.values[kHasValues<Value> ? i : 0]);
        }
    }
};

}  // namespace gpusort
