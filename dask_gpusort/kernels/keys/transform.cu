// Element-wise kernels, one thread per element: encode, decode, gather and scatter by position, search by rank.
#include "keys/elements.cuh"
#include "primitives/binary_search.cuh"

namespace gpusort {

constexpr int kSectorBytes = 32;  // the least that one access fetches from device memory

// Prefetches the sector of an address into the second-level cache.
__device__ __forceinline__ void prefetch(const void* address) {
#if __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

template <class Order>
__global__ void encode_keys(const typename Order::Raw* keys_in, typename Order::Code* codes_out, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) codes_out[i] = Order::encode(keys_in[i]);
}

template <class Order>
__global__ void decode_codes(const typename Order::Code* codes_in, typename Order::Raw* keys_out, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) keys_out[i] = Order::decode(codes_in[i]);
}

// values_out[i] = values_in[positions[i]]. Where positions are close to i, each thread prefetches the values `ahead` of
// its own, in order: memory delivers random sectors at a quarter of its speed. `ahead` 0 prefetches none.
template <class Value, class Position>
__global__ void gather(const Value* values_in, const Position* positions, Value* values_out, Offset n, Offset ahead) {
    constexpr Offset kPerSector = sizeof(Value) < kSectorBytes ? kSectorBytes / sizeof(Value) : 1;
    const Offset i = thread_of_grid();
    if (ahead > 0 && i % kPerSector == 0 && i + ahead < n) prefetch(values_in + i + ahead);
    if (i < n) values_out[i] = values_in[positions[i]];
}

// values_out[i] = values_in[indices[i]], from the end for negative indices; raises `wrong` if one is out of range.
template <class Value>
__global__ void gather_in_range(const Value* values_in, Offset num_values, const long long* indices, Value* values_out,
                                Offset n, u32* wrong) {
    const Offset i = thread_of_grid();
    if (i >= n) return;
    const long long index = indices[i];
    const Offset position = Offset(index < 0 ? index + (long long)num_values : index);
    if (position < num_values) values_out[i] = values_in[position];
    else *wrong = 1;
}

// values_out[positions[i]] = values_in[i].
template <class Value, class Position>
__global__ void scatter(const Value* values_in, const Position* positions, Value* values_out, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) values_out[positions[i]] = values_in[i];
}

// Replaces each code by the least code of the keys that compare equal.
template <class Order>
__global__ void floor_codes(typename Order::Code* codes, Offset n) {
    const Offset i = thread_of_grid();
    if (i < n) codes[i] = Order::canonical(codes[i]);
}

// Number of sorted keys whose canonical code is below (kRight: at or below) the needle's.
template <class Order, bool kRight>
__global__ void search_sorted(const typename Order::Raw* keys, Offset n, const typename Order::Raw* needles,
                              long long* ranks_out, Offset num_needles) {
    const Offset i = thread_of_grid();
    if (i >= num_needles) return;
    const auto needle = Order::canonical(Order::encode(needles[i]));
    const auto is_before = [&](Offset position) {
        const auto code = Order::canonical(Order::encode(keys[position]));
        return code < needle || (kRight && code == needle);
    };
    ranks_out[i] = (long long)partition_point(Offset(0), n, is_before);
}

}  // namespace gpusort
