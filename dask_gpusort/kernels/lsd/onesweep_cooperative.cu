// The whole least-significant-digit sort of a small array in one launch.
//
// All blocks are resident (a cooperative launch) and meet between the passes; tiles are dealt out in turn, so that every
// tile a block waits for has begun. Passes whose digit all keys share are left out, which every block finds alike.
//
//   count  |meet|  scan  pass 0  |meet|  pass 1  |meet|  ...  last pass
//
//   keys_in -> codes[...] -> ... -> codes[0] -> keys_out         codes[1] may be keys_out
#include "lsd/onesweep_tile.cuh"

namespace gpusort {

// Waits until all blocks of the grid have come here as often as this one. The first fence makes this block's writes
// visible before it counts as arrived; the second keeps it from reading what the multiprocessor holds from before.
__device__ __forceinline__ void meet(u32* arrivals, u32& meetings) {
    __syncthreads();  // the whole block has come
    ++meetings;
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrivals, 1u);
        while (*(volatile u32*)arrivals < meetings * gridDim.x) {
        }
        __threadfence();
    }
    __syncthreads();  // all blocks have
}

// counts (passes, 256), status (passes, tiles, 256) and arrivals (1) are zero.
template <class Source, class Sink, class Value, int kThreads, int kItems, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    onesweep_cooperative(const void* keys_in, void* codes0, void* codes1, Value* values0, Value* values1,
                         void* keys_out, void* positions_out, u32 n, u32* counts, u32* status, u32* arrivals) {
    using Code = typename Source::Code;
    using Between = Codes<Code>;
    using Digits = ByteDigits<Code>;
    using Tile = OnesweepTile<Code, Value, Digits, u32, kThreads, kItems>;
    using Counter = DigitCounter<Code>;
    using Scan = LeanScan<u32, kThreads>;
    constexpr int kPasses = sizeof(Code);
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Tile::SharedStorage& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    typename Counter::SharedStorage& shared_counts = *reinterpret_cast<typename Counter::SharedStorage*>(shared_bytes);
    __shared__ typename Scan::SharedStorage shared_scan;
    __shared__ u32 starts[kPasses][kRadix];
    const u32 t = threadIdx.x, tiles = (n + Tile::kTile - 1) / Tile::kTile;
    u32 meetings = 0;

    Counter::clear(shared_counts);
    __syncthreads();  // counts are zero before digits are counted
    Counter::template count<Source>(keys_in, n, shared_counts);
    __syncthreads();  // the block's digits are counted before its counts are added
    Counter::flush(shared_counts, counts);
    meet(arrivals, meetings);

    u32 wanted = 0;  // passes, a bit each
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
        const u32 count = t < kRadix ? __ldcg(&counts[pass * kRadix + t]) : 0;
        if (__syncthreads_or(count > 0 && count < n)) wanted |= 1u << pass;
        const u32 start = Scan::exclusive(count, shared_scan);
        if (t < kRadix) starts[pass][t] = start;
    }
    // The first pass and the last are never the same one.
    if (__popc(wanted) < 2) wanted |= wanted & 1 ? 2 : 1;
    if (__popc(wanted) < 2) wanted |= 2;
    __syncthreads();  // all starts are there before the first pass

    void* codes[2] = {codes0, codes1};
    Value* values[2] = {values0, values1};
    bool first = true;
    while (wanted) {
        const int pass = __ffs(wanted) - 1;
        wanted &= wanted - 1;
        const u32 slot = __popc(wanted) & 1;  // of what this pass reads, if it is not the first
        u32* own_status = status + Offset(pass) * tiles * kRadix;
        const Digits digits{pass * kDigitBits};
        for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            if (first) {
                Tile::template pass<Source, Between>(keys_in, nullptr, codes[1 - slot], values[1 - slot], n, digits,
                                                     starts[pass], own_status, tile, shared);
            } else if (wanted) {
                Tile::template pass<Between, Between>(codes[slot], values[slot], codes[1 - slot], values[1 - slot], n,
                                                      digits, starts[pass], own_status, tile, shared);
            } else {
                Tile::template pass<Between, Sink>(codes[slot], values[slot], keys_out, positions_out, n, digits,
                                                   starts[pass], own_status, tile, shared);
            }
            __syncthreads();  // the tile is written out before the next one takes its place
        }
        first = false;
        if (wanted) meet(arrivals, meetings);
    }
}

}  // namespace gpusort
