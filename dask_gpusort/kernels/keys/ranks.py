"""Ranks of a sorted array's own keys (``transform.cu``): the rank summary of a chunk, for one round of counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..launch.array_checks import check_array
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from .dtypes import device_key

SOURCE = "keys/transform.cu"
THREADS = cxx_constant(SOURCE, "kRankThreads")
THREADS_PER_SAMPLE = cxx_constant(SOURCE, "kThreadsPerSample")


def rank_samples(
    codes: Any, positions: int | np.ndarray, *, ties_of: Any = None, descending: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read some keys of sorted codes, and count the keys less than each and at most each, in one launch and one copy.

    An integer d as `positions` selects every d-th one and the last; all three arrays are on the host.
    """
    # With `ties_of`, keys that NumPy calls equal (signed zeros, NaNs) count as equal, and the least code of them stands
    # for each; `descending` says whether its codes are those of a descending sort. This is section 5.2 of Satish,
    # Harris, Garland, IPDPS 2009.
    cupy = require_cupy()
    check_array(codes, "codes")
    key = device_key(codes.dtype if ties_of is None else ties_of, descending and ties_of is not None)
    if codes.dtype != key.code_dtype:
        raise ValueError(f"`codes` are {codes.dtype}; give those of the sort, {key.code_dtype}.")
    if isinstance(positions, int):
        where, distance = None, positions
        count = count_regular(codes.size, distance)
    else:
        where, distance, count = cupy.asarray(positions), 1, len(positions)
    summary = cupy.empty((3, count), np.uint64)
    arguments = (codes, np.uint64(codes.size), where, np.uint64(distance), summary, np.uint64(count))
    blocks = blocks_for(count * THREADS_PER_SAMPLE, THREADS)
    Launch(SOURCE, instance("find_equal_ranges", key.order), blocks, THREADS, arguments).run()
    least, less, at_most = summary.get()
    return least.astype(codes.dtype), less.view(np.int64), at_most.view(np.int64)


def count_regular(n: int, distance: int) -> int:
    """Count the samples at every `distance`-th of n positions and at the last one, which may be taken twice."""
    return blocks_for(n, distance) + 1 if n else 0
