// The order transform alone, gathers by position, and rank look-ups: one thread an element.
#include "keys/elements.cuh"

namespace gpusort {

constexpr int kSectorBytes = 32;  // of device memory, that one access fetches at least

// Calls the sector of an address into the second-level cache.
__device__ __forceinline__ void prefetch(const void* address) {
#if __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

__device__ __forceinline__ Offset element_of_thread() { return Offset(blockIdx.x) * blockDim.x + threadIdx.x; }

template <class Order>
__global__ void encode_keys(const typename Order::Raw* keys_in, typename Order::Code* codes_out, Offset n) {
    const Offset i = element_of_thread();
    if (i < n) codes_out[i] = Order::encode(keys_in[i]);
}

template <class Order>
__global__ void decode_codes(const typename Order::Code* codes_in, typename Order::Raw* keys_out, Offset n) {
    const Offset i = element_of_thread();
    if (i < n) keys_out[i] = Order::decode(codes_in[i]);
}

// Where positions stay near their places, the values `ahead` of a place are called in order, before they are wanted in
// any order: random sectors come at a quarter of the memory's speed. None are where `ahead` is 0.
template <class Value, class Position>
__global__ void gather(const Value* values_in, const Position* positions, Value* values_out, Offset n, Offset ahead) {
    constexpr Offset kPerSector = sizeof(Value) < kSectorBytes ? kSectorBytes / sizeof(Value) : 1;
    const Offset i = element_of_thread();
    if (ahead > 0 && i % kPerSector == 0 && i + ahead < n) prefetch(values_in + i + ahead);
    if (i < n) values_out[i] = values_in[positions[i]];
}

// Number of sorted keys whose code is below (kRight: at or below) the needle's; canonical where equal keys differ in
// bits.
template <class Order, bool kRight>
__global__ void search_sorted(const typename Order::Raw* keys, Offset n, const typename Order::Raw* needles,
                              long long* ranks_out, Offset num_needles) {
    const Offset i = element_of_thread();
    if (i >= num_needles) return;
    const auto needle = Order::canonical(Order::encode(needles[i]));
    Offset low = 0, high = n;
    while (low < high) {
        const Offset middle = (low + high) / 2;
        const auto code = Order::canonical(Order::encode(keys[middle]));
        if (code < needle || (kRight && code == needle)) low = middle + 1;
        else high = middle;
    }
    ranks_out[i] = (long long)low;
}

}  // namespace gpusort
