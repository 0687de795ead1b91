"""Exclusive scans, and ties distributed in order.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 4 (column-major table, one scan).
Harada, Howes, Introduction to GPU Radix Sort, equation 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def exclusive_scan(counts: IntArray) -> IntArray:
    """Sums of all earlier entries, with the total appended: shape (n,) to (n + 1,)."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def scan_table(counts: IntArray) -> IntArray:
    """Exclusive-scan a digit table, shape (radix, num_chunks), into the global rank at which each run begins.

    C order here is the papers' column-major order of (chunk, digit): Satish, Harris, Garland, IPDPS 2009, section 4;
    Harada and Howes, equation 1.
    """
    return exclusive_scan(counts.ravel())[:-1].reshape(counts.shape)


def share_out(wanted: IntArray, available: IntArray) -> IntArray:
    """Distribute a number of equal keys between parts, first parts first.

    `wanted` has shape (boundaries,), `available` and the result (parts, boundaries); parts are chunks, or nodes of
    their tree.
    """
    return np.clip(wanted - (np.cumsum(available, axis=0) - available), 0, available)
