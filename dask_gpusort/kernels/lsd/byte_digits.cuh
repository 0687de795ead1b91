// The digits of a least-significant-digit sort, one byte each, and the histograms of all digits in one reading of the
// keys.
#pragma once
#include "policy/sizes.cuh"
#include "keys/elements.cuh"

namespace gpusort {

template <class Code>
__device__ __forceinline__ u32 digit_of(Code code, int shift) {
    return u32(code >> shift) & (kRadix - 1);
}

// The digits of one pass; see OnesweepTile for the interface.
template <class Code>
struct ByteDigits {
    static constexpr bool kKept = false;
    static constexpr int kSharedWords = 1;
    int shift;

    __device__ __forceinline__ u32 digit(Code code) const { return digit_of(code, shift); }
    __device__ __forceinline__ u32 greatest() const { return kRadix - 1; }
};

constexpr int kCountThreads = 512;
constexpr int kCountItems = 8;  // loads in flight
constexpr int kCountTile = kCountThreads * kCountItems;

template <class Code>
struct DigitCounter {
    static constexpr int kPasses = sizeof(Code);
    // Each digit has several counters, and neighbouring lanes use different ones: atomics on one address serialize.
    static constexpr int kCopies = sizeof(Code) > 4 ? 2 : 4;

    struct SharedStorage {
        u32 counts[kPasses * kRadix * kCopies];
    };

    static __device__ __forceinline__ void clear(SharedStorage& shared) {
        for (int i = threadIdx.x; i < kPasses * kRadix * kCopies; i += blockDim.x) shared.counts[i] = 0;
    }
    static __device__ __forceinline__ void add(Code code, SharedStorage& shared) {
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
            const int counter = (pass * kRadix + digit_of(code, pass * kDigitBits)) * kCopies;
            atomicAdd(&shared.counts[counter + threadIdx.x % kCopies], 1u);
        }
    }
    // Counts every tile of the keys whose number is this block's, modulo the number of blocks.
    template <class Source>
    static __device__ __forceinline__ void count(const void* keys, Offset n, SharedStorage& shared) {
        const Offset stride = Offset(gridDim.x) * blockDim.x * kCountItems;
        for (Offset first = Offset(blockIdx.x) * blockDim.x * kCountItems; first < n; first += stride) {
            Code codes[kCountItems];
            if (first + blockDim.x * kCountItems <= n) {
#pragma unroll
                for (int k = 0; k < kCountItems; ++k) {
                    codes[k] = Source::load(keys, first + k * blockDim.x + threadIdx.x, 0);
                }
#pragma unroll
                for (int k = 0; k < kCountItems; ++k) add(codes[k], shared);
            } else {
                for (Offset i = first + threadIdx.x; i < n; i += blockDim.x) {
                    add(Source::load(keys, i, 0), shared);
                }
            }
        }
    }
    // Adds the block's counts to `counts`, shape (passes, 256).
    template <class Count>
    static __device__ __forceinline__ void flush(const SharedStorage& shared, Count* counts) {
        for (int i = threadIdx.x; i < kPasses * kRadix; i += blockDim.x) {
            u32 sum = 0;
            for (int copy = 0; copy < kCopies; ++copy) sum += shared.counts[i * kCopies + copy];
            if (sum > 0) atomicAdd(&counts[i], Count(sum));
        }
    }
};

}  // namespace gpusort
