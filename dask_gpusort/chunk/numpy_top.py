"""The first keys of the rows of one NumPy chunk, in the order of the sort, without sorting the others."""

from __future__ import annotations

import math

import numpy as np

from ..order import Order
from .numpy_keys import encode, floor
from .numpy_rows import argsort_rows

#: Keys of rows whose first keys are selected together: 64-bit codes then fill about a level-2 cache.
_ROW_KEYS = 1 << 17
#: Keys of a row from which on its first keys are selected from those up to a bound, and the most that may be selected.
_LONG_ROW, _LARGEST_SHARE = 1 << 15, 1 / 8
#: Keys of a row for each sample. In 800,000 float64 (EPYC), 12,500 samples take 0.05 ms and each selected key 20 ns.
_STEP = 64
#: Kinds of dtypes whose keys NumPy compares as it sorts them, NaN and NaT apart.
_COMPARED_KINDS = "biufcmMSU"


def first_indices(block: np.ndarray, order: Order, count: int, axis: int) -> np.ndarray:
    """Find int64 indices of the first `count` keys of each row along an axis in the order of a stable sort, or of all.

    A row's indices are not sorted by key, but those of equal keys ascend.
    """
    rows = np.moveaxis(block, axis, -1)
    length = rows.shape[-1]
    if not 0 < count < length:
        every = np.arange(min(count, length))
        return np.moveaxis(np.broadcast_to(every, (*rows.shape[:-1], len(every))), -1, axis)
    if length < _LONG_ROW or count > length * _LARGEST_SHARE or order.dtype.kind not in _COMPARED_KINDS:
        return np.moveaxis(_first_of_rows(rows, order, count), -1, axis)
    found = np.empty((*rows.shape[:-1], count), np.int64)
    for index in np.ndindex(rows.shape[:-1]):
        found[index] = _first_of_long_row(rows[index], order, count)
    return np.moveaxis(found, -1, axis)


def _first_of_long_row(row: np.ndarray, order: Order, count: int) -> np.ndarray:
    """Select the first keys of one row from the keys up to a bound that samples give."""
    # Of the first keys, samples contain a number with a mean of ``count / _STEP`` and a smaller deviation than its
    # root. The bound is the sample five deviations and five samples beyond the mean: in random order less than one row
    # in 10^6 has too few keys up to it. They are counted. If they are too few or too many, the whole row is selected
    # from.
    sample = row[::_STEP]
    mean = count / _STEP
    rank = math.ceil(mean + 5 * math.sqrt(mean)) + 5
    first = sample[_first_of_rows(sample[None], order, min(rank, len(sample)))[0]]
    # Selections by codes are not sorted.
    bound = first[np.argmax(floor(encode(first, order), order)) if order.coded else -1]
    with np.errstate(invalid="ignore"):
        before = np.flatnonzero(row > bound if order.descending else row < bound)
    if len(before) < count:
        # The bound is the last key, or it is NaN or NaT, which equals nothing.
        ties = np.flatnonzero(row == bound)[: count - len(before)]
        if len(before) + len(ties) == count:
            return np.concatenate([before, ties])
    if not count <= len(before) <= len(row) // 4:
        return _first_of_rows(row[None], order, count)[0]
    found: np.ndarray = before[_first_of_rows(row[before][None], order, count)[0]]
    return found


def _first_of_rows(rows: np.ndarray, order: Order, count: int) -> np.ndarray:
    """Find the indices of the first keys along the last axis, of which there are at least `count`."""
    if not order.coded:
        return argsort_rows(rows, order, -1)[..., :count]
    found = np.empty((*rows.shape[:-1], count), np.int64)
    batch = max(1, _ROW_KEYS // max(1, math.prod(rows.shape[1:])))
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        codes = floor(encode(rows[part], order), order)
        found[part] = _first_codes(codes.reshape(-1, rows.shape[-1]), count).reshape(found[part].shape)
    return found


def _first_codes(codes: np.ndarray, count: int) -> np.ndarray:
    """Ascending indices of the least codes of each row, shape (rows, keys); the first ones of equal codes."""
    last = np.partition(codes, count - 1, axis=1)[:, count - 1 : count]
    kept = codes <= last
    if np.count_nonzero(kept) > len(codes) * count:
        # More keys than are missing tie for the last rank.
        ties = codes == last
        missing = count - np.count_nonzero(codes < last, axis=1, keepdims=True)
        kept &= ~ties | (np.cumsum(ties, axis=1) <= missing)
    return (np.flatnonzero(kept) % codes.shape[1]).reshape(len(codes), count)
