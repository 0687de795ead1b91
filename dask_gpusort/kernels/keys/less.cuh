// Comparisons that the comparison sorts call as `Less::less(a, b)`, and the keys they compare.
//
//   NaturalLess        a < b                          unsigned codes, and keys of several words
//   CanonicalLess      codes of keys that compare equal (signed zeros, NaNs) are equal
//   UserLess           an expression in `a` and `b`: the loader defines it in front of the source
#pragma once
#include "keys/elements.cuh"

namespace gpusort {

// A key of several words, the most significant first.
template <int kWords>
struct Words {
    u64 word[kWords];

    __device__ __forceinline__ bool operator<(const Words& other) const {
#pragma unroll
        for (int w = 0; w < kWords - 1; ++w) {
            if (word[w] != other.word[w]) return word[w] < other.word[w];
        }
        return word[kWords - 1] < other.word[kWords - 1];
    }
};

// A complex key, as users' expressions see it.
template <class Part>
struct alignas(2 * sizeof(Part)) Complex {
    Part re, im;

    __device__ __forceinline__ Part real() const { return re; }
    __device__ __forceinline__ Part imag() const { return im; }
};

struct NaturalLess {
    template <class Key>
    static __device__ __forceinline__ bool less(const Key& a, const Key& b) {
        return a < b;
    }
};

template <class Order>
struct CanonicalLess {
    using Code = typename Order::Code;

    static __device__ __forceinline__ bool less(Code a, Code b) { return Order::canonical(a) < Order::canonical(b); }
};

// Source and sink of keys that are compared as they are.
template <class Key, class Position>
struct Plain {
    using Code = Key;
    using Raw = Key;

    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset) {
        return static_cast<const Key*>(keys)[i];
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void* positions_out, Offset i, const Key& key,
                                                 Value value) {
        if (keys_out) static_cast<Key*>(keys_out)[i] = key;
        if constexpr (kHasValues<Value>) {
            if (positions_out) static_cast<Position*>(positions_out)[i] = Position(value);
        }
    }
};

}  // namespace gpusort
