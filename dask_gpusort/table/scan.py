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
    """Exclusive-scan a digit table in column-major order.

    Parameters
    ----------
    counts : int64 array, shape (radix, num_chunks)
        Keys per digit (row) and chunk (column). C order here is the papers' column-major order of (chunk, digit).

    Returns
    -------
    int64 array, same shape
        First global rank of each (digit, chunk) run, in keys.

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 4; Harada and Howes, equation 1.
    """
    return exclusive_scan(counts.ravel())[:-1].reshape(counts.shape)


def share_out(wanted: IntArray, available: IntArray) -> IntArray:
    """Distribute a number of equal keys between parts, first parts first.

    Parameters
    ----------
    wanted : int64 array, shape (boundaries,)
        Keys that equal a boundary's key and come before the boundary.
    available : int64 array, shape (parts, boundaries)
        Keys that equal the boundary's key in each part: chunks, or nodes of the tree of chunks, in order.

    Returns
    -------
    int64 array, shape (parts, boundaries)
        Those of each part that come before the boundary.
    """
    return np.clip(wanted - (np.cumsum(available, axis=0) - available), 0, available)
