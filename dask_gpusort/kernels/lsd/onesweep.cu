// Onesweep (Adinets and Merrill, arXiv 2206.01784, 2022): the histograms of all digits, their scans, and one pass over
// a digit.
//
//   keys (n)  --count_digits-->  counts (passes, 256)  --scan_digits-->  starts (passes, 256)
//   keys_in (n), starts[pass]  --onesweep-->  keys_out (n), in the order of the digit
#include "lsd/onesweep_tile.cuh"

namespace gpusort {

// counts (passes, 256): keys of each digit, for all passes; zero at first.
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

// One block of 256 threads for each pass: the first rank of each digit. trivial[pass] becomes 1 if all keys share a
// digit.
template <class Count>
__global__ void __launch_bounds__(kRadix) scan_digits(const u64* counts, Offset n, Count* starts, u64* trivial) {
    using Scan = BlockScan<Count, kRadix>;
    __shared__ typename Scan::SharedStorage shared;
    const u64 count = counts[blockIdx.x * kRadix + threadIdx.x];
    starts[blockIdx.x * kRadix + threadIdx.x] = Scan::exclusive(Count(count), shared);
    if (count == n) trivial[blockIdx.x] = 1;
}

// One pass; status (tiles, 256) and the ticket counter are zero at first. A block draws its tile from the counter: all
// earlier tiles have then begun, so that look-back ends.
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
    const Digits digits{shift};
    const Tile tile{{keys_in, values_in, keys_out, values_out, n}, digits, {status}, shared.ticket, shared};
    tile.template process<Source, Sink>(starts);
}

}  // namespace gpusort
