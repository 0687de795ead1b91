// Ranks in a row that does not fit one block: radix select from the most significant digit, for all ranks at once.
//
//   row    ── count digits ──▶ table (prefix, digit) ── scan, find ranks ──▶ wanted prefixes, one digit longer ─┐
//    ▲                                                                                                          │
//    └──────────────────────── too many keys have a wanted prefix ──────────────────────────────────────────────┤
//   row    ── collect keys with a wanted prefix ──▶ codes in shared memory ──▶ bisection (held_codes.cuh) ◀─────┘
//
// The candidates are the keys with a wanted prefix; ranks count among them. Ranks with equal prefixes share the counters
// of their digits. The row is read twice where keys are spread, and at most once a digit where most are equal.
// Alabi, Blanchard, Gordon, Steinbach (2012); RadiK (arXiv 2501.14336).
#include "primitives/basics.cuh"
#include "select/held_codes.cuh"
#include "select/key_stream.cuh"

namespace gpusort {

constexpr int kLongRowThreads = 512;
constexpr int kLongRowBlocks = 3;         // a multiprocessor: while one block scans, the others read
constexpr u32 kMostRanks = 16;            // of one launch
constexpr u32 kFirstDigitBits = 11;       // keys of one sign share the first eight bits of floats
constexpr u32 kLaterDigitBits = 8;        // for each of the wanted prefixes
constexpr u32 kTableEntries = 4096;       // the most: kMostRanks << kLaterDigitBits
constexpr u32 kCandidateBytes = 1 << 15;  // also of the counters, which have up to 4 copies of a first digit
constexpr u32 kCounterWords = kCandidateBytes / 4;
constexpr u32 kLongRowBytes = kCandidateBytes + 4 * kTableEntries + 1024;  // of LongRow::SharedStorage, at most
constexpr u32 kNone = ~0u;

template <class Source>
struct LongRow {
    using Raw = typename Source::Raw;
    using Code = typename Source::Code;
    using Scope = BlockScope<kLongRowThreads>;
    using Scan = BlockScan<u32, kLongRowThreads>;
    using Stream = KeyStream<kLongRowThreads, Raw>;
    static constexpr u32 kMostCandidates = kCandidateBytes / sizeof(Code);
    static constexpr u32 kCodeBits = 8 * sizeof(Raw);
    using Held = HeldCodes<Code, kMostCandidates / kLongRowThreads, Scope>;

    // The entry of the table in which a rank falls.
    struct Entry {
        u32 index, start, count;
    };
    struct SharedStorage {
        union {
            u32 counters[kCounterWords];  // [entry][copy]
            Code candidates[kMostCandidates];
        };
        u32 table[kTableEntries];
        Code prefixes[kMostRanks];  // wanted, ascending
        u32 num_prefixes, num_candidates, num_collected;
        u32 ranks[kMostRanks];      // among the candidates
        u32 prefix_of[kMostRanks];  // of a rank: index
        Entry entries[kMostRanks];
        typename Scan::SharedStorage scan;
        typename Scope::SharedStorage scope;
    };
    static_assert(sizeof(SharedStorage) <= kLongRowBytes, "the host asks for this much");

    const Raw* keys;
    u32 length;
    const WantedRanks<Source>& wanted;
    SharedStorage& shared;
    u32 open_bits = kCodeBits;  // below the prefix of a code

    __device__ __forceinline__ void start(Offset row) {
        for (u32 c = threadIdx.x; c < kCounterWords; c += kLongRowThreads) shared.counters[c] = 0;
        if (threadIdx.x < wanted.num_ranks) shared.ranks[threadIdx.x] = wanted.rank(row, threadIdx.x, length);
        if (threadIdx.x > 0) return;
        shared.prefixes[0] = 0;
        shared.num_prefixes = 1;
        shared.num_candidates = length;
        shared.num_collected = 0;
    }

    // Index of the prefix of a code, kNone if it is not wanted.
    __device__ __forceinline__ u32 find_prefix(Code code) const {
        if (open_bits == kCodeBits) return 0;
        const Code prefix = code >> open_bits;
        const u32 count = shared.num_prefixes;
        const u32 p = partition_point(0u, count, [&](u32 i) { return shared.prefixes[i] < prefix; });
        return p < count && shared.prefixes[p] == prefix ? p : kNone;
    }

    // Count the next digit of all candidates; returns the number of NaN among this thread's keys.
    __device__ __forceinline__ u32 count_digits(u32 digit_bits, u32 copies) {
        const u32 shift = open_bits - digit_bits, mask = (1u << digit_bits) - 1, copy = threadIdx.x & (copies - 1);
        u32 nans = 0;
        Stream::run(keys, length, [&](const auto& loaded, bool are_there) {
            if (!are_there) return;
            for (const Raw key : loaded) {
                const Code code = Source::encode(key, 0);
                const u32 prefix = find_prefix(code);
                nans += code >= wanted.first_nan;
                if (prefix == kNone) continue;
                const u32 entry = prefix << digit_bits | (u32(code >> shift) & mask);
                atomicAdd(&shared.counters[entry * copies + copy], 1u);
            }
        });
        return nans;
    }

    // Add up the copies of each entry, and clear them.
    __device__ __forceinline__ void fill_table(u32 num_entries, u32 copies) {
        for (u32 e = threadIdx.x; e < num_entries; e += kLongRowThreads) {
            u32 sum = 0;
            for (u32 c = 0; c < copies; ++c) {
                u32& counter = shared.counters[e * copies + ((e + c) & (copies - 1))];
                sum += counter;
                counter = 0;
            }
            shared.table[e] = sum;
        }
    }

    // Find the entry of each rank. A thread searches a strip of consecutive entries.
    __device__ __forceinline__ void find_entries(u32 num_entries) {
        const u32 strip = (num_entries + kLongRowThreads - 1) / kLongRowThreads;
        const u32 first = min(threadIdx.x * strip, num_entries), end = min(first + strip, num_entries);
        u32 sum = 0;
        for (u32 e = first; e < end; ++e) sum += shared.table[e];
        const u32 start = Scan::exclusive(sum, shared.scan);
        for (u32 r = 0; r < wanted.num_ranks; ++r) {
            const u32 rank = shared.ranks[r];
            if (rank < start || rank >= start + sum) continue;
            Entry found{first, start, shared.table[first]};
            while (rank >= found.start + found.count) {
                found.start += found.count;
                found.count = shared.table[++found.index];
            }
            shared.entries[r] = found;
        }
    }

    // The first warp: entries with a rank become the wanted prefixes, and ranks count among their keys.
    __device__ __forceinline__ void keep_entries(u32 digit_bits) {
        const u32 lane = threadIdx.x;
        const bool is_rank = lane < wanted.num_ranks;
        const Entry entry = is_rank ? shared.entries[lane] : Entry{kNone, 0, 0};
        const u32 same = __match_any_sync(kWholeWarp, entry.index);
        const bool leads = is_rank && lane == u32(__ffs(same)) - 1;
        const u32 leading = leads ? entry.index : kNone;
        u32 lower = 0, before = 0;  // kept entries with lower codes, and their keys
        for (u32 other = 0; other < kMostRanks; ++other) {
            const u32 index = __shfl_sync(kWholeWarp, leading, other);
            const u32 count = __shfl_sync(kWholeWarp, entry.count, other);
            if (index >= entry.index) continue;
            ++lower;
            before += count;
        }
        const Code longer = is_rank ? shared.prefixes[entry.index >> digit_bits] << digit_bits : Code(0);
        __syncwarp();  // the prefixes are read before they are overwritten
        if (leads) shared.prefixes[lower] = longer | (entry.index & ((1u << digit_bits) - 1));
        if (is_rank) {
            shared.ranks[lane] = shared.ranks[lane] - entry.start + before;
            shared.prefix_of[lane] = lower;
        }
        const u32 candidates = warp_sum(leads ? entry.count : 0), kept = __popc(__ballot_sync(kWholeWarp, leads));
        if (lane > 0) return;
        shared.num_candidates = candidates;
        shared.num_prefixes = kept;
    }

    // Make the wanted prefixes one digit longer; returns the number of NaN among this thread's keys.
    __device__ __forceinline__ u32 lengthen_prefixes() {
        const u32 digit_bits = min(open_bits == kCodeBits ? kFirstDigitBits : kLaterDigitBits, open_bits);
        const u32 num_entries = shared.num_prefixes << digit_bits;
        const u32 copies = min(u32(kWarpThreads), 1u << (31 - __clz(kCounterWords / num_entries)));
        const u32 nans = count_digits(digit_bits, copies);
        __syncthreads();  // all candidates are counted before the counters are read
        fill_table(num_entries, copies);
        __syncthreads();  // the table is complete before it is scanned
        find_entries(num_entries);
        __syncthreads();  // every rank's entry is there before the entries are compared
        if (threadIdx.x < kWarpThreads) keep_entries(digit_bits);
        open_bits -= digit_bits;
        __syncthreads();  // prefixes and ranks are complete before the next keys are read
        return nans;
    }

    // Move all candidates to shared memory, in any order.
    __device__ __forceinline__ void collect() {
        const u32 lower_lanes = (1u << threadIdx.x % kWarpThreads) - 1;
        Stream::run(keys, length, [&](const auto& loaded, bool are_there) {
            for (const Raw key : loaded) {
                const Code code = Source::encode(key, 0);
                const bool is_candidate = are_there && find_prefix(code) != kNone;
                const u32 lanes = __ballot_sync(kWholeWarp, is_candidate);
                if (lanes == 0) continue;
                u32 first = threadIdx.x % kWarpThreads == 0 ? atomicAdd(&shared.num_collected, u32(__popc(lanes))) : 0;
                first = __shfl_sync(kWholeWarp, first, 0) + __popc(lanes & lower_lanes);
                if (is_candidate && first < kMostCandidates) shared.candidates[first] = code;
            }
        });
    }

    __device__ __forceinline__ void run(Offset row) {
        start(row);
        __syncthreads();  // ranks and prefixes are there, and counters are zero, before keys are counted
        Scope scope{shared.scope};
        const u32 nans = scope.sum(lengthen_prefixes());
        if (wanted.nans && threadIdx.x == 0) wanted.nans[row] = nans;
        while (shared.num_candidates > kMostCandidates && open_bits > 0) lengthen_prefixes();
        if (open_bits == 0) {
            const u32 r = threadIdx.x;
            if (r < wanted.num_ranks) wanted.store(row, r, shared.prefixes[shared.prefix_of[r]]);
        } else if (shared.num_candidates > 0) {
            collect();
            __syncthreads();  // all candidates are in shared memory before they are read
            select_candidates(row, scope);
        }
    }

    __device__ __forceinline__ void select_candidates(Offset row, const Scope& scope) {
        Held held{scope};
        held.load(shared.num_candidates, [&](u32 i) { return shared.candidates[i]; });
        CodeRange<Code> last = held.whole;
        for (u32 r = 0; r < wanted.num_ranks; ++r) {
            const Code code = held.select(shared.ranks[r], last);
            if (threadIdx.x == 0) wanted.store(row, r, code);
        }
    }
};

// Keys at wanted ranks of each row or column of a matrix, and the number of NaN.
//
//   select_in_warps     short rows       a warp a row, codes in registers
//   select_columns      short columns    a block a tile of neighbouring columns in shared memory, a warp a column
//   select_in_blocks    longer rows      a block a row, codes in registers
//   select_long_rows    longer yet       a block a row, which is read several times
//
// ranks (rows, num_ranks), keys_out (rows, num_ranks) and nans (rows) belong to columns in select_columns.

constexpr int kResidentThreads = 768;  // of a multiprocessor, at least: up to 80 registers a thread
constexpr int kSelectThreads = 256;    // of the kernels with a warp a row
constexpr u32 kTileColumns = 32;       // of keys up to 32 bits: a warp reads 128 bytes of a row, fewer of narrow keys
constexpr u32 kWideTileColumns = 16;   // of keys of 64 bits

template <class Source, int kItems>
__global__ void __launch_bounds__(kSelectThreads, kResidentThreads / kSelectThreads)
    select_in_warps(const typename Source::Raw* keys, Offset num_rows, u32 length, const long long* ranks,
                    u32 num_ranks, typename Source::Code first_nan, typename Source::Raw* keys_out, long long* nans) {
    const Offset row = thread_of_grid() / kWarpThreads;
    if (row >= num_rows) return;  // the whole warp leaves
    HeldCodes<typename Source::Code, kItems, WarpScope> held;
    held.load(length, [&](u32 i) { return Source::encode(keys[row * length + i], 0); });
    WantedRanks<Source>{ranks, num_ranks, first_nan, keys_out, nans}.select(row, held);
}

// Columns of a matrix (length, num_columns). Tiles have one column more than they hold, so that the keys of a column
// are in different banks.
template <class Source, int kItems>
__global__ void __launch_bounds__(kSelectThreads, kResidentThreads / kSelectThreads)
    select_columns(const typename Source::Raw* keys, Offset num_columns, u32 length, const long long* ranks,
                   u32 num_ranks, typename Source::Code first_nan, typename Source::Raw* keys_out, long long* nans) {
    using Raw = typename Source::Raw;
    constexpr u32 kColumns = sizeof(Raw) == sizeof(u64) ? kWideTileColumns : kTileColumns;
    extern __shared__ __align__(16) u32 shared_words[];
    Raw* tile = reinterpret_cast<Raw*>(shared_words);
    const Offset first = Offset(blockIdx.x) * kColumns;
    const u32 own = threadIdx.x % kColumns;
    if (first + own < num_columns) {
#pragma unroll 8
        for (u32 i = threadIdx.x / kColumns; i < length; i += kSelectThreads / kColumns)
            tile[i * (kColumns + 1) + own] = keys[i * num_columns + first + own];
    }
    __syncthreads();  // the tile is complete before its columns are read
    const WantedRanks<Source> wanted{ranks, num_ranks, first_nan, keys_out, nans};
    for (u32 c = threadIdx.x / kWarpThreads; c < kColumns && first + c < num_columns;
         c += kSelectThreads / kWarpThreads) {
        HeldCodes<typename Source::Code, kItems, WarpScope> held;
        held.load(length, [&](u32 i) { return Source::encode(tile[i * (kColumns + 1) + c], 0); });
        wanted.select(first + c, held);
    }
}

template <class Source, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, kResidentThreads / kThreads)
    select_in_blocks(const typename Source::Raw* keys, Offset, u32 length, const long long* ranks, u32 num_ranks,
                     typename Source::Code first_nan, typename Source::Raw* keys_out, long long* nans) {
    using Scope = BlockScope<kThreads>;
    __shared__ typename Scope::SharedStorage shared;
    const Offset row = blockIdx.x;
    HeldCodes<typename Source::Code, kItems, Scope> held{{shared}};
    held.load(length, [&](u32 i) { return Source::encode(keys[row * length + i], 0); });
    WantedRanks<Source>{ranks, num_ranks, first_nan, keys_out, nans}.select(row, held);
}

template <class Source>
__global__ void __launch_bounds__(kLongRowThreads, kLongRowBlocks)
    select_long_rows(const typename Source::Raw* keys, Offset, u32 length, const long long* ranks, u32 num_ranks,
                     typename Source::Code first_nan, typename Source::Raw* keys_out, long long* nans) {
    extern __shared__ __align__(16) u32 shared_words[];
    const Offset row = blockIdx.x;
    const WantedRanks<Source> wanted{ranks, num_ranks, first_nan, keys_out, nans};
    auto& shared = *reinterpret_cast<typename LongRow<Source>::SharedStorage*>(shared_words);
    LongRow<Source>{keys + row * length, length, wanted, shared}.run(row);
}

}  // namespace gpusort
