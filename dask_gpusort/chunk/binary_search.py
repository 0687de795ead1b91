"""Binary search of many needles at once, by a comparison alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..table import IntArray


def lower_bound(size: int, count: int, passes: Callable[[IntArray], np.ndarray]) -> IntArray:
    """Count the sorted keys that each needle passes: the first position not passed, shape (count,).

    `passes` tells whether each needle passes the key at its position, for positions of shape (count,).
    """
    # It ends after ``log2(size) + 1`` calls, whatever they return.
    low = np.zeros(count, np.int64)
    high = np.full(count, size, np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        passed = passes(np.minimum(middle, size - 1))
        low = np.where(open_ & passed, middle + 1, low)
        high = np.where(open_ & ~passed, middle, high)
    return low
