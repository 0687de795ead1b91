// Batcher, "Sorting networks and their applications" (AFIPS 1968): networks over a whole array, one launch per layer,
// and over a tile in shared memory.
//
//   codes (n), positions (n) or null; one thread per comparator of a layer
#include "keys/elements.cuh"

namespace gpusort {

// Batcher, "Sorting networks and their applications" (AFIPS 1968): odd-even merge sort as comparators, for any n. Each
// comparator leaves the lesser key at the lower position. Comparators that reach past the end are left out: keys there,
// taken as the greatest, would never move.
//
//   p = 1      p = 2        p = 4                    runs of p keys are merged to runs of 2p; k: span of a comparator
//   k = 1      k = 2, 1     k = 4, 2, 1
//   0-1 2-3    0-2 1-3 ; 1-2     ...                 the same layers as dask_gpusort/network.py
//
// Networks are not stable: compare (key, position).

// Lower position of comparator i in layer (p, k): strips of k lower positions begin at k % p and every 2 k from there.
template <class Index>
__device__ __forceinline__ Index lower_position(Index i, Index p, Index k) {
    return k % p + i / k * 2 * k + i % k;
}

// Whether layer (p, k) has a comparator at `low`: both its ends exist, in the same run of 2p keys.
template <class Index>
__device__ __forceinline__ bool has_comparator(Index low, Index p, Index k, Index n) {
    return low + k < n && low / (2 * p) == (low + k) / (2 * p);
}

// Exchanges two keys that are out of order. Values, if any, are positions, and order equal keys.
template <class Less, class Code, class Value, class Index>
__device__ __forceinline__ void exchange(Code* codes, Value* values, Index low, Index high) {
    const Code first = codes[low], second = codes[high];
    bool wrong = Less::less(second, first);
    if constexpr (kHasValues<Value>) {
        if (!wrong && !Less::less(first, second)) wrong = values[high] < values[low];
    }
    if (!wrong) return;
    codes[low] = second;
    codes[high] = first;
    if constexpr (kHasValues<Value>) {
        const Value value = values[low];
        values[low] = values[high];
        values[high] = value;
    }
}

// One layer of Batcher's odd-even merge sort; thread i tests whether the layer has comparator i.
template <class Code, class Value, class Less>
__global__ void exchange_layer(Code* codes, Value* values, Offset n, Offset p, Offset k) {
    const Offset low = lower_position(Offset(blockIdx.x) * blockDim.x + threadIdx.x, p, k);
    if (has_comparator(low, p, k, n)) exchange<Less>(codes, values, low, low + k);
}

// One layer of odd-even transposition: neighbours from position `first` (0 or 1) on.
template <class Code, class Value, class Less>
__global__ void exchange_neighbours(Code* codes, Value* values, Offset n, Offset first) {
    const Offset low = first + 2 * (Offset(blockIdx.x) * blockDim.x + threadIdx.x);
    if (low + 1 < n) exchange<Less>(codes, values, low, low + 1);
}

// Sorts each tile of kTileKeys keys by the odd-even merge network, in shared memory; keys_in (n), keys_out (n).
template <class Source, class Sink, class Value, class Less, int kThreads, int kTileKeys>
__global__ void __launch_bounds__(kThreads)
    sort_tiles_by_network(const void* keys_in, void* keys_out, void* values_out, Offset n) {
    using Code = typename Source::Code;
    __shared__ Code codes[kTileKeys];
    __shared__ u32 positions[kTileKeys];  // in the tile: they order equal keys, since networks are not stable
    const Offset first = Offset(blockIdx.x) * kTileKeys;
    const int count = int(min(n - first, Offset(kTileKeys)));
    for (int i = threadIdx.x; i < count; i += kThreads) {
        codes[i] = Source::load(keys_in, first + i, 0);
        positions[i] = u32(i);
    }
    __syncthreads();  // the tile is there before its keys are exchanged
    for (int p = 1; p < count; p *= 2) {
        for (int k = p; k > 0; k /= 2) {
            for (int i = threadIdx.x; i < kTileKeys / 2; i += kThreads) {
                const int low = lower_position(i, p, k);
                if (has_comparator(low, p, k, count)) exchange<Less>(codes, positions, low, low + k);
            }
            __syncthreads();  // a layer is done before the next one compares its results
        }
    }
    for (int i = threadIdx.x; i < count; i += kThreads) {
        Value value{};
        if constexpr (kHasValues<Value>) value = Value(first + positions[i]);
        Sink::store(keys_out, values_out, first + i, codes[i], value);
    }
}

}  // namespace gpusort
