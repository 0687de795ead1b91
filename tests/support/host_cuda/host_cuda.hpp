// Defines CUDA C++ for a host compiler: the keywords and built-in functions that the kernels use, on the fibers of
// fibers.hpp. A kernel that uses another name does not compile until the name is added here.
#pragma once
#include "fibers.hpp"

#include <cmath>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace host_cuda {

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline unsigned lane() { return worker->current % kLanes; }

template <class T>
T shuffle(unsigned mask, T value, int source, int width) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "shuffles move up to 8 bytes");
    const int segment = int(lane()) / width * width;
    if (source < segment || source >= segment + width) source = int(lane());
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = worker->warp_call(WarpOp::kShuffle, mask, bits, unsigned(source));
    memcpy(&value, &bits, sizeof(T));
    return value;
}

// Applies `combine` to *address atomically and returns the old value.
template <class T, class Combine>
T update(T* address, Combine combine) {
    worker->maybe_yield();
    T old = __atomic_load_n(address, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(address, &old, combine(old), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
}

inline void fence() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    worker->maybe_yield();
}

// Rounds `exact` down (up). `nearest` is `exact` rounded to a neighbouring float in any direction.
inline float round_down(float nearest, long double exact) {
    return nearest > exact ? std::nextafter(nearest, -INFINITY) : nearest;
}
inline float round_up(float nearest, long double exact) {
    return nearest < exact ? std::nextafter(nearest, INFINITY) : nearest;
}

}  // namespace host_cuda

#define threadIdx (host_cuda::worker->fibers[host_cuda::worker->current].thread_index)
#define blockIdx (host_cuda::worker->block_index)
#define blockDim (host_cuda::worker->block)
#define gridDim (host_cuda::worker->grid)
constexpr int warpSize = host_cuda::kLanes;

inline void __syncthreads() { host_cuda::worker->wait_for_block(false); }
inline int __syncthreads_count(int vote) { return int(host_cuda::worker->wait_for_block(vote != 0)); }
inline int __syncthreads_or(int vote) { return __syncthreads_count(vote) != 0; }
inline int __syncthreads_and(int vote) { return __syncthreads_count(!vote) == 0; }
inline void __syncwarp(unsigned mask = ~0u) { host_cuda::worker->warp_call(host_cuda::WarpOp::kSync, mask); }
inline unsigned __activemask() { return 1u << host_cuda::lane(); }   // any set that contains the caller is allowed
inline unsigned __ballot_sync(unsigned mask, int vote) {
    return unsigned(host_cuda::worker->warp_call(host_cuda::WarpOp::kBallot, mask, vote != 0));
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }
inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, !vote) == 0; }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
    return unsigned(host_cuda::worker->warp_call(host_cuda::WarpOp::kMatch, mask, uint64_t(value)));
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    const int segment = int(host_cuda::lane()) / width * width;
    return host_cuda::shuffle(mask, value, segment + (source & (width - 1)), width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = warpSize) {
    return host_cuda::shuffle(mask, value, int(host_cuda::lane()) - int(distance), width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = warpSize) {
    return host_cuda::shuffle(mask, value, int(host_cuda::lane()) + int(distance), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize) {
    return host_cuda::shuffle(mask, value, int(host_cuda::lane()) ^ lanes, width);
}

inline void __threadfence() { host_cuda::fence(); }
inline void __threadfence_block() { host_cuda::fence(); }
inline void __nanosleep(unsigned) {
    std::this_thread::yield();
    host_cuda::fence();
}

template <class T, class V> T atomicAdd(T* p, V v) { return host_cuda::update(p, [=](T old) { return T(old + v); }); }
template <class T, class V> T atomicSub(T* p, V v) { return host_cuda::update(p, [=](T old) { return T(old - v); }); }
template <class T, class V> T atomicAnd(T* p, V v) { return host_cuda::update(p, [=](T old) { return T(old & v); }); }
template <class T, class V> T atomicOr(T* p, V v) { return host_cuda::update(p, [=](T old) { return T(old | v); }); }
template <class T, class V> T atomicXor(T* p, V v) { return host_cuda::update(p, [=](T old) { return T(old ^ v); }); }
template <class T, class V> T atomicExch(T* p, V v) { return host_cuda::update(p, [=](T) { return T(v); }); }
template <class T, class V> T atomicMin(T* p, V v) {
    return host_cuda::update(p, [=](T old) { return T(v) < old ? T(v) : old; });
}
template <class T, class V> T atomicMax(T* p, V v) {
    return host_cuda::update(p, [=](T old) { return T(v) > old ? T(v) : old; });
}
template <class T, class E, class V> T atomicCAS(T* p, E expected, V v) {
    return host_cuda::update(p, [=](T old) { return old == T(expected) ? T(v) : old; });
}

template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> void __stcg(T* p, T v) { *p = v; }
template <class T> void __stcs(T* p, T v) { *p = v; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)(x)) : 64; }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
    return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)(a) * b >> 64);
}
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return T(a) < T(b) ? T(b) : T(a);
}

inline float __uint2float_rd(unsigned x) { return host_cuda::round_down(float(x), x); }
inline float __uint_as_float(unsigned bits) { return host_cuda::bits_as<float>(bits); }
inline unsigned __float_as_uint(float x) { return host_cuda::bits_as<unsigned>(x); }
inline double __hiloint2double(int high, int low) {
    return host_cuda::bits_as<double>(uint64_t(unsigned(high)) << 32 | unsigned(low));
}
inline long long __double_as_longlong(double x) { return host_cuda::bits_as<long long>(x); }
inline float __ull2float_ru(unsigned long long x) { return host_cuda::round_up(float(x), x); }
inline float __fdiv_rd(float a, float b) { return host_cuda::round_down(a / b, (long double)(a) / b); }
inline unsigned __float2uint_rz(float x) {
    return x <= 0 ? 0 : x >= 4294967296.0f ? ~0u : unsigned(x);   // saturates, as the device does
}
