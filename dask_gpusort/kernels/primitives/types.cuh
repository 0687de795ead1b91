// Types and constants that all device code shares.
#pragma once

namespace gpusort {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// A position in, or a number of keys of, a whole array: 64 bits, since n may pass 2^32.
using Offset = u64;

constexpr int kWarpThreads = 32;
constexpr u32 kWholeWarp = 0xFFFFFFFFu;

}  // namespace gpusort
