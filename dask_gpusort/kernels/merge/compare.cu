// Comparisons alone: of two arrays element by element, and rank look-ups in a sorted one; one thread an element.
#include "keys/less.cuh"

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
    Offset low = 0, high = n;
    while (low < high) {
        const Offset middle = low + (high - low) / 2;
        const Key key = keys[middle];
        if (kRight ? !Less::less(needle, key) : Less::less(key, needle)) low = middle + 1;
        else high = middle;
    }
    ranks_out[i] = (long long)low;
}

}  // namespace gpusort
