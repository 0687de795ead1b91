// The merge sort of Satish, Harris and Garland (IPDPS 2009, section 5): tiles sorted in shared memory, then runs merged
// two by two until one is left. Every level reads and writes each key once.
//
//   keys_in     | tile | tile | tile | tile | tile |         sort_tiles: one block a tile
//   level 1     |  a      b   |   a     b   |  a   |         plan: where each part of a merged pair comes from
//   level 2     |      a            b       |  a   |         merge_parts: one block a part
//
// Two ways to plan. Merge path: equal parts, found by a search on their diagonals (split_even_runs). Samples, the
// paper's: every kSampleKeys-th key of both runs is ranked in the other run; between two neighbouring samples of the
// merged order lie at most kSampleKeys keys of each run (rank_samples, close_parts).
#include "merge/merge_parts.cuh"

namespace gpusort {

// keys_in (n) to codes in tiles, each sorted; the value of a key is its position.
template <class Source, class Sink, class Value, class Less, int kThreads, int kItems, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    sort_tiles(const void* keys_in, void* keys_out, void* values_out, Offset n) {
    using Tile = MergeTile<typename Source::Code, Value, Less, kThreads, kItems>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    const Offset first = Offset(blockIdx.x) * Tile::kKeys;
    const int count = int(min(n - first, Offset(Tile::kKeys)));
    typename Source::Code codes[kItems];
    Value values[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i < count) codes[k] = Source::load(keys_in, first + i, 0);
        if constexpr (Tile::kValues) values[k] = Value(first + i);
    }
    Tile::put_striped(codes, values, count, shared);
    __syncthreads();  // the tile is there before the threads take their strips
    Tile::take(shared, codes, values);
    Tile::sort(codes, values, count, shared);
    Tile::template store<Sink>(shared, count, keys_out, values_out, first);
}

// Parts of the merge of even runs: run 2p and run 2p + 1, of `width` keys each but for the last.
template <class Code, class Value, class Less, int kPartKeys>
__global__ void __launch_bounds__(kPlanThreads)
    split_even_runs(const Code* codes, const Value* values, Offset n, Offset width, Part* parts, Offset num_parts) {
    const Offset parts_of_pair = (2 * width + kPartKeys - 1) / kPartKeys;
    const Offset part = part_of_thread();
    const Offset p = part / parts_of_pair;
    const Pair pair = even_pair(codes, values, n, width, p, p * parts_of_pair);
    plan_part<Code, Value, Less, kPartKeys>(pair, part, parts, num_parts);
}

// Cuts at the samples: sample s of a run stands at key s * kSampleKeys, and at place (own samples before it) + (other
// run's samples before it) among the cuts of its pair. `cuts` (zeroed) gets the keys of run `a` before each cut.
template <class Code, class Less, int kSampleKeys>
__global__ void __launch_bounds__(kPlanThreads)
    rank_samples(const Code* codes, Offset n, Offset width, Offset* cuts, Offset num_cuts) {
    const Offset cuts_of_pair = 2 * (width / kSampleKeys);
    const Offset thread = Offset(blockIdx.x) * kPlanThreads + threadIdx.x;
    if (thread >= num_cuts) return;
    const Offset first_cut = thread / cuts_of_pair * cuts_of_pair;
    const auto* none = static_cast<const NoValue*>(nullptr);
    const Pair pair = even_pair(codes, none, n, width, thread / cuts_of_pair, first_cut);
    const Offset a_samples = (pair.a_size + kSampleKeys - 1) / kSampleKeys;
    const bool of_a = thread - first_cut < a_samples;
    const Offset sample = thread - first_cut - (of_a ? 0 : a_samples), own = sample * kSampleKeys;
    if (own >= (of_a ? pair.a_size : pair.b_size)) return;
    const Code* a = static_cast<const Code*>(pair.keys_a);
    const Code* b = static_cast<const Code*>(pair.keys_b);
    const Offset rank =
        of_a ? count_before<Less, false>(b, pair.b_size, a[own]) : count_before<Less, true>(a, pair.a_size, b[own]);
    cuts[first_cut + sample + (rank + kSampleKeys - 1) / kSampleKeys] = of_a ? own : rank;
    cuts[num_cuts + first_cut + sample + (rank + kSampleKeys - 1) / kSampleKeys] = of_a ? rank : own;
}

// From the cuts of `a` (num_cuts) and of `b` (num_cuts) to parts; a comparison that is no order gives parts that
// overlap or leave gaps, but none outside the runs.
template <class Code, class Value, int kSampleKeys>
__global__ void __launch_bounds__(kPlanThreads)
    close_parts(const Code* codes, const Value* values, Offset n, Offset width, const Offset* cuts, Part* parts,
                Offset num_cuts) {
    const Offset cuts_of_pair = 2 * (width / kSampleKeys);
    const Offset cut = Offset(blockIdx.x) * kPlanThreads + threadIdx.x;
    if (cut >= num_cuts) return;
    const Offset first_cut = cut / cuts_of_pair * cuts_of_pair;
    const Pair pair = even_pair(codes, values, n, width, cut / cuts_of_pair, first_cut);
    const Offset samples =
        (pair.a_size + kSampleKeys - 1) / kSampleKeys + (pair.b_size + kSampleKeys - 1) / kSampleKeys;
    const bool last = cut - first_cut + 1 >= samples;
    const Offset a = min(cuts[cut], pair.a_size), b = min(cuts[num_cuts + cut], pair.b_size);
    const Offset a_end = last ? pair.a_size : min(cuts[cut + 1], pair.a_size);
    const Offset b_end = last ? pair.b_size : min(cuts[num_cuts + cut + 1], pair.b_size);
    const Offset most = cut - first_cut < samples ? kSampleKeys : 0;  // cuts past the last pair's samples are no parts
    const Offset a_count = a_end > a ? a_end - a : 0, b_count = b_end > b ? b_end - b : 0;
    parts[cut] = make_part<Code, Value>(pair, a, b, min(a_count, most), min(b_count, most));
}

}  // namespace gpusort
