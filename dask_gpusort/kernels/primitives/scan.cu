// Kernels of the exclusive scan of n 64-bit counts, in place (scan.cuh). scan.py launches them.
#include "primitives/scan.cuh"

namespace gpusort {

// One block scans tile after tile and carries the sum along: Harada and Howes, section 3.2 (few counts).
template <int kThreads, int kValuesPerThread>
__global__ void __launch_bounds__(kThreads) scan_in_one_block(Offset* values, Offset n) {
    using Tile = ScanTile<kThreads, kValuesPerThread>;
    __shared__ typename Tile::Scan::SharedStorage shared;
    Offset before = 0;
    for (Offset first = 0; first < n; first += Tile::kValues) {
        before += Tile::scan(values, first, n, before, shared);
        __syncthreads();  // every total of this tile is read before the next tile overwrites it
    }
}

// tile_sums[tile] = sum of the values of one tile.
template <int kThreads, int kValuesPerThread>
__global__ void __launch_bounds__(kThreads) sum_tiles(const Offset* values, Offset n, Offset* tile_sums) {
    using Tile = ScanTile<kThreads, kValuesPerThread>;
    __shared__ typename Tile::Scan::SharedStorage shared;
    Offset strip[kValuesPerThread];
    Offset total;
    Tile::Scan::exclusive(Tile::load(values, Offset(blockIdx.x) * Tile::kValues, n, strip), shared, total);
    if (threadIdx.x == 0) tile_sums[blockIdx.x] = total;
}

// Scans each tile from the scanned sum of the earlier tiles.
template <int kThreads, int kValuesPerThread>
__global__ void __launch_bounds__(kThreads) scan_tiles(Offset* values, Offset n, const Offset* tile_offsets) {
    using Tile = ScanTile<kThreads, kValuesPerThread>;
    __shared__ typename Tile::Scan::SharedStorage shared;
    Tile::scan(values, Offset(blockIdx.x) * Tile::kValues, n, tile_offsets[blockIdx.x], shared);
}

}  // namespace gpusort
