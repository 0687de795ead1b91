"""Binary search of many needles at once, by a comparison alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..table import IntArray


def lower_bound(size: int, count: int, passes: Callable[[IntArray], np.ndarray]) -> IntArray:
    """Number of sorted keys that each needle passes.

    Parameters
    ----------
    size : int
        Number of sorted keys.
    count : int
        Number of needles.
    passes : callable(positions)
        Whether each needle passes the key at its position; positions has shape (count,).

    Returns
    -------
    int64 array, shape (count,)
        The first position not passed. Ends after ``log2(size) + 1`` calls, whatever they return.
    """
    low = np.zeros(count, np.int64)
    high = np.full(count, size, np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        passed = passes(np.minimum(middle, size - 1))
        low = np.where(open_ & passed, middle + 1, low)
        high = np.where(open_ & ~passed, middle, high)
    return low
