// Stable least-significant-digit pass in one reading of the keys, with decoupled look-back.
//
// Satish, Harris and Garland (IPDPS 2009), section 4, with their steps 2 to 4 in one kernel: a tile counts its digits,
// publishes the counts, and walks back over the tiles before it until one has published a full prefix.
//
//   status (tiles x 256)   | prefix | prefix | counts | counts | this tile
//                                       ^-------+--------+------ sum of what is found, published as this tile's prefix
//
//   load      each warp a contiguous stretch, so that (warp, round, lane) is the input order
//   rank      lanes of one digit found by ballots, one a digit bit; a counter a warp and digit
//   scatter   to shared memory in digit order, then out in runs
//
// Tiles take their numbers from a ticket, so that every tile a block waits for has begun.
#include "block.cuh"
#include "elements.cuh"

namespace gpusort {

constexpr int kDigitBits = 8;
constexpr int kRadix = 1 << kDigitBits;
constexpr int kCountThreads = 512;
constexpr int kCountItems = 16;

// counts (bytes of a code, 256): keys of each digit, for every pass at once.
template <class Source>
__global__ void __launch_bounds__(kCountThreads) count_digits(const void* keys, Offset n, u64* counts) {
    using Code = typename Source::Code;
    constexpr int kPasses = sizeof(Code);
    __shared__ u32 block_counts[kPasses][kRadix];
    for (int i = threadIdx.x; i < kPasses * kRadix; i += kCountThreads) block_counts[i / kRadix][i % kRadix] = 0;
    __syncthreads();  // counts are zero before digits are counted
    const Offset first = Offset(blockIdx.x) * (kCountThreads * kCountItems);
    for (int k = 0; k < kCountItems; ++k) {
        const Offset i = first + k * kCountThreads + threadIdx.x;
        if (i >= n) break;
        const Code code = Source::load(keys, i, 0);
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
            const u32 digit = u32(code >> (pass * kDigitBits)) & (kRadix - 1);
            // A digit that all active lanes share is counted once: same-address atomics queue.
            const u32 active = __activemask();
            const u32 leader = __ffs(active) - 1;
            if (__all_sync(active, digit == __shfl_sync(active, digit, leader))) {
                if (threadIdx.x % kWarpThreads == leader) atomicAdd(&block_counts[pass][digit], u32(__popc(active)));
            } else {
                atomicAdd(&block_counts[pass][digit], 1u);
            }
        }
    }
    __syncthreads();  // the block's digits are counted before its counts are added
    for (int i = threadIdx.x; i < kPasses * kRadix; i += kCountThreads) {
        if (block_counts[i / kRadix][i % kRadix] > 0) atomicAdd(&counts[i], u64(block_counts[i / kRadix][i % kRadix]));
    }
}

// One block of 256 threads a pass: first output place of each digit; trivial[pass]: one digit has all keys.
__global__ void __launch_bounds__(kRadix) scan_digits(const u64* counts, Offset n, Offset* starts, u64* trivial) {
    using Scan = LeanScan<Offset, kRadix>;
    __shared__ typename Scan::SharedStorage shared;
    const u64 count = counts[blockIdx.x * kRadix + threadIdx.x];
    starts[blockIdx.x * kRadix + threadIdx.x] = Scan::exclusive(count, shared);
    if (count == n) trivial[blockIdx.x] = 1;
}

// A status word: what it holds in the top two bits, a count below.
constexpr u64 kCounts = 1ull << 62;
constexpr u64 kPrefix = 1ull << 63;
constexpr u64 kCountMask = kCounts - 1;

__device__ __forceinline__ u64 read_status(const u64* word) { return *(const volatile u64*)word; }
__device__ __forceinline__ void write_status(u64* word, u64 value) { *(volatile u64*)word = value; }

// Keys of this thread's digit in all earlier tiles. One word holds flag and count, so no fence is needed.
__device__ __forceinline__ Offset look_back(u64* status, Offset tile, u32 digit, u32 count) {
    if (tile == 0) {
        write_status(&status[digit], kPrefix | count);
        return 0;
    }
    write_status(&status[tile * kRadix + digit], kCounts | count);
    Offset before = 0;
    for (Offset earlier = tile - 1;; --earlier) {
        u64 word;
        do word = read_status(&status[earlier * kRadix + digit]);
        while (word == 0);
        before += word & kCountMask;
        if (word & kPrefix) break;
    }
    write_status(&status[tile * kRadix + digit], kPrefix | (before + count));
    return before;
}

// Lanes of the warp that hold this lane's digit.
__device__ __forceinline__ u32 find_peers(u32 digit, u32 present) {
    u32 peers = present;
#pragma unroll
    for (int bit = 0; bit < kDigitBits; ++bit) {
        const bool one = digit >> bit & 1;
        const u32 ones = __ballot_sync(kWholeWarp, one);
        peers &= one ? ones : ~ones;
    }
    return peers;
}

template <class Code, class Value, int kThreads, int kItems>
struct LsdStorage {
    static constexpr int kTile = kThreads * kItems;
    static constexpr int kWarps = kThreads / kWarpThreads;
    Code codes[kTile];
    Value values[kHasPayload<Value> ? kTile : 1];
    u32 counts[kWarps][kRadix];  // of each warp; then the warp's first place in the tile
    Offset moves[kRadix];        // place in the output minus place in the tile
    typename LeanScan<u32, kThreads>::SharedStorage scan;
    u32 ticket;
};

// Stable ranks within the warp, in `ranks`; the warp's counts in shared memory.
template <class Code, int kItems>
__device__ __forceinline__ void rank_warp(const Code (&codes)[kItems], int warp_valid, int shift, u32* warp_counts,
                                          u32 (&ranks)[kItems]) {
    const int lane = threadIdx.x % kWarpThreads;
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const bool valid = k * kWarpThreads + lane < warp_valid;
        const u32 digit = valid ? u32(codes[k] >> shift) & (kRadix - 1) : 0;
        const u32 peers = find_peers(digit, __ballot_sync(kWholeWarp, valid));
        const u32 lower = __popc(peers & ((1u << lane) - 1));
        if (valid) ranks[k] = warp_counts[digit] + lower;
        __syncwarp();  // every lane has read the counter before it grows
        if (valid && lower == 0) warp_counts[digit] += __popc(peers);
        __syncwarp();  // counters have grown before the next round reads them
    }
}

template <class Source, class Sink, class Value, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    lsd_pass(const void* keys_in, const Value* values_in, void* keys_out, void* values_out, Offset n, int shift,
             const Offset* starts, u64* status, u32* tickets) {
    using Code = typename Source::Code;
    using Storage = LsdStorage<Code, Value, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    Storage& shared = *reinterpret_cast<Storage*>(shared_bytes);
    const int t = threadIdx.x, warp = t / kWarpThreads, lane = t % kWarpThreads;
    if (t == 0) shared.ticket = atomicAdd(tickets, 1u);
    for (int i = t; i < Storage::kWarps * kRadix; i += kThreads) shared.counts[i / kRadix][i % kRadix] = 0;
    __syncthreads();  // the ticket is drawn and counts are zero before the tile is read and ranked
    const Offset tile = shared.ticket, first = tile * Storage::kTile;
    const int valid = int(min(n - first, Offset(Storage::kTile)));
    const int warp_first = warp * kWarpThreads * kItems;
    Code codes[kItems];
    Value values[kItems];
    u32 ranks[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = warp_first + k * kWarpThreads + lane;
        if (i < valid) {
            codes[k] = Source::load(keys_in, first + i, 0);
            values[k] = load_payload(values_in, first + i, 0);
        }
    }
    rank_warp(codes, valid - warp_first, shift, shared.counts[warp], ranks);
    __syncthreads();  // all warps are counted before their counts are added up
    u32 count = 0;
    if (t < kRadix) {
        for (int w = 0; w < Storage::kWarps; ++w) {
            const u32 own = shared.counts[w][t];
            shared.counts[w][t] = count;
            count += own;
        }
    }
    const u32 place = LeanScan<u32, kThreads>::exclusive(t < kRadix ? count : 0, shared.scan);
    if (t < kRadix) {
        for (int w = 0; w < Storage::kWarps; ++w) shared.counts[w][t] += place;
        shared.moves[t] = starts[t] + look_back(status, tile, t, count) - place;
    }
    __syncthreads();  // places of all warps and digits are known before codes are scattered
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        if (warp_first + k * kWarpThreads + lane >= valid) continue;
        const u32 at = shared.counts[warp][u32(codes[k] >> shift) & (kRadix - 1)] + ranks[k];
        shared.codes[at] = codes[k];
        if constexpr (kHasPayload<Value>) shared.values[at] = values[k];
    }
    __syncthreads();  // the tile is in digit order before it is written out
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + t;
        if (i >= valid) break;
        const Code code = shared.codes[i];
        const Offset at = shared.moves[u32(code >> shift) & (kRadix - 1)] + i;
        Sink::store(keys_out, values_out, at, code, shared.values[kHasPayload<Value> ? i : 0]);
    }
}

}  // namespace gpusort
