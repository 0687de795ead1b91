// All passes of a onesweep sort of a small array in one cooperative launch.
//
// The grid is cooperative: all blocks are resident, and grid barriers separate the passes. Block b processes tiles b,
// b + gridDim.x, ..., so that all earlier tiles have begun and look-back ends. Every block finds from the counts which
// passes are needed: a digit that all keys share needs none.
//
//   count  |barrier|  scan  pass 0  |barrier|  pass 1  |barrier|  ...  last pass
//
//   keys_in -> codes[...] -> ... -> codes[0] -> keys_out         codes[1] may be keys_out
#include "lsd/onesweep_tile.cuh"

namespace gpusort {

// A barrier of all blocks of the grid. Before the first wait *arrivals is zero.
struct GridBarrier {
    u32* arrivals;
    u32 num_waits = 0;

    __device__ __forceinline__ void wait() {
        __syncthreads();  // all writes of the block are issued before it counts as arrived
        ++num_waits;
        if (threadIdx.x == 0) {
            __threadfence();  // the block's writes are visible before it counts as arrived
            atomicAdd(arrivals, 1u);
            while (*(volatile u32*)arrivals < num_waits * gridDim.x) {
            }
            __threadfence();  // no later read is served from this multiprocessor's older cache lines
        }
        __syncthreads();  // all blocks have arrived before any thread goes on
    }
};

// counts (passes, 256) and status (passes, tiles, 256) are zero at first.
template <class Source, class Sink, class Value, int kThreads, int kItems>
struct CooperativeSort {
    using Code = typename Source::Code;
    using Between = Codes<Code>;
    using Digits = ByteDigits<Code>;
    using Tile = OnesweepTile<Code, Value, Digits, u32, kThreads, kItems>;
    using Counter = DigitCounter<Code>;
    using Scan = BlockScan<u32, kThreads>;
    static constexpr int kPasses = sizeof(Code);

    struct SharedStorage {
        union {
            typename Counter::SharedStorage counter;
            typename Tile::SharedStorage tile;
        };
        typename Scan::SharedStorage scan;
        u32 starts[kPasses][kRadix];  // first rank of each digit
    };

    const void* keys_in;
    void* codes0;
    void* codes1;
    Value* values0;
    Value* values1;
    void* keys_out;
    void* positions_out;
    u32 n;
    u32 tiles;
    u32* counts;
    u32* status;
    GridBarrier barrier;
    SharedStorage& shared;

    __device__ __forceinline__ void process() {
        count_digits();
        barrier.wait();  // the counts of all blocks are added before they are scanned
        u32 passes = scan_digits();
        __syncthreads();  // all starts are written before the first pass
        for (bool first = true; passes; first = false) {
            const int pass = __ffs(passes) - 1;
            passes &= passes - 1;
            run_pass(pass, first, passes);
            if (passes) barrier.wait();  // the output of this pass is complete before the next reads it
        }
    }

private:
    __device__ __forceinline__ void count_digits() const {
        Counter::clear(shared.counter);
        __syncthreads();  // counts are zero before digits are counted
        Counter::template count<Source>(keys_in, n, shared.counter);
        __syncthreads();  // the block's digits are counted before its counts are added
        Counter::flush(shared.counter, counts);
    }

    // Writes the starts of all passes; returns the passes that are needed, one bit each, at least two: the first pass
    // and the last pass read and write different arrays.
    __device__ __forceinline__ u32 scan_digits() const {
        const u32 digit = threadIdx.x;
        u32 needed = 0;
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
            const u32 count = digit < kRadix ? __ldcg(&counts[pass * kRadix + digit]) : 0;
            if (__syncthreads_or(count > 0 && count < n)) needed |= 1u << pass;
            const u32 start = Scan::exclusive(count, shared.scan);
            if (digit < kRadix) shared.starts[pass][digit] = start;
        }
        if (__popc(needed) < 2) needed |= needed & 1 ? 2 : 1;
        if (__popc(needed) < 2) needed |= 2;
        return needed;
    }

    // `later`: the passes that follow, one bit each.
    __device__ __forceinline__ void run_pass(int pass, bool first, u32 later) const {
        const bool odd = __popc(later) & 1;
        const void* const codes_in = odd ? codes1 : codes0;
        const Value* const values_in = odd ? values1 : values0;
        void* const codes_out = odd ? codes0 : codes1;
        Value* const values_out = odd ? values0 : values1;
        for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            if (first) {
                run_tile<Source, Between>({keys_in, nullptr, codes_out, values_out, n}, pass, tile);
            } else if (later) {
                run_tile<Between, Between>({codes_in, values_in, codes_out, values_out, n}, pass, tile);
            } else {
                run_tile<Between, Sink>({codes_in, values_in, keys_out, positions_out, n}, pass, tile);
            }
            __syncthreads();  // the tile is stored before the next one overwrites shared memory
        }
    }

    template <class In, class Out>
    __device__ __forceinline__ void run_tile(const OnesweepArrays<Value>& arrays, int pass, u32 tile) const {
        const Digits digits{pass * kDigitBits};
        const Tile agent{arrays, digits, {status + Offset(pass) * tiles * kRadix}, tile, shared.tile};
        agent.template process<In, Out>(shared.starts[pass]);
    }
};

// counts (passes, 256), status (passes, tiles, 256) and arrivals (1) are zero at first.
template <class Source, class Sink, class Value, int kThreads, int kItems, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    onesweep_cooperative(const void* keys_in, void* codes0, void* codes1, Value* values0, Value* values1,
                         void* keys_out, void* positions_out, u32 n, u32* counts, u32* status, u32* arrivals) {
    using Sort = CooperativeSort<Source, Sink, Value, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Sort::SharedStorage& shared = *reinterpret_cast<typename Sort::SharedStorage*>(shared_bytes);
    const u32 tiles = (n + Sort::Tile::kTileKeys - 1) / Sort::Tile::kTileKeys;
    Sort sort{keys_in, codes0, codes1, values0, values1,    keys_out, positions_out,
              n,       tiles,  counts, status,  {arrivals}, shared};
    sort.process();
}

}  // namespace gpusort
