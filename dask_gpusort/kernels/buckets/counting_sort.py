"""Counting sort of 8- and 16-bit keys: one histogram, then every code as often as it was counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..keys.dtypes import DeviceKey, device_key
from ..launch.launch import Launch, blocks_for, side_by_side
from ..launch.loader import cxx_constant, require_cupy
from ..policy.limits import count_bytes, shared_limit
from .histogram import code_buckets, count_fine, scan_fine

COUNTED_BYTES = 2  # of the widest keys
FILL_SOURCE = "buckets/counting.cu"
FILL_THREADS = cxx_constant(FILL_SOURCE, "kFillThreads")
FILL_TILE_BYTES = (
    FILL_THREADS * cxx_constant(FILL_SOURCE, "kFillRounds") * cxx_constant(FILL_SOURCE, "kFillVectorBytes")
)


def is_countable(key: DeviceKey) -> bool:
    """Tell whether the counters of all codes fit the shared memory of a block."""
    return key.itemsize <= COUNTED_BYTES and count_bytes(1 << 8 * key.itemsize, 1) <= shared_limit()


def count_sort(keys: Any, key: DeviceKey, out: Any, as_codes: bool = False) -> None:
    """Sort countable keys into `out`, as keys or as codes."""
    n, bits = keys.size, 8 * key.itemsize
    num_codes = 1 << bits
    starts, cursors = require_cupy().empty((2, num_codes + 1), np.uint64)
    order = device_key(key.code_dtype).order if as_codes else key.order
    blocks = blocks_for(n, FILL_TILE_BYTES // key.itemsize)
    arguments = starts, np.uint32(num_codes), out, np.uint64(n)
    with side_by_side:
        counts = count_fine(f"Keys<{key.order}>", keys, n, code_buckets(bits))
        scan_fine(counts, starts, cursors)
        Launch(FILL_SOURCE, f"fill_runs<{order}>", blocks, FILL_THREADS, arguments).run()
