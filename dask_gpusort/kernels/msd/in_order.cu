// Elements whose keys are in order already: they are stored as they are, or turned if their keys descend.
#include "keys/elements.cuh"

namespace gpusort {

constexpr int kLookThreads = 256;
constexpr int kLookItems = 8;
constexpr int kLookTile = kLookThreads * kLookItems;

// Whether some code of at least two is less than its predecessor, and whether one is greater: two words, zeros before.
// Equal codes with values count as greater: turned, they would lose the order of the input.
template <class Source, class Value>
__global__ void __launch_bounds__(kLookThreads) find_steps(const void* keys, Offset n, u32* found) {
    const volatile u32* known = found;
    if (known[0] && known[1]) return;
    const Offset first = Offset(blockIdx.x) * kLookTile + threadIdx.x;
    bool falls = false, rises = false;
#pragma unroll
    for (int k = 0; k < kLookItems; ++k) {
        const Offset i = min(first + k * kLookThreads, n - 2);  // no branch, so that no load waits for another
        const auto code = Source::load(keys, i, 0), next = Source::load(keys, i + 1, 0);
        falls = falls || next < code;
        rises = rises || code < next || (kHasValues<Value> && code == next);
    }
    // Few threads write: most read that another has.
    if (falls && !known[0]) found[0] = 1;
    if (rises && !known[1]) found[1] = 1;
}

// Both ends of a pair of mirrored elements are read before either is written, since the outputs may be the keys. Keys
// that begin the memory of the positions are not wanted, and not read.
template <class Source, class Sink, class Value>
__global__ void store_in_order(const void* keys, const Value* values, void* keys_out, void* positions_out, Offset n,
                               u32 is_turned) {
    const Offset low = thread_of_grid(), high = n - 1 - low;
    if (2 * low >= n) return;
    const auto load = [&](Offset i) {
        return keys == positions_out ? Source::encode(typename Source::Raw(0), i) : Source::load(keys, i, 0);
    };
    const auto first = load(low), last = load(high);
    const Value first_value = load_payload(values, low, 0), last_value = load_payload(values, high, 0);
    Sink::store(keys_out, positions_out, is_turned ? high : low, first, first_value);
    Sink::store(keys_out, positions_out, is_turned ? low : high, last, last_value);
}

}  // namespace gpusort
