// For some positions of a sorted array: the key there, and the range of the keys that compare equal to it.
//
//   codes      a  a  a  b  c  c  c  c  c  c  d           (n)
//   samples    a           c           c     d           every fourth position, and the last
//   least      a           c           c     d           (3, samples): the least code of the equal keys,
//   less       0           4           4     10          the number of keys that are less,
//   at most    3           10          10    11          and the number of keys that are not greater
//
// Satish, Harris and Garland (IPDPS 2009, section 5.2): regular samples bound the number of keys between them.
#include "keys/order.cuh"

namespace gpusort {

constexpr int kRankThreads = 128;     // few: some thousand samples spread over many multiprocessors, to hide latency
constexpr int kThreadsPerSample = 2;  // one searches before the sample, one after it

// Number of keys before (kRight: after) a position that equal its key; `most` keys are there. Steps double until a key
// differs, then halve. Most keys have no equal neighbour, and so read one key.
template <class Order, bool kRight>
__device__ __forceinline__ Offset count_equal(const typename Order::Code* codes, Offset position, Offset most) {
    const auto least = Order::canonical(codes[position]);
    const auto equal_at = [&](Offset distance) {
        return distance <= most && Order::canonical(codes[kRight ? position + distance : position - distance]) == least;
    };
    Offset equal = 0, step = 1;
    for (; equal_at(equal + step); step *= 2) equal += step;
    for (step /= 2; step > 0; step /= 2)
        if (equal_at(equal + step)) equal += step;
    return equal;
}

// Null `positions` select every `distance`-th key and the last one. summary (3, num_samples): least, less, at most.
template <class Order>
__global__ void __launch_bounds__(kRankThreads)
    find_equal_ranges(const typename Order::Code* codes, Offset n, const long long* positions, Offset distance,
                      u64* summary, Offset num_samples) {
    const Offset thread = Offset(blockIdx.x) * kRankThreads + threadIdx.x;
    const Offset sample = thread / kThreadsPerSample;
    if (sample >= num_samples) return;
    const Offset regular = sample * distance < n ? sample * distance : n - 1;
    const Offset position = positions ? Offset(positions[sample]) : regular;
    if (thread % kThreadsPerSample) {
        summary[2 * num_samples + sample] = position + 1 + count_equal<Order, true>(codes, position, n - 1 - position);
    } else {
        summary[sample] = Order::canonical(codes[position]);
        summary[num_samples + sample] = position - count_equal<Order, false>(codes, position, position);
    }
}

}  // namespace gpusort
