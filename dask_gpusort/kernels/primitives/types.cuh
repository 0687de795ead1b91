// Types, constants and the thread index that all device code shares.
#pragma once

namespace gpusort {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// A position in an array, or a number of its keys: 64 bits, since an array may hold more than 2^32 keys.
using Offset = u64;

// The type of the values where keys are sorted alone.
struct NoValue {};

template <class Value>
constexpr bool kHasValues = true;
template <>
constexpr bool kHasValues<NoValue> = false;

constexpr int kWarpThreads = 32;
constexpr u32 kWholeWarp = 0xFFFFFFFFu;

// Index of this thread in the grid, for kernels with one thread per element.
__device__ __forceinline__ Offset thread_of_grid() { return Offset(blockIdx.x) * blockDim.x + threadIdx.x; }

}  // namespace gpusort
