"""What is found of rows, each of all keys of a lane or of one of its groups, for NumPy and CuPy.

A reducer is to groups what `table.Statistic` is: leading dimensions of its results (`shape`), their dtype (`dtype_of`),
and what it finds (`of_rows`). A row of fewer than `least` keys lacks results: there is `fill`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..order import Order
from ..table import Statistic
from . import library_of, ops_for
from .lanes import BATCH_BYTES, batches, lanes_last, result_shape
from .tie_groups import NanPolicy, TieGroups, are_nan, refuse_nan

#: Bytes for each key of a row besides itself: positions, and bounds of the runs of equal keys.
_ROW_BYTES = 16


class Reducer(ABC):
    """What is found of rows; see the module."""

    #: As of `Statistic`.
    objects = False

    @property
    def needed(self) -> Literal["groups", "lanes"]:
        """What must be whole in a chunk."""
        return "groups"

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading dimensions of the results."""
        return ()

    @property
    def least(self) -> int:
        """Keys that a row must have, for all results."""
        return 1

    @property
    def fill(self) -> int | None:
        """What is where there are fewer keys; None for NaN or NaT."""
        return None

    def dtype_of(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Give the dtype of the results for keys of a dtype."""
        return dtype if self.fill is None else np.dtype(np.int64)

    @abstractmethod
    def of_rows(self, rows: Any) -> Any:
        """Find the results of each row of a matrix that has keys, as far as they suffice: shape (results, rows)."""


@dataclass(frozen=True)
class TopKeys(Reducer):
    """Find the `k` largest keys, or the ``-k`` smallest, in the order of a stable sort, or their positions in a row."""

    k: int
    positions: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """See `Reducer`."""
        return (self.least,)

    @property
    def least(self) -> int:
        """See `Reducer`."""
        return abs(self.k)

    @property
    def needed(self) -> Literal["groups", "lanes"]:
        """See `Reducer`: groups that are sorted lose the positions."""
        return "lanes" if self.positions else "groups"

    @property
    def fill(self) -> int | None:
        """See `Reducer`."""
        return -1 if self.positions else None

    def of_rows(self, rows: Any) -> Any:
        """See `Reducer`."""
        ops, order = ops_for(rows), Order(rows.dtype, self.k > 0, stable=True)
        indices = ops.first_indices(rows, order, self.least, 1)
        keys = ops.take_rows(rows, indices, 1)
        by_key = ops.argsort_rows(keys, order, 1)
        return ops.take_rows(indices if self.positions else keys, by_key, 1).T


@dataclass(frozen=True)
class CountDistinct(Reducer):
    """Count the distinct keys."""

    equal_nan: bool

    @property
    def fill(self) -> int:
        """See `Reducer`."""
        return 0

    def of_rows(self, rows: Any) -> Any:
        """See `Reducer`."""
        groups = _tie_groups(rows, self.equal_nan)[1]
        return np.bincount(groups.bounds[:-1] // rows.shape[1], minlength=len(rows))[None]


@dataclass(frozen=True)
class MostCommon(Reducer):
    """Find the key that is most common, of several the first in sorted order, or how often it occurs."""

    counts: bool
    nan_policy: NanPolicy

    @property
    def fill(self) -> int | None:
        """See `Reducer`."""
        return 0 if self.counts else None

    def of_rows(self, rows: Any) -> Any:
        """See `Reducer`."""
        ordered, groups = _tie_groups(rows, equal_nan=True)
        runs = np.zeros_like(ordered, shape=rows.size, dtype=np.min_scalar_type(rows.shape[1]))
        runs[groups.bounds[:-1]] = groups.counts
        runs = runs.reshape(rows.shape)
        self.leave_out_nan(ordered, runs)
        at = runs.argmax(axis=1)[:, None]
        return np.take_along_axis(runs if self.counts else ordered, at, 1).T

    def leave_out_nan(self, keys: Any, counts: Any) -> None:
        """Count NaN as the policy says."""
        if self.nan_policy != "propagate":
            nans = are_nan(keys)
            refuse_nan(self.nan_policy, nans.any())
            counts[nans] = 0


def _tie_groups(rows: Any, equal_nan: bool) -> tuple[Any, TieGroups]:
    """Sorted rows, and their groups of equal keys."""
    ops = ops_for(rows)
    ordered = ops.sort_rows(rows, Order(rows.dtype, stable=True), 1)
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
        rows = lanes[batch].reshape(math.prod(part.shape[1:]), length)
        part[...] = statistic.of_rows(rows).reshape(part.shape)
    return found.reshape(result_shape(statistic, block.shape, axes, keepdims))


def fill_of(statistic: Statistic | Reducer, dtype: np.dtype[Any]) -> Any:
    """What is found of rows without keys, in a dtype."""
    return missing_of(dtype) if statistic.fill is None else statistic.fill


def missing_of(dtype: np.dtype[Any]) -> Any:
    """NaN or NaT of a dtype."""
    return np.array("NaT" if dtype.kind in "mM" else np.nan, dtype)[()]
