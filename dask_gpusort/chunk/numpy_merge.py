"""Merges of sorted runs of unsigned codes, in a few large NumPy calls.

Many threads merge side by side only while NumPy works on large arrays: each
call takes the interpreter's lock once. Pieces of the runs that fit the cache
are merged in up to a third less time by one thread, but in 7 times the time by
sixteen: 2**27 64-bit codes in 128 groups of 64 runs take 0.99 s by pieces of
2**15 keys, and 0.13 s by one sort of each group (Xeon, 16 cores).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .merge_choice import prefers_merge
from .numpy_packing import Array, as_rows, unpack_positions
from .numpy_radix import SMALL, sort, sorted_words

# Most runs that np.argsort finds and merges as fast as this file does. 2 / 4 / 8 runs of 2**21 u4: 0.95 / 1.11 /
# 1.81 times as fast as np.argsort, of u8 0.84 / 1.00 / 1.62 times (on an AVX-512 Xeon).
_FOUND_RUNS = 2


def join_runs(runs: Sequence[Array], out: Array | None = None) -> Array:
    """Merge sorted runs of one unsigned dtype, which are not modified, into new memory or `out`.

    NumPy's stable sort merges them, or a fresh sort if that is faster on this processor (see `merge_choice`).
    """
    if not runs:
        raise ValueError("no runs to join; pass at least one, which may be empty")
    filled = [run for run in runs if run.size]
    joined: Array = np.concatenate(runs, out=out)
    if all(a[-1] <= b[0] for a, b in pairwise(filled)):
        return joined
    # Narrow codes are counted, which reads them once in any order.
    if joined.dtype.itemsize > 2 and prefers_merge(joined.dtype, len(filled)):
        joined.sort(kind="stable")
    else:
        sort(joined)
    return joined


def argmerge_runs(codes: Array, offsets: Sequence[int] | Array) -> Array:
    """Find the int64 positions that sort contiguous sorted runs ``codes[offsets[i]:offsets[i + 1]]`` stably."""
    runs = len(offsets) - 1
    if codes.size == 0 or runs <= 1:
        return np.arange(codes.size, dtype=np.int64)
    if codes.dtype.itemsize <= 2 or codes.size <= SMALL or runs <= _FOUND_RUNS:
        return np.argsort(codes, kind="stable").astype(np.int64, copy=False)
    words, index_bits, *_ = sorted_words(as_rows(codes), runs)
    positions: Array = unpack_positions(words, index_bits)[0]
    return positions
