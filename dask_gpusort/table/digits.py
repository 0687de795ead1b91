"""Digit histograms of sorted chunks, their common table, and the digits in which ranks fall.

Satish, Harris, Garland, IPDPS 2009, section 4 (column-major table, one scan).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def exclusive_scan(counts: IntArray) -> IntArray:
    """Sums of all earlier entries, with the total appended: shape (n,) to (n + 1,)."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def scan_table(counts: IntArray) -> IntArray:
    """Exclusive-scan a digit table, shape (radix, num_chunks), into the global rank at which each run begins."""
    # C order here is the papers' column-major order of (chunk, digit): Satish, Harris, Garland, IPDPS 2009, section 4;
    # Harada and Howes, equation 1.
    return exclusive_scan(counts.ravel())[:-1].reshape(counts.shape)


@dataclass(frozen=True)
class Digits:
    """Digit histogram of sorted codes: ``counts[j]`` codes have ``code >> shift == first + j``."""

    shift: int
    first: int
    counts: IntArray


def digit_table(digits: Sequence[Digits | None], radix_bits: int) -> tuple[int, int, IntArray]:
    """Bring histograms, one a chunk, onto one grid of at most ``2**radix_bits`` digits."""
    # Returns a shift, ``code >> shift`` of the first row, and counts of shape (radix, num_chunks). Each chunk's
    # histogram counts ``code >> shift`` with its own shift. A finer grid coarsens exactly onto a coarser one, because
    # both are aligned to powers of two.
    known = [d for d in digits if d is not None]
    lowest = min(d.first << d.shift for d in known)
    highest = max((d.first + len(d.counts)) << d.shift for d in known) - 1
    shift = max(max(d.shift for d in known), (lowest ^ highest).bit_length() - radix_bits)
    first = lowest >> shift
    counts = np.zeros(((highest >> shift) - first + 1, len(digits)), np.int64)
    for column, histogram in enumerate(digits):
        if histogram is not None:
            finer = shift - histogram.shift
            # The chunk's first digit may be in the middle of a common one.
            lead = histogram.first & ((1 << finer) - 1)
            rows = (np.arange(len(histogram.counts)) + lead) >> finer
            np.add.at(counts[:, column], rows + ((histogram.first >> finer) - first), histogram.counts)
    return shift, first, counts


def digit_cuts(digits: Sequence[Digits | None], ranks: IntArray, radix_bits: int) -> tuple[IntArray, IntArray]:
    """First and last possible cut of each chunk at each rank: around its keys of the digit in which the rank falls."""
    # Shape (chunks, ranks) each.
    _, _, counts = digit_table(digits, radix_bits)
    # The digit in which each rank falls: of several equal starts, only the last digit is not empty.
    rows = np.searchsorted(scan_table(counts)[:, 0], ranks, side="right") - 1
    last = np.cumsum(counts, axis=0)[rows]
    return (last - counts[rows]).T, last.T
