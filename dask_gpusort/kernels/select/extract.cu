// Counts of the codes of each row between thresholds, and the keys of some of these intervals, in one read (extract.cuh).
//
//   keys (rows, length) -> extract_keys -> table (rows, slots + 1): the count of each slot, then of the taken keys
//                                          taken (rows, capacity): keys, in any order
#include "select/extract.cuh"

namespace gpusort {

// A persistent grid: every block takes parts of rows, a grid apart; `num_items` is the number of parts of all rows.
// The table is zero.
template <class Source, int kLevels>
__global__ void __launch_bounds__(kExtractThreads, kExtractBlocks)
    extract_keys(const typename Source::Raw* keys, Offset length, u32 parts, u32 num_items,
                 const typename Source::Code* thresholds, const typename Source::Code* is_taken, u64* table,
                 typename Source::Raw* taken, Offset capacity) {
    constexpr u32 kSlots = 1 << kLevels;
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    Extractor<Source, kLevels> extractor(shared_bytes);
    const Offset part_keys = (length + parts - 1) / parts;
    for (u32 item = blockIdx.x; item < num_items; item += gridDim.x) {
        const Offset row = item / parts;
        const Offset begin = min(Offset(item % parts) * part_keys, length), end = min(begin + part_keys, length);
        u64* counts = table + row * (kSlots + 1);
        extractor.start(thresholds + row * (kSlots - 1), is_taken + row * kSlots);
        __syncthreads();  // thresholds are copied and counters are zero before keys are counted
        const TakenKeys<typename Source::Raw> out{taken + row * capacity, capacity, counts + kSlots};
        extractor.run(keys + row * length + begin, u32(end - begin), out);
        __syncthreads();  // the part is counted before its counts are added to the table
        extractor.add_counts(counts);
        __syncthreads();  // the counters are read before they are cleared for the next part
    }
}

}  // namespace gpusort
