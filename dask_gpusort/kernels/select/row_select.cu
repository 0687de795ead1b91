// Keys at wanted ranks of each row or column of a matrix, and the number of NaN.
//
//   select_in_warps     short rows       a warp a row, codes in registers
//   select_columns      short columns    a block a tile of neighbouring columns in shared memory, a warp a column
//   select_in_blocks    longer rows      a block a row, codes in registers
//   select_long_rows    longer yet       a block a row, which is read several times
//
// ranks (rows, num_ranks), keys_out (rows, num_ranks) and nans (rows) belong to columns in select_columns.
#include "select/long_row.cuh"

namespace gpusort {

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
