// Merge sort. Tiles are sorted in shared memory, then runs are merged in pairs until one is left. Every level reads and writes each key once.
//
//   keys_in     | tile | tile | tile | tile | tile |         sort_tiles: one block per tile
//   level 1     |  a      b   |   a     b   |  a   |         plan: the slices of both runs that make each part
//   level 2     |      a            b       |  a   |         merge_parts: one block per part
//
// Parts are equal, found by a search on their diagonals (merge path).
#include "merge/merge_parts.cuh"

namespace gpusort {

// Sorts each tile of keys_in (n) and stores its codes; the value of a key is its position.
template <class Source, class Sink, class Value, class Less, int kThreads, int kItems, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    sort_tiles(const void* keys_in, void* keys_out, void* values_out, Offset n) {
    using Tile = MergeTile<typename Source::Code, Value, Less, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const Offset first = Offset(blockIdx.x) * Tile::kKeys;
    Tile tile(shared_bytes, int(min(n - first, Offset(Tile::kKeys))));
    tile.for_each_striped([&](int k, int i) {
        tile.codes[k] = Source::load(keys_in, first + i, 0);
        if constexpr (Tile::kValues) tile.values[k] = Value(first + i);
    });
    tile.put_striped();
    __syncthreads();  // the tile is there before the threads take their strips
    tile.take_strip();
    tile.sort();
    tile.template store<Sink>(keys_out, values_out, first);
}

// Plans the parts of the merge of equal runs: runs 2p and 2p + 1, of `width` keys each but for the last.
template <class Code, class Value, class Less, int kPartKeys>
__global__ void __launch_bounds__(kPlanThreads)
    split_equal_runs(const Code* codes, const Value* values, Offset n, Offset width, Part* parts, Offset num_parts) {
    const Offset parts_of_pair = (2 * width + kPartKeys - 1) / kPartKeys;
    const Offset part = part_of_thread();
    const Offset p = part / parts_of_pair;
    const Pair pair = pair_of_runs(codes, values, n, width, p, p * parts_of_pair);
    plan_part<Code, Value, Less, kPartKeys>(pair, part, parts, num_parts);
}

}  // namespace gpusort
