// The last pass of a most-significant-digit sort, and the whole sort of short rows: one block sorts one bucket.
//
// Satish, Harris and Garland (IPDPS 2009, section 4, step 1) sort a tile in shared memory first. As in the hybrid radix
// sort of Stehle and Jacobsen (SIGMOD 2017), this step comes last here, on buckets that a partition has made small enough.
// A bucket that does not fit is listed, for one more level of partition.
//
//   codes_in   | bucket 0 | bucket 1   | ...      starts[b] .. ends[b], or rows of `stride` keys
//   keys_out   | sorted   | sorted     | ...      the same offsets, decoded
#include "block_sort/general_tile.cuh"
#include "buckets/segment_digits.cuh"

namespace gpusort {

// Buckets too large for a block: how many, their keys, and the largest.
struct Overflow {
    u64 num_segments;
    u64 num_keys;
    u64 greatest_size;
};
constexpr int kOverflowWords = 3;
static_assert(sizeof(Overflow) == kOverflowWords * sizeof(u64), "block_sort.py allocates so many words");

// What the block sort reads and writes.
template <class Value>
struct BucketArrays {
    const void* codes_in;
    const Value* values_in;
    void* keys_out;
    void* positions_out;
    u64 base;  // what narrow codes count from
};

// A bucket that fits the block.
struct Bucket {
    Offset start;
    Offset origin;  // what positions count from
    int size;
};

template <class Code>
struct CodeRange {
    Code least, greatest;
};

// The buckets: from tables of offsets, or the rows of a matrix (null tables).
struct BucketTable {
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
    begin_segment(segments[s], start, size);
}

// Load a bucket, striped over the threads.
template <class Source, int kThreads, int kItems, class Value>
__device__ __forceinline__ void load_bucket(const BucketArrays<Value>& arrays, const Bucket& bucket,
                                            typename Source::Code (&codes)[kItems], Value (&values)[kItems]) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i < bucket.size) {
            codes[k] = Source::load(arrays.codes_in, bucket.start + i, bucket.origin);
            values[k] = load_payload(arrays.values_in, bucket.start + i, bucket.origin);
        }
    }
}

// Sort a bucket by bins; it is loaded once more. Not inlined: its registers would cost `sort_uniform_buckets` a block a
// multiprocessor. Pointers are separate parameters: inside a struct the compiler would not infer that they point to
// global memory, and would use generic accesses.
template <class Source, class Sink, int kThreads, int kItems, class Tile, class Map, class Value, class Code>
__device__ __noinline__ bool sort_by_bins(const void* codes_in, const Value* values_in, void* keys_out,
                                          void* positions_out, u64 base, Bucket bucket, CodeRange<Code> range,
                                          typename Tile::SharedStorage& shared) {
    Code codes[kItems];
    Value values[kItems];
    load_bucket<Source, kThreads>(BucketArrays<Value>{codes_in, values_in, keys_out, positions_out, base}, bucket,
                                  codes, values);
    Tile tile(shared, bucket.size);
    const Map map = tile.template make_map<Map>(codes, values, range.least, range.greatest);
    return tile.sort_by_bins(codes, values, map, [&](u32 rank, Code code, Value value) {
        Sink::store(keys_out, positions_out, bucket.start + rank, code, value, base);
    });
}

// The block that sorts one bucket of evenly spread codes.
template <class Source, class Sink, class Value, int kThreads, int kItems, int kBins>
struct UniformBlockSort {
    using Code = typename Source::Code;
    using Tile = UniformTile<Code, Value, kThreads, kItems, kBins>;

    BucketArrays<Value> arrays;
    Bucket bucket;
    typename Tile::SharedStorage& shared;

    template <class Map>
    __device__ __forceinline__ bool reload_by_bins(Code least, Code greatest) {
        return sort_by_bins<Source, Sink, kThreads, kItems, Tile, Map>(
            arrays.codes_in, arrays.values_in, arrays.keys_out, arrays.positions_out, arrays.base, bucket,
            CodeRange<Code>{least, greatest}, shared);
    }

    // Sort the bucket. Returns false, with nothing stored, where its codes are not spread evenly enough.
    __device__ __forceinline__ bool sort() {
        Tile tile(shared, bucket.size);
        Code least, greatest;
        Code codes[kItems];
        Value values[kItems];
        const auto emit = [&](u32 rank, Code code, Value value) {
            Sink::store(arrays.keys_out, arrays.positions_out, bucket.start + rank, code, value, arrays.base);
        };
        load_bucket<Source, kThreads>(arrays, bucket, codes, values);
        tile.find_range(codes, least, greatest);
        if constexpr (sizeof(Code) == sizeof(u32)) {
            bool sorted = false;
            if (tile.fits_fields(least, greatest)) {
                sorted = tile.sort_by_fields(codes, values, least, greatest, emit);
            }
            if (!sorted) sorted = reload_by_bins<LinearMap>(least, greatest);
            return sorted;
        } else {
            // No fields: to compare four neighbours of 64 bits costs as much as the few codes of a bin.
            if constexpr (kHasValues<Value> || kIsPacked<Sink>) {
                using Map = SpreadMap<Code, Value, !kHasValues<Value>>;
                if (Map::code_of(greatest) - Map::code_of(least) < kSpreadCodes * u32(tile.size)) {
                    return reload_by_bins<Map>(least, greatest);
                }
            }
            return tile.sort_by_bins(codes, values, LinearMap::over(least, greatest, kBins), emit);
        }
    }
};

// Sort buckets whose codes are spread evenly over their range. The others, and what does not fit, are listed for
// `sort_pending_buckets`: a kernel of its own, since it needs more registers.
template <class Source, class Sink, class Value, int kThreads, int kItems, int kBins, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    sort_uniform_buckets(const void* codes_in, const Value* values_in, void* keys_out, void* positions_out,
                         const Offset* starts, const Offset* ends, Offset stride, u32* pending, u64 base) {
    using BlockSort = UniformBlockSort<Source, Sink, Value, kThreads, kItems, kBins>;
    using Storage = typename BlockSort::Tile::SharedStorage;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const BucketTable buckets{starts, ends, stride};
    const Offset start = buckets.start(blockIdx.x), length = buckets.end(blockIdx.x) - start;
    if (length == 0) return;
    BlockSort block{{codes_in, values_in, keys_out, positions_out, base},
                    {start, buckets.origin(blockIdx.x), int(length)},
                    *reinterpret_cast<Storage*>(shared_bytes)};
    const bool sorted = length <= BlockSort::Tile::kTile && block.sort();
    if (!sorted && threadIdx.x == 0) pending[1 + atomicAdd(&pending[0], 1u)] = blockIdx.x;
}

// The block that sorts one bucket of any distribution, or lists it where it does not fit.
template <class Source, class Sink, class Value, class Domain, int kThreads, int kItems, int kBins>
struct GeneralBlockSort {
    using Tile = GeneralTile<Domain, Value, kThreads, kItems, kBins>;

    BucketArrays<Value> arrays;
    BucketTable buckets;
    Overflow* overflow;
    Segment* segments;
    typename Tile::SharedStorage& shared;

    __device__ __forceinline__ void store(const Bucket& bucket) const {
        const typename Tile::SharedStorage& sorted = shared;
#pragma unroll
        for (int k = 0; k < kItems; ++k) {
            const int i = k * kThreads + threadIdx.x;
            if (i >= bucket.size) break;
            Sink::store(arrays.keys_out, arrays.positions_out, bucket.start + i, sorted.code(i), sorted.value(i),
                        arrays.base);
        }
    }

    __device__ __forceinline__ void sort(Offset b) const {
        const Offset start = buckets.start(b), length = buckets.end(b) - start;
        if (length == 0) return;
        if (length > Tile::kTile) {
            if (threadIdx.x == 0) list_overflow(overflow, segments, start, length);
            return;
        }
        const Bucket bucket{start, buckets.origin(b), int(length)};
        typename Source::Code codes[kItems];
        Value values[kItems];
        load_bucket<Source, kThreads>(arrays, bucket, codes, values);
        Tile(shared, bucket.size).sort(codes, values);
        store(bucket);
    }
};

// Sort all buckets of a table or matrix, one block each.
template <class Source, class Sink, class Value, class Domain, int kThreads, int kItems, int kBins, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    sort_buckets(const void* codes_in, const Value* values_in, void* keys_out, void* positions_out,
                 const Offset* starts, const Offset* ends, Offset stride, Overflow* overflow, Segment* segments,
                 u64 base) {
    using BlockSort = GeneralBlockSort<Source, Sink, Value, Domain, kThreads, kItems, kBins>;
    using Storage = typename BlockSort::Tile::SharedStorage;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const BlockSort block{{codes_in, values_in, keys_out, positions_out, base},
                          {starts, ends, stride},
                          overflow,
                          segments,
                          *reinterpret_cast<Storage*>(shared_bytes)};
    block.sort(blockIdx.x);
}

// Sort the pending buckets (their number, then the buckets): few, and a block takes one after another.
template <class Source, class Sink, class Value, class Domain, int kThreads, int kItems, int kBins, int kMinBlocks>
__global__ void __launch_bounds__(kThreads, kMinBlocks)
    sort_pending_buckets(const void* codes_in, const Value* values_in, void* keys_out, void* positions_out,
                         const Offset* starts, const Offset* ends, Offset stride, Overflow* overflow, Segment* segments,
                         const u32* pending, u64 base) {
    using BlockSort = GeneralBlockSort<Source, Sink, Value, Domain, kThreads, kItems, kBins>;
    using Storage = typename BlockSort::Tile::SharedStorage;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const BlockSort block{{codes_in, values_in, keys_out, positions_out, base},
                          {starts, ends, stride},
                          overflow,
                          segments,
                          *reinterpret_cast<Storage*>(shared_bytes)};
    for (u32 i = blockIdx.x; i < pending[0]; i += gridDim.x) {
        block.sort(pending[1 + i]);
        __syncthreads();  // the bucket is stored before the next one is loaded
    }
}

}  // namespace gpusort
