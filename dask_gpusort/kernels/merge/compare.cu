// Comparisons, one thread per element: of two arrays element by element, and rank searches in a sorted array.
#include "keys/less.cuh"
#include "primitives/binary_search.cuh"

namespace gpusort {

// Whether a[i] comes before b[i].
template <class Key, class Less>
__global__ void compare_elements(const Key* a, const Key* b, bool* before, Offset n) {
    const Offset i = Offset(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) before[i] = Less::less(a[i], b[i]);
}

// Number of sorted keys that come before the needle (kRight: that do not come after it).
template <class Key, class Less, bool kRight>
__global__ void search_compared(const Key* keys, Offset n, const Key* needles, long long* ranks_out,
                                Offset num_needles) {
    const Offset i = Offset(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= num_needles) return;
    const Key needle = needles[i];
    const auto is_before = [&](Offset position) {
        const Key key = keys[position];
        return kRight ? !Less::less(needle, key) : Less::less(key, needle);
    };
    ranks_out[i] = (long long)partition_point(Offset(0), n, is_before);
}

}  // namespace gpusort
