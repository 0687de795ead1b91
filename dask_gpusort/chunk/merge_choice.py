"""Whether this processor merges sorted runs faster than it sorts them afresh.

NumPy's unstable sort takes 4 to 17 ns a key with AVX-512, elsewhere up to 80. Its stable sort merges runs, which takes
3 to 5 ns a key for each doubling of their number everywhere. The two are timed once in each process for each dtype, on
few keys, by the processor time of this thread. Both give the same bits.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..config import setting

#: Keys in a measurement, and most bytes of them. It takes 2 to 10 ms for integers, and up to 25 ms for strings.
_KEYS, _BYTES = 1 << 15, 1 << 20
#: Runs of the two merges that are timed: the time is linear in the logarithm of their number.
_FEW, _MANY = 4, 64
_REPEATS = 2
#: Processor time of this thread, where other threads count for nothing. On Windows it advances in steps of 16 ms.
_CLOCK = time.perf_counter if sys.platform == "win32" else time.thread_time

Sort: TypeAlias = Callable[[np.ndarray], object]


def prefers_merge(dtype: np.dtype[Any], runs: int, fresh: Sort = np.ndarray.sort) -> bool:
    """Tell whether NumPy's stable sort, which merges, of some sorted runs is faster than a fresh sort."""
    # The dtype is unsigned of at least 32 bits, complex, or strings of fixed width.
    fixed = setting("merged_runs")
    return bool(runs <= (most_merged_runs(dtype, fresh) if fixed is None else fixed))


@functools.cache
def most_merged_runs(dtype: np.dtype[Any], fresh: Sort = np.ndarray.sort) -> float:
    """Measure up to how many sorted runs a merge is faster."""
    keys = _random_keys(dtype)
    few_runs, many_runs = (np.sort(keys.reshape(runs, -1), axis=-1).ravel() for runs in (_FEW, _MANY))
    # A sort without vectors takes half as long for runs as for random keys.
    afresh = _seconds(many_runs, fresh)
    few, many = (_seconds(runs, _merge) for runs in (few_runs, many_runs))
    doubling = (many - few) / math.log2(_MANY / _FEW)
    if doubling <= 0:
        return math.inf if few < afresh else 0.0
    return _FEW * 2.0 ** min((afresh - few) / doubling, 64)


def _random_keys(dtype: np.dtype[Any]) -> np.ndarray:
    rng = np.random.default_rng(0)
    count = max(_MANY, min(_KEYS, _BYTES // dtype.itemsize // _MANY * _MANY))
    if dtype.kind == "u":
        return rng.integers(0, np.iinfo(dtype).max, count, dtype)
    if dtype.kind == "c":
        return rng.standard_normal((count, 2)).view(np.complex128).ravel().astype(dtype)
    letter = np.dtype(np.uint8 if dtype.kind == "S" else np.uint32)
    letters = rng.integers(ord("a"), ord("z"), (count, dtype.itemsize // letter.itemsize), letter)
    return letters.view(dtype).ravel()


def _merge(keys: np.ndarray) -> None:
    keys.sort(kind="stable")


def _seconds(keys: np.ndarray, sort: Sort) -> float:
    """Least time of a sort of a copy of the keys."""
    times = []
    for _ in range(_REPEATS):
        copied = keys.copy()
        start = _CLOCK()
        sort(copied)
        times.append(_CLOCK() - start)
    return min(times)
