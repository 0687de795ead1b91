"""Histograms of an array over fine buckets, their scans, and counting sort (``counting.cu``).

    keys (n) -> counts (num_fine) -> starts (num_fine + 1) and cursors (num_fine)

Satish, Harris and Garland (IPDPS 2009), section 4, steps 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey, device_key
from ..launch.launch import Launch, blocks_for, instance, side_by_side
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import count_bytes, multiprocessors, shared_limit

SOURCE = "buckets/counting.cu"
SCAN_THREADS = cxx_constant(SOURCE, "kScanThreads")
SCAN_FINE = instance("scan_fine", SCAN_THREADS)
NARROW_KEYS = 1 << 32  # from here on the counts of a table need 64 bits each
COUNTED_BYTES = 2  # of the widest keys
FILL_THREADS = cxx_constant(SOURCE, "kFillThreads")
FILL_TILE_BYTES = FILL_THREADS * cxx_constant(SOURCE, "kFillRounds") * cxx_constant(SOURCE, "kFillVectorBytes")


@dataclass(slots=True)
class FineBuckets:
    """Say what `count_fine` counts by."""

    name: str  # C++ type that gives a code its bucket
    count: int  # of buckets
    map: Any = None  # the splitter map, a device array
    map_words: int = 1  # words of shared memory that the map takes


def splitter_buckets(domain: str, splitters: Any, num_fine: int) -> FineBuckets:
    """Give the fine buckets of a splitter map over a domain."""
    return FineBuckets(f"SplitterBuckets<{domain}>", num_fine, splitters, tuning.MAP_WORDS)


@dataclass(slots=True)
class FineCounts:
    """Hold the keys of each fine bucket."""

    table: Any  # device array of unsigned counts
    num_fine: int
    is_wide: bool  # the counts have 64 bits each, else 32


def count_fine(source: str, keys: Any, n: int, buckets: FineBuckets) -> FineCounts:
    """Count the n raw keys of each fine bucket."""
    is_wide = n >= NARROW_KEYS
    table = require_cupy().zeros(buckets.count if is_wide else blocks_for(buckets.count, 2), np.uint64)
    shared = count_bytes(buckets.count, buckets.map_words)
    arguments = keys, np.uint64(n), buckets.map, table, np.uint32(is_wide), np.uint32(buckets.count)
    kernel = f"count_fine<{source}, {buckets.name}>"
    Launch(SOURCE, kernel, count_blocks(n, shared), tuning.COUNT_THREADS, arguments, shared).run()
    return FineCounts(table, buckets.count, is_wide)


def count_blocks(n: int, shared_bytes: int) -> int:
    """Count the blocks that count n keys: one a multiprocessor where the counters fill it, else two."""
    blocks = multiprocessors() * (2 if 2 * shared_bytes < tuning.COUNT_SHARED_BYTES else 1)
    return max(min(blocks, n // tuning.COUNT_KEYS_PER_BLOCK), 1)


def scan_fine(counts: FineCounts, starts: Any, cursors: Any, whole: Any = None) -> None:
    """Scan the counts: `starts` receives the first offset of each bucket, and the number of all keys, of 64 bits each.

    `cursors` receives the first offsets once more, and `whole` the segment of all keys.
    """
    arguments = counts.table, np.uint32(counts.is_wide), np.uint32(counts.num_fine), starts, cursors, whole
    Launch(SOURCE, SCAN_FINE, blocks_for(counts.num_fine, SCAN_THREADS), SCAN_THREADS, arguments).run()


def is_countable(key: DeviceKey) -> bool:
    """Tell whether the counters of all codes fit the shared memory of a block."""
    return key.itemsize <= COUNTED_BYTES and count_bytes(1 << 8 * key.itemsize, 1) <= shared_limit()


def count_sort(keys: Any, key: DeviceKey, out: Any, as_codes: bool = False) -> None:
    """Sort countable keys into `out`, as keys or as codes."""
    n, num_codes = keys.size, 1 << 8 * key.itemsize
    starts, cursors = require_cupy().empty((2, num_codes + 1), np.uint64)
    order = device_key(key.code_dtype).order if as_codes else key.order
    blocks = blocks_for(n, FILL_TILE_BYTES // key.itemsize)
    arguments = starts, np.uint32(num_codes), out, np.uint64(n)
    with side_by_side:
        counts = count_fine(f"Keys<{key.order}>", keys, n, FineBuckets("CodeBuckets", num_codes))
        scan_fine(counts, starts, cursors)
        Launch(SOURCE, f"fill_runs<{order}>", blocks, FILL_THREADS, arguments).run()
