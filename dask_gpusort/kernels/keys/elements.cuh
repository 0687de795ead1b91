// What an element of a sort is: how it enters the first pass, and how it leaves the last.
//
//   Keys       key            -> code                     -> key                  keys alone
//   Narrowed   key of 64 bits -> code - base, 32 bits     -> key                  keys whose codes lie so close
//   Widened    key            -> code, 32 bits            -> key                  rows of 8- and 16-bit keys
//   Packed     key, position  -> code << 32 | position    -> position (and key)   argsort and pairs, keys to 32 bits
//   TiedKeys   key            -> canonical code           -> key                  64-bit keys; positions are values
//   PackedNarrowed          as Packed, of a code less the base                    64-bit keys whose codes lie so close
//   Gathered                     a place                  -> key, value           pairs whose values lie in order of places
//   Codes      code           -> code                                             between the passes
//
// A source has `Raw`, `Code`, `encode(key, position, base)` and `load(keys, i, origin, base)`; positions count from
// `origin`, narrow codes from `base`. A sink has `store(keys_out, positions_out, i, code, value, base)`; a null array is
// not written.
#pragma once
#include "keys/order.cuh"
#include "primitives/scan.cuh"

namespace gpusort {

// Stands for the type of the values when keys travel alone.
struct NoValue {};

template <class Value>
constexpr bool kHasPayload = true;
template <>
constexpr bool kHasPayload<NoValue> = false;

constexpr int kPositionBits = 32;

// A value of 16 bytes, which one access moves.
struct alignas(16) u128 {
    u64 words[2];
};

template <class Order>
struct Keys {
    using Code = typename Order::Code;
    using Raw = typename Order::Raw;

    static __device__ __forceinline__ Code encode(Raw key, Offset, u64 = 0) { return Order::encode(key); }
    static __device__ __forceinline__ Code load(const void* keys, Offset i, Offset, u64 = 0) {
        return Order::encode(static_cast<const Raw*>(keys)[i]);
    }
    template <class Value>
    static __device__ __forceinline__ void store(void* keys_out, void*, Offset i, Code code, Value, u64 = 0) {
        static_cast<Raw*>(keys_out)[i] = Order::decode(code);
    }
};

// The base is at most the least code, and no code lies 2^32 or more above it.
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

// 8- and 16-bit keys as 32-bit codes: rows of them are sorted by the kernels of wider keys.
template <class Order>
struct Widened {
    using Code = u32;
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

// Distinct composites: the position breaks ties, so no pass needs to be stable.
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

// Addresses of values in the order of places, and of where they go.
struct Moves {
    u64 from;
    u64 to;
};

// Keys, and for their places the values that lie there: a sink alone. Codes are packed where no value is beside them.
template <class Order, class Value>
struct Gathered {
    using Raw = typename Order::Raw;

    template <class Code, class Coordinate>
    static __device__ __forceinline__ void store(void* keys_out, void* moves_in, Offset i, Code code, Coordinate beside,
                                                 u64 = 0) {
        const Moves* moves = static_cast<const Moves*>(moves_in);
        const Value* from = reinterpret_cast<const Value*>(__ldg(&moves->from));
        Value* to = reinterpret_cast<Value*>(__ldg(&moves->to));
        u32 place;
        if constexpr (kHasPayload<Coordinate>) {
            place = beside;
        } else {
            place = u32(code);
            code >>= kPositionBits;
        }
        static_cast<Raw*>(keys_out)[i] = Order::decode(Raw(code));
        to[i] = from[place];
    }
};

// Whether the low word of a code breaks ties of the high one.
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
