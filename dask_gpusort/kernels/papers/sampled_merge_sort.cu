// Satish, Harris and Garland (IPDPS 2009, section 5): the parts of a level of merge sort, cut at samples.
//
//   run a, run b    every kSampleKeys-th key of both is ranked in the other run: cut_at_samples
//   parts           between two neighbouring samples of the merged run, which are at most kSampleKeys keys of each run:
//                   plan_between_cuts
#include "merge/merge_tile.cuh"

namespace gpusort {

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
