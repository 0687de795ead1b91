"""Positions that sort keys, for keys that NumPy sorts fast itself: in order already, few, or narrow.

Figures in comments: one core of an EPYC 7003 (AVX2, 512 KiB level-2 cache),
NumPy 2.4, 2**24 keys, least of three runs, both sides in one process.
"""

from __future__ import annotations

import numpy as np

from ..keys import BLOCK_KEYS
from .numpy_packing import Array, tiles

# Most descents of a row that is treated as a few contiguous sorted runs, which
# np.argsort(kind="stable") finds and merges. 2 / 4 / 8 equal runs of u8: 179 /
# 258 / 356 ms, words sorted afresh 427 / 635 / 533 ms; with unequal runs, such
# as a sorted row with a few keys out of order, it takes no longer than a copy.
_FEW_DESCENTS = 7

# Most keys for which np.argsort(kind="stable") costs less than the overhead of a
# dozen NumPy calls: 2**11 keys take it 41 us, words 66 us (u4) and 94 us (u8); 2**12
# keys 162 us, words 88 and 117 us.
SMALL = 1 << 11

# Keys of a row that are probed first: so few that NumPy keeps the interpreter's
# lock, which many threads wait for longer than for a longer test.
_PROBED_KEYS = 400

# Longest row for which NumPy's insertion sort wins. 2**20 keys in
# rows of 4 / 16 / 64: words are 0.6 / 1.3 / 2 times as fast (u8), 0.9 / 1.5 /
# 3.8 (u4).
_SHORT_ROW = 8


def known_positions(rows: Array) -> Array | None:
    """Find the positions by a faster method than sorting words, if there is one."""
    # There is one for narrow codes, for few keys, and for rows that are in order: a few runs, or reversed. Each test
    # stops at the first block that fails it, so other inputs cost almost nothing. np.argsort(kind="stable") takes
    # linear time for the rows that pass.
    if rows.dtype.itemsize <= 2 or rows.size <= SMALL or rows.shape[-1] <= _SHORT_ROW:
        return _numpy_positions(rows)
    num_keys = rows.shape[-1]
    if len(rows) == 1 and _is_unordered(rows[0, :_PROBED_KEYS]):
        return None
    descents = _few_descents(rows)
    if descents is not None and len(descents) == 0:
        positions = np.arange(num_keys, dtype=np.int64).reshape(1, -1)
        return positions if len(rows) == 1 else np.repeat(positions, len(rows), axis=0)
    if len(rows) == 1:
        if descents is not None:
            return _numpy_positions(rows)
        if _never(np.less_equal, rows[0]):
            return np.arange(num_keys - 1, -1, -1, dtype=np.int64).reshape(1, -1)
        if _never(np.less, rows[0]):
            return _reversed_positions(rows[0]).reshape(1, -1)
    return None


def _is_unordered(keys: Array) -> bool:
    """Whether a part of a row shows that the row is neither a few runs nor reversed."""
    rises, falls = keys[1:] > keys[:-1], keys[1:] < keys[:-1]
    return bool(rises.any() and falls.sum() > _FEW_DESCENTS)


def _numpy_positions(rows: Array) -> Array:
    return np.argsort(rows, axis=-1, kind="stable").astype(np.int64, copy=False)


def _few_descents(rows: Array) -> Array | None:
    """Flat positions of keys greater than their successor, or None if there are many."""
    num_keys = rows.shape[-1]
    found = [np.empty(0, np.int64)]
    count = 0
    for across, along in tiles(rows.shape):
        stop = min(along.stop + 1, num_keys)
        tile = rows[across, along.start : stop]
        descends = tile[:, :-1] > tile[:, 1:]
        if not descends.any():
            continue
        descents = np.flatnonzero(descends)
        count += descents.size
        if count > _FEW_DESCENTS:
            return None
        line, column = np.divmod(descents, tile.shape[-1] - 1)
        found.append((across.start + line) * num_keys + along.start + column)
    return np.concatenate(found)


def _never(compare: np.ufunc, row: Array) -> bool:
    """Whether ``compare(key, successor)`` is false everywhere in a row."""
    for start in range(0, row.size, BLOCK_KEYS):
        part = row[start : start + BLOCK_KEYS + 1]
        if compare(part[:-1], part[1:]).any():
            return False
    return True


def _reversed_positions(row: Array) -> Array:
    """Stable positions that sort a non-increasing row.

    They descend from n - 1 to 0, but ascend within a group of equal keys: in the
    result, group [first, end) holds the positions n - end up to n - first - 1.
    """
    num_keys = row.size
    positions = np.arange(num_keys - 1, -1, -1, dtype=np.int64)
    tied = np.zeros(num_keys + 1, bool)  # tied[i]: key i - 1 equals key i
    np.equal(row[::-1][1:], row[::-1][:-1], out=tied[1:-1])
    if tied.any():
        first = np.flatnonzero(tied[1:] & ~tied[:-1])
        end = np.flatnonzero(tied[:-1] & ~tied[1:]) + 1
        lengths = end - first
        members = np.arange(lengths.sum(), dtype=np.int64)
        members += np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
        positions[members] = members + np.repeat(num_keys - end - first, lengths)
    return positions
