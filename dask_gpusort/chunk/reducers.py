"""What is found of rows, each of all keys of a lane or of one of its groups, for NumPy and CuPy.

A reducer is to groups what `table.Statistic` is: leading dimensions of its results (`shape`), their dtype (`dtype_of`),
and what it finds (`of_rows`). A row of fewer than `least` keys lacks results: there is `fill`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..order import Order
from ..table import Statistic
from . import library_of, ops_for
from .lanes import BATCH_BYTES, batches, lanes_last, result_shape
from .tie_groups import NanPolicy, TieGroups, are_nan, refuse_nan

#: Bytes for each key of a row besides itself: positions, and bounds of the runs of equal keys.
_ROW_BYTES = 16


@dataclass(frozen=True)
class Reducer:
    """What is found of rows; see the module. A new one is a function of rows, and a function that makes this of it."""

    #: Of a matrix with columns, which is lost: results of each row, as far as its keys suffice, shape (results, rows).
    of_rows: Callable[[Any], Any]
    shape: tuple[int, ...] = ()
    least: int = 1
    fill: int | None = None  # None for NaN or NaT
    positions: bool = False  # whether results are positions in a row
    #: As of `Statistic`.
    objects = False

    def dtype_of(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Give the dtype of the results for keys of a dtype."""
        return dtype if self.fill is None else np.dtype(np.int64)


def top_keys(k: int, positions: bool) -> Reducer:
    """Find the `k` largest keys, or the ``-k`` smallest, in the order of a stable sort, or their positions in a row."""
    of_rows = partial(_top_of_rows, k=k, positions=positions)
    return Reducer(of_rows, (abs(k),), abs(k), -1 if positions else None, positions)


def _top_of_rows(rows: Any, k: int, positions: bool) -> Any:
    ops, order = ops_for(rows), Order(rows.dtype, k > 0, stable=True)
    if not positions:
        return ops.first_keys(rows, order, abs(k)).T
    indices = ops.first_indices(rows, order, abs(k), 1)
    by_key = ops.argsort_rows(ops.take_rows(rows, indices, 1), order, 1)
    return ops.take_rows(indices, by_key, 1).T


def count_distinct(equal_nan: bool) -> Reducer:
    """Count the distinct keys."""
    return Reducer(partial(_count_distinct, equal_nan=equal_nan), fill=0)


def _count_distinct(rows: Any, equal_nan: bool) -> Any:
    return _tie_groups(rows, equal_nan, stable=False)[1].count_in_rows()[None]


def most_common(policy: Any) -> tuple[Reducer, Reducer]:
    """Find the key that is most common, of several the first in sorted order, and how often it occurs."""
    of_rows = partial(_most_common, policy=policy)
    return Reducer(partial(of_rows, counts=False)), Reducer(partial(of_rows, counts=True), fill=0)


def _most_common(rows: Any, policy: NanPolicy, counts: bool) -> Any:
    ordered, groups = _tie_groups(rows, equal_nan=True, stable=True)
    runs = np.zeros_like(ordered, shape=rows.size, dtype=np.min_scalar_type(rows.shape[1]))
    runs[groups.bounds[:-1]] = groups.counts
    runs = runs.reshape(rows.shape)
    leave_out_nan(ordered, runs, policy)
    at = runs.argmax(axis=1)[:, None]
    return np.take_along_axis(runs if counts else ordered, at, 1).T


def leave_out_nan(keys: Any, counts: Any, policy: NanPolicy) -> None:
    """Count NaN as a policy says."""
    if policy != "propagate":
        nans = are_nan(keys)
        refuse_nan(policy, nans.any())
        counts[nans] = 0


def _tie_groups(rows: Any, equal_nan: bool, stable: bool) -> tuple[Any, TieGroups]:
    """Sorted rows, and their groups of equal keys."""
    ops = ops_for(rows)
    ordered = ops.sort_rows(rows, Order(rows.dtype, stable=stable), 1, overwrite=True)
    return ordered, ops.tie_groups(ordered.reshape(-1), equal_nan, rows.shape[1])


def reduce_lanes(
    block: Any, statistic: Statistic | Reducer, axes: Sequence[int], keepdims: bool = False, dtype: Any = None
) -> Any:
    """Reduce each lane of a chunk: shape (*statistic.shape, *kept axes), in a dtype if the results are not all there.

    See `numpy_select.reduce_lanes` for a statistic.
    """
    if isinstance(statistic, Statistic):
        return ops_for(block).reduce_lanes(block, statistic, axes, keepdims)
    lanes, kept, length = lanes_last(block, axes)
    dtype = statistic.dtype_of(block.dtype) if dtype is None else dtype
    results = math.prod(statistic.shape)
    found = np.empty_like(block, shape=(results, *kept), dtype=dtype)
    if length < statistic.least:
        found[...] = fill_of(statistic, dtype)
    lane_bytes = max(length * (block.dtype.itemsize + _ROW_BYTES), 1)
    for batch in batches(kept, max(1, BATCH_BYTES[library_of(block)] // lane_bytes)) if found.size and length else ():
        part = found[(slice(min(results, length)), *batch)]
        rows = lanes[batch].copy().reshape(math.prod(part.shape[1:]), length)
        part[...] = statistic.of_rows(rows).reshape(part.shape)
    return found.reshape(result_shape(statistic, block.shape, axes, keepdims))


def fill_of(statistic: Statistic | Reducer, dtype: np.dtype[Any]) -> Any:
    """What is found of rows without keys, in a dtype."""
    return missing_of(dtype) if statistic.fill is None else statistic.fill


def missing_of(dtype: np.dtype[Any]) -> Any:
    """NaN or NaT of a dtype, or what is there for its missing strings."""
    return np.array("NaT" if dtype.kind in "mM" else getattr(dtype, "na_object", np.nan), dtype)[()]
