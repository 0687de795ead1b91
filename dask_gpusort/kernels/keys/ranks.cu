// What a sorted array tells of keys of its own: the rank of each among all keys, keys that compare equal counted as one.
//
//   codes      a  a  a  b  c  c  c  c  c  c  d           (n)
//   samples    a           c           c     d           every fourth position, and the last
//   least      a           c           c     d           (3, samples): the least code of those equal to it,
//   less       0           4           4     10          keys that are less,
//   at most    3           10          10    11          and keys that are not greater
//
// Satish, Harris and Garland, section 5.2: regular samples bound what lies between them.
#include "keys/elements.cuh"

namespace gpusort {

constexpr int kRankThreads = 128;  // THREADS in ranks.py; two threads a sample, one for each side of it

// How far equal keys reach from a position: found by steps that double, then by steps that halve. Most keys have no
// equal one beside them, and so take one look.
template <class Order, bool kRight>
__device__ __forceinline__ Offset reach_of_equals(const typename Order::Code* codes, Offset position, Offset most) {
    const auto least = Order::canonical(codes[position]);
    const auto equal_at = [&](Offset reach) {
        return reach <= most && Order::canonical(codes[kRight ? position + reach : position - reach]) == least;
    };
    Offset reach = 0, step = 1;
    for (; equal_at(reach + step); step *= 2) reach += step;
    for (step /= 2; step > 0; step /= 2)
        if (equal_at(reach + step)) reach += step;
    return reach;
}

// `positions` may be null: every `distance`-th key then, and the last one.
template <class Order>
__global__ void __launch_bounds__(kRankThreads)
    rank_samples(const typename Order::Code* codes, Offset n, const long long* positions, Offset distance, u64* answers,
                 Offset num_samples) {
    const Offset thread = Offset(blockIdx.x) * kRankThreads + threadIdx.x;
    const Offset sample = thread / 2;
    if (sample >= num_samples) return;
    const Offset regular = sample * distance < n ? sample * distance : n - 1;
    const Offset position = positions ? Offset(positions[sample]) : regular;
    if (thread % 2) {
        answers[2 * num_samples + sample] =
            position + 1 + reach_of_equals<Order, true>(codes, position, n - 1 - position);
    } else {
        answers[sample] = Order::canonical(codes[position]);
        answers[num_samples + sample] = position - reach_of_equals<Order, false>(codes, position, position);
    }
}

}  // namespace gpusort
