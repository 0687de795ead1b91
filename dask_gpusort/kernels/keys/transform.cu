// Element-wise kernels: encode, decode, gather and scatter by position, search by rank, draw, store what is in order.
#include "keys/elements.cuh"
#include "keys/order.cuh"
#include "primitives/basics.cuh"

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

// Outputs of numpy.random.Philox from number `start` on: Philox4x64-10 of Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). Each thread makes those of one value of the counter, of which 1 is the first.
constexpr int kPhiloxRounds = 10;
constexpr int kPhiloxOutputs = 4;
constexpr u64 kMultiplier0 = 0xD2E7470EE14C6C93u, kMultiplier2 = 0xCA5A826395121157u;
constexpr u64 kKeyStep0 = 0x9E3779B97F4A7C15u, kKeyStep1 = 0xBB67AE8584CAA73Bu;

template <class Output>
__global__ void draw_outputs(u64 key_0, u64 key_1, Offset start, Offset n, Output* outputs) {
    const Offset counter = start / kPhiloxOutputs + thread_of_grid();
    u64 words[kPhiloxOutputs] = {counter + 1, 0, 0, 0};
#pragma unroll
    for (int round = 0; round < kPhiloxRounds; round++, key_0 += kKeyStep0, key_1 += kKeyStep1) {
        const u64 word_0 = words[0], word_2 = words[2];
        words[0] = __umul64hi(kMultiplier2, word_2) ^ words[1] ^ key_0;
        words[1] = kMultiplier2 * word_2;
        words[2] = __umul64hi(kMultiplier0, word_0) ^ words[3] ^ key_1;
        words[3] = kMultiplier0 * word_0;
    }
    for (int word = 0; word < kPhiloxOutputs; word++) {
        const Offset i = counter * kPhiloxOutputs + word - start;  // before the start it wraps, and is at least n
        if (i < n) outputs[i] = words[word];
    }
}

// Elements whose keys are in order already are stored as they are, or turned if their keys descend.

constexpr int kLookThreads = 256;
constexpr int kLookItems = 8;
constexpr int kLookTile = kLookThreads * kLookItems;

// Whether some code of at least two is less than its predecessor, and whether one is greater: two words, zeros before.
// Equal codes with values count as greater: turned, they would lose the order of the input.
template <class Source, class Value>
__global__ void __launch_bounds__(kLookThreads) find_steps(const void* keys, Offset n, u32* found) {
    const volatile u32* known = found;
    if (known[0] && known[1]) return;
    const Offset first = Offset(blockIdx.x) * kLookTile + threadIdx.x;
    bool falls = false, rises = false;
#pragma unroll
    for (int k = 0; k < kLookItems; ++k) {
        const Offset i = min(first + k * kLookThreads, n - 2);  // no branch, so that no load waits for another
        const auto code = Source::load(keys, i, 0), next = Source::load(keys, i + 1, 0);
        falls = falls || next < code;
        rises = rises || code < next || (kHasValues<Value> && code == next);
    }
    // Few threads write: most read that another has.
    if (falls && !known[0]) found[0] = 1;
    if (rises && !known[1]) found[1] = 1;
}

// Both ends of a pair of mirrored elements are read before either is written, since the outputs may be the keys. Keys
// that begin the memory of the positions are not wanted, and not read.
template <class Source, class Sink, class Value>
__global__ void store_in_order(const void* keys, const Value* values, void* keys_out, void* positions_out, Offset n,
                               u32 is_turned) {
    const Offset low = thread_of_grid(), high = n - 1 - low;
    if (2 * low >= n) return;
    const auto load = [&](Offset i) {
        return keys == positions_out ? Source::encode(typename Source::Raw(0), i) : Source::load(keys, i, 0);
    };
    const auto first = load(low), last = load(high);
    const Value first_value = load_payload(values, low, 0), last_value = load_payload(values, high, 0);
    Sink::store(keys_out, positions_out, is_turned ? high : low, first, first_value);
    Sink::store(keys_out, positions_out, is_turned ? low : high, last, last_value);
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

// For some positions of a sorted array: the key there, and the range of the keys that compare equal to it.
//
//   codes      a  a  a  b  c  c  c  c  c  c  d           (n)
//   samples    a           c           c     d           every fourth position, and the last
//   least      a           c           c     d           (3, samples): the least code of the equal keys,
//   less       0           4           4     10          the number of keys that are less,
//   at most    3           10          10    11          and the number of keys that are not greater
//
// Satish, Harris and Garland (IPDPS 2009, section 5.2): regular samples bound the number of keys between them.

constexpr int kRankThreads = 128;     // few: some thousand samples spread over many multiprocessors, to hide latency
constexpr int kThreadsPerSample = 2;  // one searches before the sample, one after it

// Number of keys before (kRight: after) a position that equal its key; `most` keys are there. Steps double until a key
// differs, then halve. Most keys have no equal neighbour, and so read one key.
template <class Order, bool kRight>
__device__ __forceinline__ Offset count_equal(const typename Order::Code* codes, Offset position, Offset most) {
    const auto least = Order::canonical(codes[position]);
    const auto equal_at = [&](Offset distance) {
        return distance <= most && Order::canonical(codes[kRight ? position + distance : position - distance]) == least;
    };
    Offset equal = 0, step = 1;
    for (; equal_at(equal + step); step *= 2) equal += step;
    for (step /= 2; step > 0; step /= 2)
        if (equal_at(equal + step)) equal += step;
    return equal;
}

// Of every `distance`-th key and the last one. summary (3, num_samples): least, less, at most.
template <class Order>
__global__ void __launch_bounds__(kRankThreads)
    find_equal_ranges(const typename Order::Code* codes, Offset n, Offset distance, u64* summary, Offset num_samples) {
    const Offset thread = Offset(blockIdx.x) * kRankThreads + threadIdx.x;
    const Offset sample = thread / kThreadsPerSample;
    if (sample >= num_samples) return;
    const Offset position = sample * distance < n ? sample * distance : n - 1;
    if (thread % kThreadsPerSample) {
        summary[2 * num_samples + sample] = position + 1 + count_equal<Order, true>(codes, position, n - 1 - position);
    } else {
        summary[sample] = Order::canonical(codes[position]);
        summary[num_samples + sample] = position - count_equal<Order, false>(codes, position, position);
    }
}

// Ranks of sorted needles among sorted keys, a tile of needles a block.
//
//   keys      . . . . [ . . . . . . ] . . .      between the ranks of the tile's first and last needle,
//   needles           f a b c d e l              which two warps search for; its threads search between these,
//                                                in shared memory if the keys there fit
//
// Satish, Harris and Garland (IPDPS 2009, section 5.2): the ranks of two elements bound those between them.

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
