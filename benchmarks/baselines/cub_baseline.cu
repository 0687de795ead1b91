// Baseline: CUB's public device-wide radix and merge sorts, timed with CUDA events.
//
// A small C interface for benchmarks/baselines/cub.py (ctypes). Every call sorts device arrays once and returns the
// milliseconds between two events on the default stream; scratch memory is allocated before the clock starts.
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/version.cuh>
#include <cstdint>

namespace {

constexpr float kFailed = -1.0f;

// Runs `sort(storage, bytes)` twice, as CUB requires: once for the size of its storage, once timed.
template <class Sort>
float timed_sort(Sort sort) {
    size_t storage_bytes = 0;
    void* storage = nullptr;
    if (sort(nullptr, storage_bytes) != cudaSuccess) return kFailed;
    if (cudaMalloc(&storage, storage_bytes) != cudaSuccess) return kFailed;
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaDeviceSynchronize();
    cudaEventRecord(begin);
    cudaError_t status = sort(storage, storage_bytes);
    cudaEventRecord(end);
    if (status == cudaSuccess) status = cudaEventSynchronize(end);
    float milliseconds = kFailed;
    if (status == cudaSuccess) cudaEventElapsedTime(&milliseconds, begin, end);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaFree(storage);
    return milliseconds;
}

template <class Key>
float sort_keys(const void* keys_in, void* keys_out, int64_t n) {
    return timed_sort([&](void* storage, size_t& bytes) {
        return cub::DeviceRadixSort::SortKeys(storage, bytes, static_cast<const Key*>(keys_in),
                                              static_cast<Key*>(keys_out), n);
    });
}

template <class Key, class Value>
float sort_pairs(const void* keys_in, void* keys_out, const void* values_in, void* values_out, int64_t n) {
    return timed_sort([&](void* storage, size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(storage, bytes, static_cast<const Key*>(keys_in),
                                               static_cast<Key*>(keys_out), static_cast<const Value*>(values_in),
                                               static_cast<Value*>(values_out), n);
    });
}

struct Less {
    template <class Key>
    __host__ __device__ bool operator()(const Key& a, const Key& b) const {
        return a < b;
    }
};

// The merge sort that does not write to its input, like the radix sort.
template <class Key>
float merge_sort_keys(const void* keys_in, void* keys_out, int64_t n) {
    return timed_sort([&](void* storage, size_t& bytes) {
        return cub::DeviceMergeSort::SortKeysCopy(storage, bytes, static_cast<const Key*>(keys_in),
                                                  static_cast<Key*>(keys_out), n, Less{});
    });
}

}  // namespace

#define MERGE(name, Key) \
    extern "C" float cub_merge_##name(const void* in, void* out, int64_t n) { return merge_sort_keys<Key>(in, out, n); }
#define KEYS(name, Key) \
    extern "C" float cub_keys_##name(const void* in, void* out, int64_t n) { return sort_keys<Key>(in, out, n); }
#define PAIRS(name, Key, Value)                                                                                        \
    extern "C" float cub_pairs_##name(const void* in, void* out, const void* values_in, void* values_out, int64_t n) { \
        return sort_pairs<Key, Value>(in, out, values_in, values_out, n);                                              \
    }

KEYS(uint8, uint8_t)
KEYS(uint16, uint16_t)
KEYS(uint32, uint32_t)
KEYS(uint64, uint64_t)
KEYS(int64, int64_t)
KEYS(float32, float)
KEYS(float64, double)
PAIRS(uint32_uint32, uint32_t, uint32_t)
PAIRS(uint32_uint64, uint32_t, uint64_t)
PAIRS(uint64_uint32, uint64_t, uint32_t)
PAIRS(uint64_uint64, uint64_t, uint64_t)
MERGE(uint32, uint32_t)
MERGE(uint64, uint64_t)

extern "C" int cub_version() { return CUB_VERSION; }
