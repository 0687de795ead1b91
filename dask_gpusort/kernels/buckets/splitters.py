"""Sampled splitters: the map from codes to fine buckets (``splitters.cu``).

    keys (n) -> sample (s codes and their range) -> counts of equal intervals -> splitter map -> balance test

After Leischner, Osipov and Sanders, "GPU Sample Sort" (IPDPS 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ..keys.dtypes import NARROW_BITS, Elements
from ..launch.launch import Launch, Readback, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning

SOURCE = "buckets/splitters.cu"
MAP_SOURCE = "buckets/splitter_map.cuh"
BUILDER_SOURCE = "buckets/splitter_builder.cuh"
MAP_BYTES = cxx_constant(MAP_SOURCE, "kMapBytes")
MAP_FLAGS_BYTES = slice(0, cxx_constant(MAP_SOURCE, "kMapFlagsBytes"))
#: `is_too_wide` and the two words of `base`
NARROW_BASE_BYTES = slice(cxx_constant(MAP_SOURCE, "kNarrowBaseOffset"), cxx_constant(MAP_SOURCE, "kReadbackBytes"))
INTERVALS = cxx_constant(MAP_SOURCE, "kIntervals")
SUBINTERVALS = cxx_constant(MAP_SOURCE, "kSubIntervals")
RANGE_WORDS = cxx_constant(BUILDER_SOURCE, "kSampleRangeBytes") // 4
MAP_THREADS = cxx_constant(BUILDER_SOURCE, "kMapThreads")
CUT_SUBDIVIDED = instance("cut_subdivided", MAP_THREADS)
SAMPLE_THREADS = 256
COUNTED_DOMAINS = 2  # floats are counted by code and by value


class MapFlags(NamedTuple):
    """What the host reads back of a map: the C++ struct of the same name."""

    is_uniform: int
    by_value: int
    is_imbalanced: int
    is_narrow: int
    is_in_order: int


def read_map_flags(splitters: Any) -> Readback:
    """Start to read the flags of a map; ``MapFlags(*readback.wait())`` once the host needs them."""
    return Readback(splitters[MAP_FLAGS_BYTES].view(np.uint32))


def narrow_base(splitters: Any) -> int | None:
    """What narrow codes count from; `None` if some key's code is 2^32 or more away. Known once all keys are counted."""
    is_too_wide, *base = Readback(splitters[NARROW_BASE_BYTES].view(np.uint32)).wait()
    return None if is_too_wide else base[0] | base[1] << NARROW_BITS


@dataclass(slots=True)
class BalanceTest:
    """Say which buckets are tested, and when a map is imbalanced (see `check_balance` in ``splitters.cu``)."""

    length: int  # keys of a row: each row has its own buckets
    num_buckets: int  # of all rows
    fine_bits: int  # a bucket has 2^fine_bits fine buckets
    overfull: float  # a bucket is overfull from this many times the mean on
    least: int  # fewest overfull buckets of an imbalanced map

    @classmethod
    def of_array(cls, n: int, num_fine: int) -> BalanceTest:
        """Give the test of all fine buckets of an array of n keys."""
        return cls(n, num_fine, 0, tuning.OVERFULL_MEANS, tuning.OVERFULL_BUCKETS)

    def overfull_samples(self, num_samples: int) -> np.uint32:
        """Samples from which on a bucket is overfull."""
        mean = num_samples / self.num_buckets
        return np.uint32(self.overfull * mean + tuning.OVERFULL_SIGMAS * mean**0.5)


@dataclass(slots=True)
class _Sample:
    """Hold a sample of the keys, and device memory for what is counted of it."""

    size: int  # number of samples
    codes: Any  # bytes of the sampled codes
    code_range: Any  # uint32, like the tables
    interval_counts: Any  # at zero, like the other tables
    subinterval_counts: Any
    bucket_counts: Any  # with one word more, for the blocks that have arrived

    @property
    def count_blocks(self) -> int:
        """Blocks of a kernel that counts the samples."""
        return blocks_for(self.size, tuning.SAMPLES_PER_BLOCK)


def sample_splitters(
    elements: Elements, keys: Any, n: int, num_fine: int, balance_test: BalanceTest | None = None
) -> Any:
    """Build a splitter map, the C++ struct ``SplitterMap`` in bytes, of some fine buckets from a sample of n raw keys.

    A balance test sets its flag `is_imbalanced`; without one the flag stays zero.
    """
    sample = _draw_sample(elements, keys, n, balance_test.num_buckets if balance_test else 0)
    splitters = _build_map(elements, sample, num_fine)
    if balance_test:
        _check_balance(elements, sample, splitters, n, balance_test)
    return splitters


def _draw_sample(elements: Elements, keys: Any, n: int, num_buckets: int) -> _Sample:
    cupy = require_cupy()
    size = max(min(tuning.MAX_SAMPLES, n // tuning.SAMPLE_SHARE), 1)
    codes = cupy.empty(size * elements.code_bytes, np.uint8)
    words = COUNTED_DOMAINS * INTERVALS, SUBINTERVALS, RANGE_WORDS, num_buckets + 1 if num_buckets else 0
    subcounts, code_range, bucket_counts, end = accumulate(words)
    cleared = cupy.zeros(end, np.uint32)
    sample = _Sample(size, codes, cleared[code_range:], cleared, cleared[subcounts:], cleared[bucket_counts:])
    arguments = keys, np.uint64(n), codes, np.uint32(size), sample.code_range
    Launch(
        SOURCE, f"sample_codes<{elements.source}>", blocks_for(size, SAMPLE_THREADS), SAMPLE_THREADS, arguments
    ).run()
    return sample


def _build_map(elements: Elements, sample: _Sample, num_fine: int) -> Any:
    cupy = require_cupy()
    befores = cupy.empty(INTERVALS, np.uint32)
    splitters = cupy.empty(MAP_BYTES, np.uint8)
    code, domain, blocks = elements.code_type, elements.domain, sample.count_blocks
    size, fine = np.uint32(sample.size), np.uint32(num_fine)
    counts, subcounts = sample.interval_counts, sample.subinterval_counts

    def run(kernel: str, blocks: int, *arguments: Any) -> None:
        Launch(SOURCE, kernel, blocks, MAP_THREADS, arguments).run()

    run(f"count_samples<{domain}>", blocks, sample.codes, size, sample.code_range, counts)
    run(f"build_map<{domain}>", 1, counts, size, fine, sample.code_range, splitters, befores)
    run(f"count_subdivided<{code}>", blocks, sample.codes, size, splitters, subcounts)
    run(CUT_SUBDIVIDED, 1, subcounts, befores, size, fine, splitters)
    return splitters


def _check_balance(elements: Elements, sample: _Sample, splitters: Any, n: int, test: BalanceTest) -> None:
    buckets = np.uint64(n), np.uint64(test.length), np.uint32(test.fine_bits), np.uint32(test.num_buckets)
    limits = test.overfull_samples(sample.size), np.uint32(test.least)
    arguments = sample.codes, np.uint32(sample.size), splitters, *buckets, sample.bucket_counts, *limits
    Launch(SOURCE, f"check_balance<{elements.domain}>", sample.count_blocks, MAP_THREADS, arguments).run()
