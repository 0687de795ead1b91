// Satish, Harris and Garland (IPDPS 2009, section 5): merge sort. Tiles are sorted in shared memory, then runs are
// merged in pairs until one is left. Every level reads and writes each key once.
//
//   keys_in     | tile | tile | tile | tile | tile |         sort_tiles: one block per tile
//   level 1     |  a      b   |   a     b   |  a   |         plan: the slices of both runs that make each part
//   level 2     |      a            b       |  a   |         merge_parts: one block per part
//
// Two plans. Merge path: equal parts, found by a search on their diagonals (split_equal_runs). Samples, as in the
// paper: every kSampleKeys-th key of both runs is ranked in the other run (cut_at_samples); between two neighbouring
// samples of the merged run are at most kSampleKeys keys of each run (plan_between_cuts).
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

// A pair of equal runs whose parts are cut at samples, and the pair's cuts among those of all pairs.
template <class Code, class Value, int kSampleKeys>
struct SampledPair {
    Offset first_cut;
    Pair pair;

    __device__ __forceinline__ SampledPair(const Code* codes, const Value* values, Offset n, Offset width, Offset cut) {
        const Offset cuts_of_pair = 2 * (width / kSampleKeys);
        first_cut = cut / cuts_of_pair * cuts_of_pair;
        pair = pair_of_runs(codes, values, n, width, cut / cuts_of_pair, first_cut);
    }
    // Number of samples among the first `keys` keys of a run.
    static __device__ __forceinline__ Offset count_samples(Offset keys) {
        return (keys + kSampleKeys - 1) / kSampleKeys;
    }
    __device__ __forceinline__ const Code* a() const { return static_cast<const Code*>(pair.keys_a); }
    __device__ __forceinline__ const Code* b() const { return static_cast<const Code*>(pair.keys_b); }
};

// One thread per sample, at key s * kSampleKeys of its run. Its number among the pair's cuts is the number of samples
// of both runs before it. `cuts` (2, num_cuts), zeroed, gets the keys of runs a and b before each cut.
template <class Code, class Less, int kSampleKeys>
__global__ void __launch_bounds__(kPlanThreads)
    cut_at_samples(const Code* codes, Offset n, Offset width, Offset* cuts, Offset num_cuts) {
    const Offset thread = Offset(blockIdx.x) * kPlanThreads + threadIdx.x;
    if (thread >= num_cuts) return;
    using Sampled = SampledPair<Code, NoValue, kSampleKeys>;
    const Sampled runs(codes, nullptr, n, width, thread);
    const Offset a_size = runs.pair.a_size, b_size = runs.pair.b_size;
    const Offset a_samples = Sampled::count_samples(a_size);
    const bool of_a = thread - runs.first_cut < a_samples;
    const Offset sample = thread - runs.first_cut - (of_a ? 0 : a_samples), own = sample * kSampleKeys;
    if (own >= (of_a ? a_size : b_size)) return;
    const Code key = of_a ? runs.a()[own] : runs.b()[own];
    // Equal keys of run a come before those of run b.
    const Offset rank =
        of_a ? partition_point(Offset(0), b_size, [&](Offset i) { return Less::less(runs.b()[i], key); })
             : partition_point(Offset(0), a_size, [&](Offset i) { return !Less::less(key, runs.a()[i]); });
    const Offset cut = runs.first_cut + sample + Sampled::count_samples(rank);
    cuts[cut] = of_a ? own : rank;
    cuts[num_cuts + cut] = of_a ? rank : own;
}

// One thread per part: from its cut to the next one. For a comparison that is no order, parts may overlap or leave
// gaps, but stay in their runs.
template <class Code, class Value, int kSampleKeys>
__global__ void __launch_bounds__(kPlanThreads)
    plan_between_cuts(const Code* codes, const Value* values, Offset n, Offset width, const Offset* cuts, Part* parts,
                      Offset num_cuts) {
    const Offset cut = Offset(blockIdx.x) * kPlanThreads + threadIdx.x;
    if (cut >= num_cuts) return;
    using Sampled = SampledPair<Code, Value, kSampleKeys>;
    const Sampled runs(codes, values, n, width, cut);
    const Offset a_size = runs.pair.a_size, b_size = runs.pair.b_size;
    const Offset samples = Sampled::count_samples(a_size) + Sampled::count_samples(b_size);
    const bool last = cut - runs.first_cut + 1 >= samples;
    const Offset a = min(cuts[cut], a_size), b = min(cuts[num_cuts + cut], b_size);
    const Offset a_end = last ? a_size : min(cuts[cut + 1], a_size);
    const Offset b_end = last ? b_size : min(cuts[num_cuts + cut + 1], b_size);
    const Offset most = cut - runs.first_cut < samples ? kSampleKeys : 0;  // cuts past the last sample are empty parts
    const Offset a_count = a_end > a ? a_end - a : 0, b_count = b_end > b ? b_end - b : 0;
    parts[cut] = make_part<Code, Value>(runs.pair, a, b, min(a_count, most), min(b_count, most));
}

}  // namespace gpusort
