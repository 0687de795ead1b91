// Merge sort. Tiles are sorted in shared memory, then runs are merged in pairs until one is left. Every level reads and writes each key once.
//
//   keys_in     | tile | tile | tile | tile | tile |         sort_tiles: one block per tile
//   level 1     |  a      b   |   a     b   |  a   |         plan: the slices of both runs that make each part
//   level 2     |      a            b       |  a   |         merge_parts: one block per part
//
// Parts are equal, found by a search on their diagonals (merge path).
#include "keys/elements.cuh"
#include "merge/merge_tile.cuh"
#include "primitives/basics.cuh"

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

// Merges planned parts of runs, one per block: both slices are read coalesced, merged in shared memory and written
// coalesced, so that a level of merging reads and writes every key once.
//
// Satish, Harris and Garland (IPDPS 2009, section 5): the parts merge independently, with the same parallelism at every
// level.

template <class Sink, class Code, class Value, class Less, int kThreads, int kItems, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) merge_parts(const Part* parts, void* keys_out, void* values_out) {
    using Tile = MergeTile<Code, Value, Less, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const Part part = parts[blockIdx.x];
    Tile tile(shared_bytes, int(part.a_count + part.b_count));
    tile.for_each_striped([&](int k, int i) { load_element(part, u32(i), tile.codes[k], tile.values[k]); });
    tile.put_striped();
    __syncthreads();  // both slices are there before they are searched
    tile.merge_whole(int(part.a_count));
    __syncthreads();  // both slices are read before the merged keys overwrite them
    tile.put_strip();
    __syncthreads();  // the part is complete before it is stored
    tile.template store<Sink>(keys_out, values_out, part.out);
}

// Merging listed runs in pairs; runs may differ in length, be empty, and be anywhere in memory. A round is one launch
// over all pairs (merging.py).
//
//   runs       r0 | r1 | r2 | r3 | r4        pairs (num_pairs): made on the host, which knows the sizes
//   round 1    r0 + r1 | r2 + r3 | r4
//   round 2    r0 ... r3         | r4        equal keys in the order of the runs

// The pair of a part: the last one whose first part is at most that. Pairs of no keys have no part, and the next pair
// has the same first part.
__device__ __forceinline__ Offset find_pair(const Pair* pairs, Offset num_pairs, Offset part) {
    return partition_point(Offset(1), num_pairs, [&](Offset p) { return pairs[p].first_part <= part; }) - 1;
}

template <class Code, class Value, class Less, int kPartKeys>
__global__ void __launch_bounds__(kPlanThreads)
    split_listed_runs(const Pair* pairs, Offset num_pairs, Part* parts, Offset num_parts) {
    const Offset part = part_of_thread();
    const Pair pair = pairs[find_pair(pairs, num_pairs, part)];
    plan_part<Code, Value, Less, kPartKeys>(pair, part, parts, num_parts);
}

// Comparisons, one thread per element: of two arrays element by element, and rank searches in a sorted array.

// Whether a[i] comes before b[i].
template <class Key, class Less>
__global__ void compare_elements(const Key* a, const Key* b, bool* before, Offset n) {
    const Offset i = Offset(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) before[i] = Less::less(a[i], b[i]);
}

// Number of sorted keys that come before the needle (kRight: that do not come after it).
template <class Key, class Less, bool kRight>
__global__ void search_compared(const Key* keys, Offset n, const Key* needles, long long* ranks_out,
                                Offset num_needles) {
    const Offset i = Offset(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= num_needles) return;
    const Key needle = needles[i];
    const auto is_before = [&](Offset position) {
        const Key key = keys[position];
        return kRight ? !Less::less(needle, key) : Less::less(key, needle);
    };
    ranks_out[i] = (long long)partition_point(Offset(0), n, is_before);
}

}  // namespace gpusort
