// Ranks of sorted needles among sorted keys, a tile of needles a block.
//
//   keys      . . . . [ . . . . . . ] . . .      between the ranks of the tile's first and last needle,
//   needles           f a b c d e l              which two warps search for; its threads search between these,
//                                                in shared memory if the keys there fit
//
// Satish, Harris and Garland (IPDPS 2009, section 5.2): the ranks of two elements bound those between them.
#include "keys/order.cuh"
#include "primitives/binary_search.cuh"

namespace gpusort {

constexpr int kNeedleThreads = 512;
constexpr int kNeedlesPerThread = 4;
constexpr int kStagedBytes = 32 << 10;  // a range of keys that fits is copied to shared memory

template <class Order, bool kRight>
struct NeedleTile {
    using Raw = typename Order::Raw;
    using Code = typename Order::Code;
    static constexpr int kTile = kNeedleThreads * kNeedlesPerThread;
    static constexpr int kStaged = kStagedBytes / int(sizeof(Code));

    struct SharedStorage {
        Code codes[kStaged];
        Offset ends[2];  // ranks of the first and the last needle
    };

    SharedStorage& shared;
    const Raw* keys;
    const Raw* needles;

    static __device__ __forceinline__ Code code_of(Raw key) { return Order::canonical(Order::encode(key)); }
    // Whether a key is counted: kRight counts those equal to the needle too.
    static __device__ __forceinline__ bool is_before(Code key, Code needle) {
        return key < needle || (kRight && key == needle);
    }

    __device__ __forceinline__ void find_ends(Offset n, Offset first, Offset last) {
        const int warp = threadIdx.x / kWarpThreads;
        if (warp >= 2) return;
        const Code needle = code_of(needles[warp == 0 ? first : last]);
        const auto counted = [&](Offset position) { return is_before(code_of(keys[position]), needle); };
        const Offset rank = partition_point_by_warp(Offset(0), n, counted);
        if (threadIdx.x % kWarpThreads == 0) shared.ends[warp] = rank;
    }

    template <class Rank>
    __device__ __forceinline__ void process(Offset n, Offset first, Offset after, Rank* ranks_out) {
        find_ends(n, first, after - 1);
        __syncthreads();  // the ends are there before they are read
        const Offset low = shared.ends[0], size = shared.ends[1] - low;
        const bool is_staged = size <= kStaged;
        for (Offset i = threadIdx.x; is_staged && i < size; i += kNeedleThreads)
            shared.codes[i] = code_of(keys[low + i]);
        __syncthreads();  // the codes are there before they are searched
        for (Offset i = first + threadIdx.x; i < after; i += kNeedleThreads) {
            const Code needle = code_of(needles[i]);
            const auto in_shared = [&](u32 at) { return is_before(shared.codes[at], needle); };
            const auto in_keys = [&](Offset at) { return is_before(code_of(keys[low + at]), needle); };
            const Offset rank =
                is_staged ? partition_point(u32(0), u32(size), in_shared) : partition_point(Offset(0), size, in_keys);
            ranks_out[i] = Rank(low + rank);
        }
    }
};

// kRight: keys at most the needle are counted, else those less than it.
template <class Order, bool kRight, class Rank>
__global__ void __launch_bounds__(kNeedleThreads)
    rank_sorted_needles(const typename Order::Raw* keys, Offset n, const typename Order::Raw* needles,
                        Offset num_needles, Rank* ranks_out) {
    using Tile = NeedleTile<Order, kRight>;
    __shared__ typename Tile::SharedStorage shared;
    const Offset first = Offset(blockIdx.x) * Tile::kTile;
    const Offset after = first + Tile::kTile < num_needles ? first + Tile::kTile : num_needles;
    Tile{shared, keys, needles}.process(n, first, after, ranks_out);
}

}  // namespace gpusort
