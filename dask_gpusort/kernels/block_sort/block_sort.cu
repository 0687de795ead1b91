// The last pass of a most-significant-digit sort, and the whole sort of short rows: one block sorts one bucket.
//
// Satish, Harris and Garland, section 4, step 1: sort a tile in shared memory. Here it comes last, on buckets that a
// partition has made small enough. A bucket that does not fit is listed, for one more level of partition.
//
//   codes_in   | bucket 0 | bucket 1   | ...      starts[b] .. ends[b], or rows of `stride` keys
//   keys_out   | sorted   | sorted     | ...      the same places, decoded
#include "block_sort/general_tile.cuh"

namespace gpusort {

// Buckets too large for a block: how many, their keys, and where.
struct Overflow {
    u64 num_segments;
    u64 num_keys;
    u64 greatest_size;
};

// Where bucket b lies: from tables, or as row b of equal rows (null tables).
struct Buckets {
    const Offset* starts;
    const Offset* ends;
    Offset stride;

    __device__ __forceinline__ Offset start(Offset b) const { return starts ? starts[b] : b * stride; }
    __device__ __forceinline__ Offset end(Offset b) const { return ends ? ends[b] : (b + 1) * stride; }
    __device__ __forceinline__ Offset origin(Offset b) const { return starts ? 0 : b * stride; }
};

__device__ __forceinline__ void list_overflow(Overflow* overflow, Segment* segments, Offset start, Offset size) {
    const u64 s = atomicAdd(&overflow->num_segments, 1ull);
    atomicAdd(&overflow->num_keys, size);
    atomicMax(&overflow->greatest_size, size);
    segments[s].start = start;
    segments[s].size = size;
    segments[s].least_complement = segments[s].greatest = 0;
    segments[s].least_position_complement = segments[s].greatest_position = 0;
}

// Loads the bucket, striped over the threads.
template <class Source, class Value, int kThreads, int kItems>
__device__ __forceinline__ void load_bucket(const void* codes_in, const Value* values_in, Offset start, Offset origin,
                                            int size, typename Source::Code (&codes)[kItems], Value (&values)[kItems]) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i < size) {
            codes[k] = Source::load(codes_in, start + i, origin);
            values[k] = load_payload(values_in, start + i, origin);
        }
    }
}

template <class Sink, class Value, int kThreads, int kItems, class Storage>
__device__ __forceinline__ void store_bucket(const Storage& shared, void* keys_out, void* positions_out, Offset start,
                                             int size, u64 base) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i >= size) break;
        Sink::store(keys_out, positions_out, start + i, shared.code(i), shared.value(i), base);
    }
}

// The bucket by bins, read once more. Not inlined: what it keeps in registers would take `sort_uniform_buckets` a block.
template <class Source, class Sink, class Value, int kThreads, int kItems, class Tile, class Map, class Code>
__device__ __noinline__ bool sort_by_bins(const void* codes_in, const Value* values_in, void* keys_out,
                                          void* positions_out, Offset start, Offset origin, int size, Code least,
                                          Code greatest, u64 base, typename Tile::SharedStorage& shared) {
    Code codes[kItems];
    Value values[kItems];
    load_bucket<Source, Value, kThreads, kItems>(codes_in, values_in, start, origin, size, codes, values);
    const Map map = Tile::template make_map<Map>(codes, values, size, least, greatest, shared);
    return Tile::sort_by_bins(codes, values, size, map, shared, [&](u32 place, Code code, Value value) {
        Sink::store(keys_out, positions_out, start + place, code, value, base);
    });
}

// Buckets whose codes spread evenly over their range. Others, and what does not fit, are listed for `sort_pending_buckets`: a
// kernel of its own, since what they need would take this one registers.
template <class Source, class Sink, class Value, int kThreads, int kItems, int kBins, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    sort_uniform_buckets(const void* codes_in, const Value* values_in, void* keys_out, void* positions_out,
                         const Offset* starts, const Offset* ends, Offset stride, u32* pending, u64 base) {
    using Code = typename Source::Code;
    using Tile = UniformTile<Code, Value, kThreads, kItems, kBins>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Tile::SharedStorage& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    const Buckets buckets{starts, ends, stride};
    const Offset start = buckets.start(blockIdx.x), length = buckets.end(blockIdx.x) - start;
    const Offset origin = buckets.origin(blockIdx.x);
    if (length == 0) return;
    bool sorted = false;
    if (length <= Tile::kTile) {
        const int size = int(length);
        Code least, greatest;
        Code codes[kItems];
        Value values[kItems];
        const auto emit = [&](u32 place, Code code, Value value) {
            Sink::store(keys_out, positions_out, start + place, code, value, base);
        };
        load_bucket<Source, Value, kThreads, kItems>(codes_in, values_in, start, origin, size, codes, values);
        Tile::find_range(codes, size, shared, least, greatest);
        if constexpr (sizeof(Code) == sizeof(u32)) {
            if (Tile::fits_fields(least, greatest, size)) {
                sorted = Tile::sort_by_fields(codes, values, size, least, greatest, shared, emit);
            }
            if (!sorted) {
                sorted = sort_by_bins<Source, Sink, Value, kThreads, kItems, Tile, LinearMap>(
                    codes_in, values_in, keys_out, positions_out, start, origin, size, least, greatest, base, shared);
            }
        } else {
            // Four neighbours of 64 bits to look at cost as much as the few codes of a bin.
            bool few = false;
            if constexpr (kHasPayload<Value> || kIsPacked<Sink>) {
                using Map = SpreadMap<Code, Value, !kHasPayload<Value>>;
                few = Map::code_of(greatest) - Map::code_of(least) < kSpreadCodes * u32(size);
                if (few) {
                    sorted = sort_by_bins<Source, Sink, Value, kThreads, kItems, Tile, Map>(
                        codes_in, values_in, keys_out, positions_out, start, origin, size, least, greatest, base,
                        shared);
                }
            }
            if (!few) {
                const LinearMap map = LinearMap::over(least, greatest, kBins);
                sorted = Tile::sort_by_bins(codes, values, size, map, shared, emit);
            }
        }
    }
    if (!sorted && threadIdx.x == 0) pending[1 + atomicAdd(&pending[0], 1u)] = blockIdx.x;
}

// One bucket of any distribution, or a note that it does not fit.
template <class Source, class Sink, class Value, class Domain, int kThreads, int kItems, int kBins>
__device__ __forceinline__ void sort_bucket(
    const void* codes_in, const Value* values_in, void* keys_out, void* positions_out, const Buckets& buckets, Offset b,
    Overflow* overflow, Segment* segments, u64 base,
    typename GeneralTile<Domain, Value, kThreads, kItems, kBins>::SharedStorage& shared) {
    using Tile = GeneralTile<Domain, Value, kThreads, kItems, kBins>;
    const Offset start = buckets.start(b), length = buckets.end(b) - start;
    if (length == 0) return;
    if (length > Tile::kTile) {
        if (threadIdx.x == 0) list_overflow(overflow, segments, start, length);
        return;
    }
    const int size = int(length);
    typename Source::Code codes[kItems];
    Value values[kItems];
    load_bucket<Source, Value, kThreads, kItems>(codes_in, values_in, start, buckets.origin(b), size, codes, values);
    Tile::sort(codes, values, size, shared);
    store_bucket<Sink, Value, kThreads, kItems>(shared, keys_out, positions_out, start, size, base);
}

// All buckets of a table or matrix, one block each.
template <class Source, class Sink, class Value, class Domain, int kThreads, int kItems, int kBins, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    finish(const void* codes_in, const Value* values_in, void* keys_out, void* positions_out, const Offset* starts,
           const Offset* ends, Offset stride, Overflow* overflow, Segment* segments, u64 base) {
    using Tile = GeneralTile<Domain, Value, kThreads, kItems, kBins>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Tile::SharedStorage& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    sort_bucket<Source, Sink, Value, Domain, kThreads, kItems, kBins>(codes_in, values_in, keys_out, positions_out,
                                                                      Buckets{starts, ends, stride}, blockIdx.x,
                                                                      overflow, segments, base, shared);
}

// The pending ones (their number, then the buckets): few, and a block takes one after another.
template <class Source, class Sink, class Value, class Domain, int kThreads, int kItems, int kBins, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    sort_pending_buckets(const void* codes_in, const Value* values_in, void* keys_out, void* positions_out,
                         const Offset* starts, const Offset* ends, Offset stride, Overflow* overflow, Segment* segments,
                         const u32* pending, u64 base) {
    using Tile = GeneralTile<Domain, Value, kThreads, kItems, kBins>;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    typename Tile::SharedStorage& shared = *reinterpret_cast<typename Tile::SharedStorage*>(shared_bytes);
    for (u32 i = blockIdx.x; i < pending[0]; i += gridDim.x) {
        sort_bucket<Source, Sink, Value, Domain, kThreads, kItems, kBins>(codes_in, values_in, keys_out, positions_out,
                                                                          Buckets{starts, ends, stride}, pending[1 + i],
                                                                          overflow, segments, base, shared);
        __syncthreads();  // the bucket is stored before the next one takes its place
    }
}

}  // namespace gpusort
