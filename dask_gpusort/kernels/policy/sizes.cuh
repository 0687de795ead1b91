// Sizes that both the kernels and the host's tables of block shapes (tuning.py) are made from.
#pragma once
#include "primitives/basics.cuh"

namespace gpusort {

// Histogram of fine buckets.
constexpr int kFineCountThreads = 1024;  // one block fills a multiprocessor: its counters take most shared memory

// Splitter map.
constexpr int kIntervalBits = 11;  // 8 KiB of shared memory; 128 samples an interval of 2^18 samples
constexpr int kIntervals = 1 << kIntervalBits;
constexpr int kSubIntervals = 1 << 11;  // of all subdivided intervals together
constexpr int kMapWords = kIntervals + kSubIntervals;
constexpr int kWordsPerVector = 4;  // that one access copies

// Segments of a further level.
constexpr int kSegmentThreads = 512;
constexpr u32 kMaxSegmentDigits = 512;  // one digit a thread of the partition
constexpr u32 kIntervalsPerDigit = 2;   // a child's size is off by at most the skew inside half a digit
constexpr u32 kSegmentMapWords = kMaxSegmentDigits * kIntervalsPerDigit;

// Block sort of a uniform bucket.
constexpr int kFieldBits = 2;
constexpr u32 kMostInField = (1 << kFieldBits) - 1;
constexpr int kWindow = kMostInField - 1;  // most positions between a code that shares a field and its rank

// LSD passes. Tables of digits in shared memory are padded: every 32 digits begin four banks further on. Keys with few
// bits set would otherwise access the first banks only.
constexpr int kDigitBits = 8;
constexpr int kRadix = 1 << kDigitBits;
constexpr int kBankShift = 4;
constexpr int kPaddedRadix = kRadix + kRadix / kWarpThreads * kBankShift;

}  // namespace gpusort
