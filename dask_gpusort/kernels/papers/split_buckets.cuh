// Satish, Harris and Garland (IPDPS 2009), section 4.2, step 2: the buckets of a tile that is sorted by one digit. A
// bucket begins where the digit differs from the one before, and ends where it differs from the one after.
//
//   digits   0 0 0 2 2 5          begin[2] = 3, end[2] = 5; digits that do not occur have begin = end = 0
#pragma once

namespace gpusort {

template <int kRadixBits, class Key>
__device__ __forceinline__ int digit_of(Key key, int shift) {
    return int(key >> shift) & ((1 << kRadixBits) - 1);
}

template <int kRadixBits>
struct Buckets {
    static constexpr int kRadix = 1 << kRadixBits;
    int begin[kRadix];
    int end[kRadix];

    // Calls visit(digit) for this thread's share of all digits: a block may have fewer threads than digits.
    template <int kThreads, class Visit>
    static __device__ __forceinline__ void for_each_digit(Visit visit) {
        for (int digit = threadIdx.x; digit < kRadix; digit += kThreads) visit(digit);
    }

    // Makes every bucket empty. The caller puts a barrier between this and `find`.
    template <int kThreads>
    __device__ __forceinline__ void clear() {
        for_each_digit<kThreads>([&](int digit) { begin[digit] = end[digit] = 0; });
    }

    // Finds the buckets of `valid` sorted keys in shared memory. The caller puts a barrier after it.
    template <int kThreads, class Key>
    __device__ __forceinline__ void find(const Key* sorted, int valid, int shift) {
        for (int i = threadIdx.x; i < valid; i += kThreads) {
            const int digit = digit_of<kRadixBits>(sorted[i], shift);
            if (i == 0 || digit_of<kRadixBits>(sorted[i - 1], shift) != digit) begin[digit] = i;
            if (i == valid - 1 || digit_of<kRadixBits>(sorted[i + 1], shift) != digit) end[digit] = i + 1;
        }
    }
};

}  // namespace gpusort
