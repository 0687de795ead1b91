// Counting sort, second half: write every code as often as it was counted.
//
//   starts (F + 1)  | 0 | 3 | 3 | 5 |            first position of code 0, 1, 2, ...
//   keys_out (n)      0 0 0   2 2   3 ...        decoded
#include "keys/elements.cuh"

namespace gpusort {

constexpr int kFillThreads = 256;
constexpr int kFillRounds = 4;  // vectors a thread writes: they share the search for the codes at the tile's ends
constexpr int kFillVectorBytes = 16;

// Code at output position p, among codes [low, high].
__device__ __forceinline__ u32 find_code(const Offset* starts, u32 low, u32 high, Offset p) {
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (starts[middle] <= p) low = middle;
        else high = middle - 1;
    }
    return low;
}

// One vector of kKeys consecutive keys of the output, from position p on.
template <class Order>
struct RunFiller {
    using Raw = typename Order::Raw;
    static constexpr int kKeys = kFillVectorBytes / sizeof(Raw);
    struct alignas(kFillVectorBytes) Vector {
        Raw keys[kKeys];
    };

    const Offset* starts;
    Raw* keys_out;
    Offset n;
    bool is_aligned;

    __device__ __forceinline__ RunFiller(const Offset* starts_, Raw* keys_out_, Offset n_)
        : starts(starts_),
          keys_out(keys_out_),
          n(n_),
          is_aligned(reinterpret_cast<Offset>(keys_out_) % kFillVectorBytes == 0) {}

    // `first` and `last`: codes at the ends of the tile.
    __device__ __forceinline__ void fill(Offset p, u32 first, u32 last) const {
        u32 code = find_code(starts, first, last, p);
        Vector vector;
#pragma unroll
        for (int k = 0; k < kKeys; ++k) {
            while (code < last && starts[code + 1] <= p + k) ++code;
            vector.keys[k] = Order::decode(Raw(code));
        }
        if (is_aligned && p + kKeys <= n) {
            *reinterpret_cast<Vector*>(keys_out + p) = vector;
        } else {
            for (int k = 0; k < kKeys && p + k < n; ++k) keys_out[p + k] = vector.keys[k];
        }
    }
};

template <class Order>
__global__ void __launch_bounds__(kFillThreads)
    fill_runs(const Offset* starts, u32 num_codes, typename Order::Raw* keys_out, Offset n) {
    using Filler = RunFiller<Order>;
    constexpr int kTileKeys = kFillThreads * kFillRounds * Filler::kKeys;
    __shared__ u32 ends[2];
    const Offset first = Offset(blockIdx.x) * kTileKeys;
    const Offset last = min(first + kTileKeys, n) - 1;
    if (threadIdx.x < 2) ends[threadIdx.x] = find_code(starts, 0, num_codes - 1, threadIdx.x == 0 ? first : last);
    __syncthreads();  // the codes at the tile's ends are known before the codes between them are searched
    const Filler filler(starts, keys_out, n);
    for (int round = 0; round < kFillRounds; ++round) {
        const Offset p = first + (round * kFillThreads + threadIdx.x) * Filler::kKeys;
        if (p >= n) return;
        filler.fill(p, ends[0], ends[1]);
    }
}

}  // namespace gpusort
