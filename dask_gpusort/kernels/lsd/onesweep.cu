// Stable least-significant-digit sort: the histogram of all digits, and a pass over one of them.
//
// Tiles take their numbers from a ticket, so that every tile a block waits for has begun.
#include "lsd/onesweep_tile.cuh"

namespace gpusort {

// counts (bytes of a code, 256): keys of each digit, for every pass at once.
template <class Source>
__global__ void __launch_bounds__(kCountThreads) count_digits(const void* keys, Offset n, u64* counts) {
    using Counter = DigitCounter<typename Source::Code>;
    __shared__ typename Counter::SharedStorage shared;
    Counter::clear(shared);
    __syncthreads();  // counts are zero before digits are counted
    Counter::template count<Source>(keys, n, shared);
    __syncthreads();  // the block's digits are counted before its counts are added
    Counter::flush(shared, counts);
}

// One block of 256 threads a pass: first output place of each digit; trivial[pass]: one digit has all keys.
template <class Count>
__global__ void __launch_bounds__(kRadix) scan_digits(const u64* counts, Offset n, Count* starts, u64* trivial) {
    using Scan = LeanScan<Count, kRadix>;
    __shared__ typename Scan::SharedStorage shared;
    const u64 count = counts[blockIdx.x * kRadix + threadIdx.x];
    starts[blockIdx.x * kRadix + threadIdx.x] = Scan::exclusive(Count(count), shared);
    if (count == n) trivial[blockIdx.x] = 1;
}

template <class Source, class Sink, class Value, class Count, int kThreads, int kItems, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    onesweep(const void* keys_in, const Value* values_in, void* keys_out, void* values_out, Offset n, int shift,
             const Count* starts, Count* status, u32* tickets) {
    using Digits = ByteDigits<typename Source::Code>;
    using Tile = OnesweepTile<typename Source::Code, Value, Digits, Count, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Tile::SharedStorage& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    if (threadIdx.x == 0) shared.ticket = atomicAdd(tickets, 1u);
    __syncthreads();  // the ticket is drawn before the tile is read
    Tile::template pass<Source, Sink>(keys_in, values_in, keys_out, values_out, n, Digits{shift}, starts, status,
                                      shared.ticket, shared);
}

}  // namespace gpusort
