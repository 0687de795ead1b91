// What an element of a sort is: how it enters the first pass, and how it leaves the last.
//
//   Keys       key            -> code                     -> key                  keys alone
//   Widened    key            -> code, 32 bits            -> key                  rows of 8- and 16-bit keys
//   Packed     key, position  -> code << 32 | position    -> position (and key)   argsort and pairs, keys to 32 bits
//   TiedKeys   key            -> canonical code           -> key                  64-bit keys; positions are values
//   Codes      code           -> code                                             between the passes
//
// A source has `Raw`, `Code`, `encode(key, position)` and `load(keys, i, origin)`; positions count from `origin`. A
// sink has `store(keys_out, positions_out, i, code, value)`; a null array is not written.
#pragma once
#include "order.cuh"
#include "scan.cuh"

namespace gpusort {

// Stands for the type of the values when keys travel alone.
struct NoPayload {};

template <class Value>
constexpr bool kHasPayload = true;
template <>
constexpr bool kHasPayload<NoPayload> = false;

constexpr int kPositionBits = 32;

// A value of 16 bytes, which one access moves.
struct alignas(16) u128 {
    u64 words[2];
};

template <class Order>
struct Keys {
    using Code = typename Order::Code;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset) { return Order::encode(key); }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset) {
        return Order::encode(static_cast<const Raw*>(keys)[i]);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void*, Offset i, Code code, Value) {
        static_cast<Raw*>(keys_out)[i] = Order::decode(code);
    }
};

// 8- and 16-bit keys as 32-bit codes: rows of them are sorted by the kernels of wider keys.
template <class Order>
struct Widened {
    using Code = u32;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset) { return Order::encode(key); }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset) {
        return Order::encode(static_cast<const Raw*>(keys)[i]);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void*, Offset i, Code code, Value) {
        static_cast<Raw*>(keys_out)[i] = Order::decode(Raw(code));
    }
};

// Distinct composites: the position breaks ties, so no pass needs to be stable.
template <class Order, class Position>
struct Packed {
    using Code = u64;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset position) {
        return u64(Order::canonical(Order::encode(key))) << kPositionBits | u32(position);
    }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset origin) {
        return encode(static_cast<const Raw*>(keys)[i], i - origin);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void* positions_out, Offset i, Code code, Value) {
        if (keys_out) static_cast<Raw*>(keys_out)[i] = Order::decode(Raw(code >> kPositionBits));
        if (positions_out) static_cast<Position*>(positions_out)[i] = Position(u32(code));
    }
};

template <class Order, class Position>
struct TiedKeys {
    using Code = typename Order::Code;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset) { return Order::canonical(Order::encode(key)); }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset) {
        return encode(static_cast<const Raw*>(keys)[i], i);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void* positions_out, Offset i, Code code,
                                                 Value value) {
        if (keys_out) static_cast<Raw*>(keys_out)[i] = Order::decode(code);
        if (positions_out) static_cast<Position*>(positions_out)[i] = Position(value);
    }
};

template <class Code_>
struct Codes {
    using Code = Code_;
    using Raw = Code_;

    static __device__ __forceinline__ Code encode(Raw code, Offset) { return code; }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset) {
        return static_cast<const Code*>(keys)[i];
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* codes_out, void* values_out, Offset i, Code code, Value value) {
        static_cast<Code*>(codes_out)[i] = code;
        if constexpr (kHasPayload<Value>) static_cast<Value*>(values_out)[i] = value;
    }
};

// The payload of element i: what travels with it, or its position when nothing does yet.
template <class Value>
__device__ __forceinline__ Value load_payload(const Value* values, Offset i, Offset origin) {
    if constexpr (!kHasPayload<Value>) {
        return Value{};
    } else {
        if constexpr (sizeof(Value) > sizeof(Offset)) return values[i];  // no position is so wide
        else return values ? values[i] : Value(i - origin);
    }
}

}  // namespace gpusort
