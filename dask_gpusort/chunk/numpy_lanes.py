"""Order statistics of the lanes of one NumPy chunk, along axes that are in one chunk.

Lanes are copied into rows, some at a time, so that a chunk is never copied as a whole::

    copy a batch of lanes -> count NaN -> keys at the ranks: partitions, or a sort -> `Statistic.result`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..table import Statistic
from .lanes import batches, has_nan, lanes_last, reduce_sorted, result_shape

#: Bytes of the rows that are copied and reduced at a time.
_BATCH_BYTES = 1 << 20


def reduce_lanes(block: np.ndarray, statistic: Statistic, axes: Sequence[int], keepdims: bool = False) -> Any:
    """Find the statistic of each lane of a chunk, shape (*statistic.shape, *kept axes), or a scalar without dimensions.

    The bits are those of NumPy's function, apart from which of two equal zeros is at a rank.
    """
    shape = result_shape(statistic, block.shape, axes, keepdims)
    if block.dtype.hasobject or statistic.objects:
        found = statistic.by_numpy(block, tuple(axes))
        return np.asarray(found, statistic.dtype_of(block.dtype)).reshape(shape)[()]
    lanes, kept, length = lanes_last(block, axes)
    quantiles = math.prod(statistic.shape)
    found = np.empty((quantiles, *kept), statistic.dtype_of(block.dtype))
    # The statistics of a lane take some ten arrays of 8 bytes a quantile.
    lane_bytes = max(length * block.dtype.itemsize, 80 * quantiles, 1)
    for batch in batches(kept, max(1, _BATCH_BYTES // lane_bytes)):
        part = found[(slice(None), *batch)]
        rows = np.array(lanes[batch], block.dtype.newbyteorder("="), order="C")
        rows = rows.reshape(math.prod(part.shape[1:]), length)
        part[...] = _reduce_rows(rows, statistic).reshape(part.shape)
    return found.reshape(shape)[()]


def _reduce_rows(rows: np.ndarray, statistic: Statistic) -> np.ndarray:
    """Give the statistic of each row, shape (quantiles, rows); the rows are overwritten."""
    length = rows.shape[1]
    if length == 0:
        rows = np.zeros((len(rows), 1), rows.dtype)
        return np.asarray(reduce_sorted(rows, statistic, np.zeros(len(rows), np.int64), length))
    nans = _count_nans(rows, exact=statistic.skip_nan)
    if statistic.skip_nan and nans.any():
        if len(rows) > 1 or nans[0] == length:
            rows.sort(axis=1)
            return np.asarray(reduce_sorted(rows, statistic, nans, length))
        rows = rows[:, ~np.isnan(rows[0])]
    # All rows have the same number of keys, so the same ranks.
    counts = np.array([rows.shape[1]])
    ranks = statistic.ranks(counts)[..., 0]
    wanted = np.unique(ranks)
    if rows.dtype.kind not in "biufcmM" or _prefers_sort(len(wanted), length):
        rows.sort(axis=1)
    else:
        _partition(rows, wanted)
    keys = rows.T[ranks]
    return np.asarray(statistic.result(keys, counts, nans))


def _count_nans(rows: np.ndarray, *, exact: bool) -> np.ndarray:
    """Count the NaN in each row, int64; unless `exact`, 1 stands for any number."""
    if not has_nan(rows.dtype):
        return np.zeros(len(rows), np.int64)
    # A maximum is NaN where a key is, and takes a third of the time of counting.
    found = np.isnan(rows.max(axis=1))
    if exact and found.any():
        return np.count_nonzero(np.isnan(rows), axis=1)
    return found.astype(np.int64)


def _prefers_sort(wanted: int, length: int) -> bool:
    """Tell whether a sort of the rows takes less time than the partitions for so many ranks."""
    levels = ((wanted + 1) // 2).bit_length()
    return 4 * levels > length.bit_length()


def _partition(rows: np.ndarray, wanted: np.ndarray) -> None:
    """Put the keys of some ranks, which are distinct and sorted, to their ranks in each row, and lose others.

    NumPy has vector instructions for a partition by one rank, and none for several.
    """
    if len(wanted) == 0:
        return
    middle = len(wanted) // 2
    rank, below, above = wanted[middle], wanted[:middle], wanted[middle + 1 :] - wanted[middle] - 1
    rows.partition(rank, axis=1)
    left, right = rows[:, :rank], rows[:, rank + 1 :]
    if below.tolist() == [rank - 1]:
        left[:, -1] = left.max(axis=1)
    else:
        _partition(left, below)
    if above.tolist() == [0]:
        right[:, 0] = right.min(axis=1)
    else:
        _partition(right, above)
