// Tie groups of sorted keys, as one bit for each key, and the number of bits before each word.
//
//   keys      1  1  1  4  4  7  7 ...       (n)
//   bits      1  0  0  1  0  1  0 ...       (n / 32 words)       whether a key is the first of its group
//   offsets   0, 9, 17, ...                 (n / 32 + 1)         groups that begin in earlier words; last: all groups
//   number    0  0  0  1  1  2  2 ...       offset of the word + its bits up to the key - 1
//
// Jacobson, "Space-efficient static trees and graphs" (FOCS 1989): the rank of a bit from counts of whole words.
#include "keys/elements.cuh"
#include "primitives/block.cuh"

namespace gpusort {

constexpr int kTieThreads = 256;
constexpr int kTieItems = 4;
constexpr int kTieTile = kTieThreads * kTieItems;
constexpr int kWordBits = 32;
static_assert(kWordBits == kWarpThreads, "a ballot of one warp is one word");

// How ties are ranked, as by scipy.stats.rankdata.
enum class Ranking { kAverage, kMin, kMax, kDense, kOrdinal };

struct TieBits {
    const u32* bits;
    const u64* offsets;

    __device__ __forceinline__ bool is_first(Offset i) const { return bits[i / kWordBits] >> (i % kWordBits) & 1; }
    // Number of the tie group of key i. The mask has the bits up to that of the key: for the last one, 2 << 31 is 0.
    __device__ __forceinline__ Offset number(Offset i) const {
        const u32 up_to = (2u << (i % kWordBits)) - 1;
        return offsets[i / kWordBits] + __popc(bits[i / kWordBits] & up_to) - 1;
    }
};

// Writes the words of a block's keys, of which each thread has a flag in every kTieThreads-th.
__device__ __forceinline__ void store_words(const bool (&is_first)[kTieItems], Offset n, u32* bits_out) {
    const Offset first = Offset(blockIdx.x) * kTieTile + threadIdx.x;
#pragma unroll
    for (int item = 0; item < kTieItems; item++) {
        const Offset i = first + item * kTieThreads;
        const u32 word = __ballot_sync(kWholeWarp, is_first[item]);
        if (threadIdx.x % kWarpThreads == 0 && i < n) bits_out[i / kWordBits] = word;
    }
}

// Calls `visit` for each key of the block and its number in the thread. All reads of a thread are on their way at the same time.
template <class Visit>
__device__ __forceinline__ void visit_keys(Offset n, Visit visit) {
    const Offset first = Offset(blockIdx.x) * kTieTile + threadIdx.x;
#pragma unroll
    for (int item = 0; item < kTieItems; item++)
        if (first + item * kTieThreads < n) visit(first + item * kTieThreads, item);
}

// Whether key i is the first of a row. Divisions take longer than the reads, and one row needs none.
__device__ __forceinline__ bool begins_row(Offset i, Offset n, Offset length) {
    return length >= n ? i == 0 : i % length == 0;
}

// Each row of `length` keys has groups of its own. Codes from `first_nan` on are NaN, which are equal to each other, or
// with `nans_differ` to no key. Threads beyond the last key vote 0.
template <class Order>
__global__ void __launch_bounds__(kTieThreads)
    mark_first_keys(const typename Order::Raw* __restrict__ keys, Offset n, Offset length, u64 first_nan, int has_nan,
                    int nans_differ, u32* __restrict__ bits_out) {
    bool is_first[kTieItems] = {};
    visit_keys(n, [&](Offset i, int item) {
        const auto code = Order::canonical(Order::encode(keys[i]));
        const auto previous = i > 0 ? Order::canonical(Order::encode(keys[i - 1])) : code;
        const bool both_nan = has_nan && code >= first_nan && previous >= first_nan;
        is_first[item] = begins_row(i, n, length) || (both_nan ? nans_differ : code != previous);
    });
    store_words(is_first, n, bits_out);
}

// The same from one flag for each key.
template <class Flag>
__global__ void __launch_bounds__(kTieThreads) pack_flags(const Flag* flags, Offset n, u32* bits_out) {
    bool is_first[kTieItems] = {};
    visit_keys(n, [&](Offset i, int item) { is_first[item] = flags[i]; });
    store_words(is_first, n, bits_out);
}

// counts_out (words + 1): bits of each word, then 0, which an exclusive scan turns into the number of all bits.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) count_bits(const u32* bits, Offset words, u64* counts_out) {
    const Offset word = thread_of_grid();
    if (word <= words) counts_out[word] = word < words ? __popc(bits[word]) : 0;
}

// starts_out (groups + 1): the position of the first key of each group, then n.
template <class Position>
__global__ void __launch_bounds__(kTieThreads)
    list_starts(const u32* __restrict__ bits, const u64* __restrict__ offsets, Offset n,
                Position* __restrict__ starts_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) {
        if (ties.is_first(i)) starts_out[ties.number(i)] = Position(i);
        if (i == n - 1) starts_out[ties.number(i) + 1] = Position(n);
    });
}

// values_out (groups): the value at the first key of each group.
template <class Value>
__global__ void __launch_bounds__(kTieThreads)
    take_firsts(const u32* __restrict__ bits, const u64* __restrict__ offsets, Offset n,
                const Value* __restrict__ values, Value* __restrict__ values_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) {
        if (ties.is_first(i)) values_out[ties.number(i)] = values[i];
    });
}

template <class Number>
__global__ void __launch_bounds__(kTieThreads)
    number_keys(const u32* __restrict__ bits, const u64* __restrict__ offsets, Offset n,
                Number* __restrict__ numbers_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) { numbers_out[i] = Number(ties.number(i)); });
}

// Rank of key i in its row, from 1; twice the rank for kAverage, which is an integer then.
template <Ranking kRanking>
__device__ __forceinline__ u32 rank_of(TieBits ties, const long long* starts, Offset i, Offset n, Offset length) {
    const Offset row = length >= n ? 0 : i / length * length, group = ties.number(i);
    if constexpr (kRanking == Ranking::kDense) return u32(group - ties.number(row) + 1);
    if constexpr (kRanking == Ranking::kMax) return u32(starts[group + 1] - row);
    const u32 less = u32(starts[group] - row);
    return kRanking == Ranking::kMin ? less + 1 : less + u32(starts[group + 1] - row) + 1;
}

// starts (groups + 1), as of list_starts.
template <Ranking kRanking>
__global__ void __launch_bounds__(kTieThreads)
    rank_keys(const u32* __restrict__ bits, const u64* __restrict__ offsets, const long long* __restrict__ starts,
              Offset n, Offset length, u32* __restrict__ ranks_out) {
    const TieBits ties{bits, offsets};
    visit_keys(n, [&](Offset i, int) { ranks_out[i] = rank_of<kRanking>(ties, starts, i, n, length); });
}

// Ranks of the keys of sorted rows, without the bits above: the ends of a tie group are found by steps that double, and
// then halve, as most groups are small. Caches take the writes to random positions of a row: 2^28 ranks of rows of 2^16
// take 7.0 ms on an H100, and 1.4 where they are written in order. Parts of rows in shared memory take 4.9 to 9.6.
// positions: of each sorted key in its unsorted row, or behind it by a multiple of the length.
template <class Order, Ranking kRanking, class Element>
__global__ void __launch_bounds__(kTieThreads)
    rank_rows(const typename Order::Raw* __restrict__ keys, const u32* __restrict__ positions, Offset n, u32 length,
              u64 first_nan, int has_nan, Element* __restrict__ ranks_out) {
    const auto code_at = [&](u32 i) {
        const auto code = Order::canonical(Order::encode(keys[i]));
        return has_nan && code >= first_nan ? decltype(code)(first_nan) : code;
    };
    visit_keys(n, [&](Offset key, int) {
        const u32 i = u32(key), in_row = i % length, row = i - in_row;
        u32 before = in_row, behind = length - 1 - in_row;  // neighbours in the row, then those of another group
        if constexpr (kRanking != Ranking::kOrdinal) {
            const auto code = code_at(i);
            const auto reach = [&](u32 most, auto neighbour) {
                if (most == 0 || neighbour(1) != code) return 0u;
                u32 reached = 1, step = 2;
                for (; step <= most - reached && neighbour(reached + step) == code; step *= 2) reached += step;
                for (; step > 0; step /= 2)
                    if (step <= most - reached && neighbour(reached + step) == code) reached += step;
                return reached;
            };
            if (kRanking != Ranking::kMax) before -= reach(before, [&](u32 k) { return code_at(i - k); });
            if (kRanking != Ranking::kMin) behind -= reach(behind, [&](u32 k) { return code_at(i + k); });
        }
        Element* const rank = ranks_out + (row + positions[i] % length);
        if constexpr (kRanking == Ranking::kAverage) *rank = Element((before + 1 + length - behind) * 0.5);
        else *rank = Element(kRanking == Ranking::kMax ? length - behind : before + 1);
    });
}

// Scatter by a permutation: out[positions[i]] = values[i], for values of 32 bits.
//
// A write to a random position moves 32 bytes of memory in and out. So (position, value) pairs are partitioned by the
// leading digits of their positions, until the output of a bucket fits shared memory:
//
//   positions            5 0 7 2 | 6 1 3 4            two tiles
//   values               a b c d | e f g h
//   partition            0b 2d 1f 3g | 5a 7c 6e 4h    two buckets; the pairs of a tile are neighbours
//   write_buckets        b f d g | h a e c            one block a bucket
//
// The positions are a permutation, so a bucket begins at its first position: it needs no histogram, and no scan over
// tiles. A tile reserves memory for its pairs of a bucket from the bucket's counter.

constexpr int kValueBits = 32;

// What the first partition reads. Null values count from `first`.
struct Unpaired {
    const u32* positions;
    const u32* values;
    u32 first;

    __device__ __forceinline__ u64 load(Offset i) const {
        return u64(positions[i]) << kValueBits | (values ? values[i] : first + u32(i));
    }
};

// What the second partition reads.
struct Paired {
    const u64* pairs;

    __device__ __forceinline__ u64 load(Offset i) const { return pairs[i]; }
};

template <int kThreads, int kItems, int kRadix>
struct PositionPartition {
    static constexpr int kTile = kThreads * kItems;
    static constexpr int kDigitsPerThread = kRadix / kThreads;
    static_assert(kRadix % kThreads == 0, "each thread scans as many digits");
    static_assert((kTile & (kTile - 1)) == 0, "buckets of the first partition are whole tiles");

    struct SharedStorage {
        u64 pairs[kTile];
        u32 starts[kRadix];   // counts of the digits, then the first pair of each in the tile
        u32 targets[kRadix];  // from a pair's index in the tile to its index in the output, modulo 2^32
        typename BlockScan<u32, kThreads>::SharedStorage scan;
    };

    SharedStorage& shared;
    Offset n, first_bucket;
    int shift;

    __device__ __forceinline__ u32 digit_of(u64 pair) const {
        return u32(((pair >> kValueBits) >> shift) - first_bucket) % kRadix;
    }

    template <class Source>
    __device__ __forceinline__ void process(Source source, u64* pairs_out, u32* cursors, Offset origin) {
        const int size = n - origin < kTile ? int(n - origin) : kTile;
        for (int digit = threadIdx.x; digit < kRadix; digit += kThreads) shared.starts[digit] = 0;
        __syncthreads();  // the counts are zero before pairs are counted
        u64 pairs[kItems];
        u32 ranks[kItems];
#pragma unroll
        for (int item = 0; item < kItems; item++) {
            const int i = item * kThreads + threadIdx.x;
            if (i < size) pairs[item] = source.load(origin + i);
        }
#pragma unroll
        for (int item = 0; item < kItems; item++) {
            const int i = item * kThreads + threadIdx.x;
            if (i < size) ranks[item] = atomicAdd(&shared.starts[digit_of(pairs[item])], 1u);
        }
        __syncthreads();  // all pairs are counted
        reserve(cursors);
        __syncthreads();  // starts and targets are there before they are read
#pragma unroll
        for (int item = 0; item < kItems; item++) {
            const int i = item * kThreads + threadIdx.x;
            if (i < size) shared.pairs[shared.starts[digit_of(pairs[item])] + ranks[item]] = pairs[item];
        }
        __syncthreads();  // the pairs are in order before they are written
        store(pairs_out, size);
    }

    // Each thread scans its digits, and reserves memory in their buckets.
    __device__ __forceinline__ void reserve(u32* cursors) {
        const int first = threadIdx.x * kDigitsPerThread;
        u32 total = 0;
        for (int digit = first; digit < first + kDigitsPerThread; digit++) total += shared.starts[digit];
        u32 start = BlockScan<u32, kThreads>::exclusive(total, shared.scan);
        for (int digit = first; digit < first + kDigitsPerThread; digit++) {
            const u32 count = shared.starts[digit];
            const Offset bucket = first_bucket + digit;
            const u32 begin = count ? u32(bucket << shift) + atomicAdd(&cursors[bucket], count) : 0;
            shared.starts[digit] = start;
            shared.targets[digit] = begin - start;
            start += count;
        }
    }

    // Neighbours of a bucket are written by neighbouring threads. Positions that are no permutation write nothing
    // beyond the end.
    __device__ __forceinline__ void store(u64* pairs_out, int size) {
        for (int i = threadIdx.x; i < size; i += kThreads) {
            const u64 pair = shared.pairs[i];
            const u32 target = shared.targets[digit_of(pair)] + u32(i);
            if (target < n) pairs_out[target] = pair;
        }
    }
};

// Buckets of 2^shift positions; all pairs of a tile have the same leading digits, those above `shift_above`.
template <int kThreads, int kItems, int kRadix>
__device__ __forceinline__ auto make_partition(unsigned char* bytes, Offset n, int shift, Offset first_bucket) {
    using Partition = PositionPartition<kThreads, kItems, kRadix>;
    return Partition{*reinterpret_cast<typename Partition::SharedStorage*>(bytes), n, first_bucket, shift};
}

template <int kThreads, int kItems, int kRadix>
__global__ void __launch_bounds__(kThreads)
    partition_positions(const u32* positions, const u32* values, u32 first, u64* pairs_out, u32* cursors, Offset n,
                        int shift, int) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    auto partition = make_partition<kThreads, kItems, kRadix>(shared_bytes, n, shift, 0);
    partition.process(Unpaired{positions, values, first}, pairs_out, cursors, Offset(blockIdx.x) * kThreads * kItems);
}

// Pairs in buckets of 2^shift_above positions, which are whole tiles, go to buckets of 2^shift.
template <int kThreads, int kItems, int kRadix>
__global__ void __launch_bounds__(kThreads)
    partition_pairs(const u64* pairs, u64* pairs_out, u32* cursors, Offset n, int shift, int shift_above) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const Offset origin = Offset(blockIdx.x) * kThreads * kItems;
    const Offset first_bucket = (origin >> shift_above) << (shift_above - shift);
    auto partition = make_partition<kThreads, kItems, kRadix>(shared_bytes, n, shift, first_bucket);
    partition.process(Paired{pairs}, pairs_out, cursors, origin);
}

// Elements of the output are the values, or `factor` times them if they are floats.
template <class Element>
__device__ __forceinline__ Element element_of(u32 value, double factor) {
    return Element(value);
}
template <>
__device__ __forceinline__ double element_of<double>(u32 value, double factor) {
    return value * factor;
}

// One block for each bucket of 2^kBucketBits positions.
template <int kThreads, int kBucketBits, class Element>
__global__ void __launch_bounds__(kThreads) write_buckets(const u64* pairs, Element* out, Offset n, double factor) {
    __shared__ u32 values[1 << kBucketBits];
    const Offset origin = Offset(blockIdx.x) << kBucketBits;
    const int size = n - origin < (1 << kBucketBits) ? int(n - origin) : 1 << kBucketBits;
    for (int i = threadIdx.x; i < size; i += kThreads) {
        const u64 pair = pairs[origin + i];
        values[(pair >> kValueBits) % (1 << kBucketBits)] = u32(pair);
    }
    __syncthreads();  // all values are in order before they are written
    for (int i = threadIdx.x; i < size; i += kThreads) out[origin + i] = element_of<Element>(values[i], factor);
}

// The same by random writes, of arrays that caches hold.
template <class Element>
__global__ void write_at_positions(const u32* positions, const u32* values, u32 first, Element* out, Offset n,
                                   double factor) {
    const Offset i = thread_of_grid();
    if (i < n) out[positions[i]] = element_of<Element>(values ? values[i] : first + u32(i), factor);
}

}  // namespace gpusort
