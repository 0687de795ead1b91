// Elements of a sort: sources encode a key before the first pass, sinks decode it after the last one.
//
//   Keys            key           -> code                          -> key                   keys alone
//   Narrowed        64-bit key    -> code - base (32 bits)         -> key                   codes within 2^32
//   Widened         key           -> code (32 bits)                -> key                   rows of 8- and 16-bit keys
//   Packed          key, position -> code << 32 | position         -> position (and key)    argsort, keys to 32 bits
//   PackedNarrowed  key, position -> code - base << 32 | position  -> position (and key)    argsort, codes within 2^32
//   TiedKeys        key           -> canonical code                -> key                   positions travel as values
//   Gathered                         code, position                -> key, value            early values, gathered last
//   Codes           code          -> code                                                   between the passes
//
// A source has `Raw`, `Code`, `encode(key, position, base)` and `load(keys, i, origin, base)`: positions count from
// `origin`, narrow codes from `base`. A sink has `store(keys_out, positions_out, i, code, value, base)`; it does not
// write to null arrays.
//
// Codes are normalized keys: Graefe, "Implementing Sorting in Database Systems" (ACM Computing Surveys 38, 2006).
#pragma once
#include "keys/order.cuh"

namespace gpusort {

constexpr int kPositionBits = 32;

// A value of 16 bytes, which one memory access moves.
struct alignas(16) u128 {
    u64 words[2];
};

template <class Order, class Code_ = typename Order::Code>
struct Keys {
    using Code = Code_;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset, u64 = 0) { return Order::encode(key); }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset, u64 = 0) {
        return Order::encode(static_cast<const Raw*>(keys)[i]);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void*, Offset i, Code code, Value, u64 = 0) {
        static_cast<Raw*>(keys_out)[i] = Order::decode(Raw(code));
    }
};

// 8- and 16-bit keys as 32-bit codes, so that the kernels for 32-bit keys sort their rows.
template <class Order>
using Widened = Keys<Order, u32>;

// The base is at most the least code, and every code is less than base + 2^32.
template <class Order>
struct Narrowed {
    using Code = u32;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset, u64 base) { return Code(Order::encode(key) - base); }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void*, Offset i, Code code, Value, u64 base) {
        static_cast<Raw*>(keys_out)[i] = Order::decode(base + code);
    }
};

template <class Order, class Position>
struct PackedNarrowed {
    using Code = u64;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset position, u64 base) {
        return (Order::encode(key) - base) << kPositionBits | u32(position);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void* positions_out, Offset i, Code code, Value,
                                                 u64 base) {
        if (keys_out) static_cast<Raw*>(keys_out)[i] = Order::decode(base + (code >> kPositionBits));
        if (positions_out) static_cast<Position*>(positions_out)[i] = Position(u32(code));
    }
};

// The position breaks ties: all codes are distinct, and no pass needs to be stable.
template <class Order, class Position>
struct Packed {
    using Code = u64;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset position, u64 = 0) {
        return u64(Order::canonical(Order::encode(key))) << kPositionBits | u32(position);
    }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset origin, u64 = 0) {
        return encode(static_cast<const Raw*>(keys)[i], i - origin);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void* positions_out, Offset i, Code code, Value,
                                                 u64 = 0) {
        if (keys_out) static_cast<Raw*>(keys_out)[i] = Order::decode(Raw(code >> kPositionBits));
        if (positions_out) static_cast<Position*>(positions_out)[i] = Position(u32(code));
    }
};

template <class Order, class Position>
struct TiedKeys {
    using Code = typename Order::Code;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset, u64 = 0) {
        return Order::canonical(Order::encode(key));
    }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset, u64 = 0) {
        return encode(static_cast<const Raw*>(keys)[i], i);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void* positions_out, Offset i, Code code, Value value,
                                                 u64 = 0) {
        if (keys_out) static_cast<Raw*>(keys_out)[i] = Order::decode(code);
        if (positions_out) static_cast<Position*>(positions_out)[i] = Position(value);
    }
};

// Addresses of the values to gather from, and of the outputs.
struct Moves {
    u64 from;
    u64 to;
};

// A sink alone: stores a key, and gathers the value at its position. The position is the payload of the code, or, if
// there is no payload, the code's low word.
template <class Order, class Value>
struct Gathered {
    using Raw = typename Order::Raw;

    template <class Code, class Position>
    static __device__ __forceinline__ void store(void* keys_out, void* moves_in, Offset i, Code code, Position payload,
                                                 u64 = 0) {
        const Moves* moves = static_cast<const Moves*>(moves_in);
        const Value* from = reinterpret_cast<const Value*>(__ldg(&moves->from));
        Value* to = reinterpret_cast<Value*>(__ldg(&moves->to));
        u32 position;
        if constexpr (kHasValues<Position>) {
            position = payload;
        } else {
            position = u32(code);
            code >>= kPositionBits;
        }
        static_cast<Raw*>(keys_out)[i] = Order::decode(Raw(code));
        to[i] = from[position];
    }
};

// Whether the low word of a code is a position that breaks ties of the high word.
template <class Sink>
constexpr bool kIsPacked = false;
template <class Order, class Position>
constexpr bool kIsPacked<Packed<Order, Position>> = true;
template <class Order, class Position>
constexpr bool kIsPacked<PackedNarrowed<Order, Position>> = true;
template <class Order, class Value>
constexpr bool kIsPacked<Gathered<Order, Value>> = true;

template <class Code_>
struct Codes {
    using Code = Code_;
    using Raw = Code_;

    static __device__ __forceinline__ Code encode(Raw code, Offset, u64 = 0) { return code; }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset, u64 = 0) {
        return static_cast<const Code*>(keys)[i];
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* codes_out, void* values_out, Offset i, Code code, Value value,
                                                 u64 = 0) {
        static_cast<Code*>(codes_out)[i] = code;
        if constexpr (kHasValues<Value>) static_cast<Value*>(values_out)[i] = value;
    }
};

// The value of element i; its position where `values` is null.
template <class Value>
__device__ __forceinline__ Value load_payload(const Value* values, Offset i, Offset origin) {
    if constexpr (!kHasValues<Value>) {
        return Value{};
    } else {
        if constexpr (sizeof(Value) > sizeof(Offset)) return values[i];  // never a position: too wide
        else return values ? values[i] : Value(i - origin);
    }
}

// Comparisons that the comparison sorts call as `Less::less(a, b)`, and the keys they compare.
//
//   NaturalLess        a < b                          unsigned codes, and keys of several words
//   CanonicalLess      codes of keys that compare equal (signed zeros, NaNs) are equal
//   UserLess           an expression in `a` and `b`: the loader defines it in front of the source

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
