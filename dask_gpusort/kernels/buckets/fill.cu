// Counting sort, second half: every code as often as it was counted.
//
//   starts (F + 1)  | 0 | 3 | 3 | 5 |            of the codes 0, 1, 2, ...
//   keys_out (n)      0 0 0   2 2   3 ...        decoded
#include "keys/elements.cuh"

namespace gpusort {

constexpr int kFillThreads = 256;
constexpr int kFillRounds = 4;  // vectors a thread writes: the search of the tile's ends is shared by all
constexpr int kFillVectorBytes = 16;

// The code whose run holds output position p, among codes [low, high].
__device__ __forceinline__ u32 find_code(const Offset* starts, u32 low, u32 high, Offset p) {
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (starts[middle] <= p) low = middle;
        else high = middle - 1;
    }
    return low;
}

template <class Order>
__global__ void __launch_bounds__(kFillThreads)
    fill_runs(const Offset* starts, u32 num_codes, typename Order::Raw* keys_out, Offset n) {
    using Raw = typename Order::Raw;
    constexpr int kKeys = kFillVectorBytes / sizeof(Raw);
    constexpr int kTileKeys = kFillThreads * kFillRounds * kKeys;
    __shared__ u32 ends[2];
    const Offset first = Offset(blockIdx.x) * kTileKeys;
    const Offset last = min(first + kTileKeys, n) - 1;
    if (threadIdx.x < 2) ends[threadIdx.x] = find_code(starts, 0, num_codes - 1, threadIdx.x == 0 ? first : last);
    __syncthreads();  // the codes of the tile's ends are known before runs between them are searched
    const bool whole = reinterpret_cast<Offset>(keys_out) % kFillVectorBytes == 0;
    for (int round = 0; round < kFillRounds; ++round) {
        const Offset p = first + (round * kFillThreads + threadIdx.x) * kKeys;
        if (p >= n) return;
        u32 code = find_code(starts, ends[0], ends[1], p);
        struct alignas(kFillVectorBytes) {
            Raw keys[kKeys];
        } vector;
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            while (code < ends[1] && starts[code + 1] <= p + k) ++code;
            vector.keys[k] = Order::decode(Raw(code));
        }
        if (whole && p + kKeys <= n) {
            *reinterpret_cast<decltype(vector)*>(keys_out + p) = vector;
        } else {
            for (int k = 0; k < kKeys && p + k < n; ++k) keys_out[p + k] = vector.keys[k];
        }
    }
}

}  // namespace gpusort
