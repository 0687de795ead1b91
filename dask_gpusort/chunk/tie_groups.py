"""Tie groups of sorted keys, and ranks of keys among all keys of their lane.

A tie group is all equal keys. In sorted keys it is contiguous::

    keys       1  1  1  4  4  7            of one chunk, sorted
    bounds     0        3     5   (6)      first of each tie group, and the end
    numbers    0  0  0  1  1  2            the tie group of each key

Keys are compared by ``==``: so signed zeros are equal, and NaN are equal only on request. Missing strings and Python
objects that differ from themselves are NaN, too. `cupy_ties` has the same groups on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from ..order import Order
from . import ops_for

#: How ties are ranked, as by `scipy.stats.rankdata`.
RankMethod = Literal["average", "min", "max", "dense", "ordinal"]

#: What NaN do, as in SciPy.
NanPolicy = Literal["propagate", "omit", "raise"]
METHODS: tuple[str, ...] = get_args(RankMethod)
NAN_POLICIES: tuple[str, ...] = get_args(NanPolicy)


def may_be_nan(dtype: np.dtype[Any]) -> bool:
    """Tell whether keys of a dtype may be NaN or NaT, or strings that are missing as NaN is."""
    if dtype.kind == "T":
        return bool(np.isnan(np.array([getattr(dtype, "na_object", "")], dtype))[0])
    return dtype.kind in "fcmMO"


def are_nan(keys: Any) -> Any:
    """Tell whether each key is NaN or NaT; False for records, which `numpy.unique` does not search for them."""
    return changes(keys, keys, False) if may_be_nan(keys.dtype) else np.zeros_like(keys, dtype=bool)


def is_any_nan(keys: Any) -> bool:
    """Tell whether some key is NaN or NaT."""
    if keys.dtype.kind != "f" or not keys.size:
        return may_be_nan(keys.dtype) and bool(are_nan(keys).any())
    with np.errstate(invalid="ignore"):
        largest = keys.max()  # of floats it is NaN, by one read
    return bool(largest != largest)


def changes(keys: Any, others: Any, equal_nan: bool) -> Any:
    """Tell elementwise whether keys are not equal to others."""
    # NumPy warns of signalling NaN. Of a missing string, both its `==` and its `!=` are False.
    with np.errstate(invalid="ignore"):
        found = ~(keys == others)
    if equal_nan and may_be_nan(keys.dtype):
        found &= ~(are_nan(keys) & are_nan(others))
    return found


def ranks_of_groups(method: RankMethod, before: Any, after: Any) -> Any:
    """Give the "average", "min" or "max" rank of tie groups, from the keys up to them and with them."""
    if method == "average":
        found = before + after
        found += 1
        return found / 2
    return before + 1 if method == "min" else after


class TieGroups:
    """Hold the tie groups of sorted keys, in rows of `length` keys, each sorted, or in one row."""

    # All NaN of a row are one group with `equal_nan`, else each is one.

    def __init__(self, keys: Any, equal_nan: bool, length: int | None = None) -> None:
        self.keys = keys
        self.length = max(len(keys) if length is None else length, 1)
        self._mark(equal_nan)

    def _mark(self, equal_nan: bool) -> None:
        self._firsts = self._find_firsts(equal_nan)

    def _find_firsts(self, equal_nan: bool) -> Any:
        """Tell whether each key is the first of its group."""
        firsts = np.ones_like(self.keys, dtype=bool)
        firsts[1:] = changes(self.keys[1:], self.keys[:-1], equal_nan)
        firsts[:: self.length] = True
        return firsts

    @cached_property
    def count(self) -> int:
        """Number of groups."""
        return int(np.count_nonzero(self._firsts))

    def count_in_rows(self) -> Any:
        """Number of groups in each row."""
        return self._firsts.reshape(-1, self.length).sum(axis=1, dtype=np.min_scalar_type(self.length))

    @property
    def all_differ(self) -> bool:
        """Whether each key is a group."""
        return self.count == len(self.keys)

    @cached_property
    def bounds(self) -> Any:
        """Position of the first key of each group, and the number of keys: int64, shape (groups + 1,)."""
        return self._up_to(self.count + 1) if self.all_differ else self._list_bounds()

    def _up_to(self, end: int) -> Any:
        """Give the integers from 0 to ``end - 1``, int64."""
        return np.arange(end, dtype=np.int64)

    def _list_bounds(self) -> Any:
        return np.append(np.flatnonzero(self._firsts), len(self.keys))

    def of_firsts(self, amounts: Any) -> Any:
        """Give the amounts of the first key of each group."""
        return amounts if self.all_differ else self._take_firsts(amounts)

    def _take_firsts(self, amounts: Any) -> Any:
        # NumPy takes a third of the time for positions that it takes for a mask.
        return amounts.take(self.bounds[:-1], axis=0)

    @cached_property
    def values(self) -> Any:
        """The first key of each group."""
        return self.of_firsts(self.keys)

    @property
    def counts(self) -> Any:
        """Keys of each group, int64."""
        if self.all_differ:
            return np.ones_like(self.keys, dtype=np.int64)
        return np.diff(self.bounds)

    @property
    def numbers(self) -> Any:
        """The number of each key's group, int64."""
        return self._up_to(self.count) if self.all_differ else self._number_keys()

    def _number_keys(self) -> Any:
        return np.cumsum(self._firsts, dtype=np.int64) - 1

    def sums_before(self, amounts: Any) -> Any:
        """Give the sum of some amounts of the keys before each group, and of all: int64, shape (groups + 1,)."""
        sums = np.zeros_like(amounts, shape=(len(amounts) + 1,), dtype=np.int64)
        np.cumsum(amounts, dtype=np.int64, out=sums[1:])
        return sums if self.all_differ else sums[self.bounds]

    def scatter_numbers(self, positions: Any, dtype: Any) -> Any:
        """Give the number of the group of each sorted key, at the key's position among the unsorted ones."""
        return ops_for(self.keys).scatter(self.numbers.astype(dtype, copy=False), positions)

    def scatter_repeats(self, positions: Any, dtype: Any) -> Any:
        """How many keys of its group precede each sorted key, at the key's position among the unsorted ones."""
        if self.all_differ:
            return np.zeros_like(self.keys, dtype=dtype)
        preceding = self._up_to(len(self.keys))
        preceding -= self.spread(self.bounds[:-1])
        return ops_for(self.keys).scatter(preceding.astype(dtype), positions)

    def scatter_ranks(self, positions: Any, method: RankMethod, dtype: Any) -> Any:
        """Give the rank of each sorted key in its row, at the key's position among the unsorted ones."""
        return ops_for(self.keys).scatter(self._rank_keys(method).astype(dtype, copy=False), positions)

    def _rank_keys(self, method: RankMethod) -> Any:
        """Ranks of the sorted keys in their rows."""
        if method == "ordinal" or self.all_differ:
            return self._up_to(len(self.keys)) % self.length + 1
        # Numbers and positions count from the first row; ranks count from their own.
        starts = self.bounds[:-1]
        if method == "dense":
            return self.spread(self._up_to(self.count) - self.numbers[starts // self.length * self.length] + 1)
        before = starts % self.length
        return self.spread(ranks_of_groups(method, before, before + self.counts))

    def spread(self, amounts: Any) -> Any:
        """Give each key the amount of its group."""
        return amounts if self.all_differ else amounts[self.numbers]


def refuse_nan(policy: NanPolicy, found: Any) -> None:
    """Raise if NaN are found and the policy says so."""
    if policy == "raise" and bool(found):
        raise ValueError("The input contains nan values: use nan_policy='omit' or 'propagate'")


@dataclass(frozen=True)
class Ranking:
    """Say how keys are ranked."""

    method: RankMethod
    nan_policy: NanPolicy
    pct: bool  # whether ranks are divided by the number of keys that are not NaN
    descending: bool = False  # whether the largest key has rank 1

    def dtype_of(self, keys: np.dtype[Any]) -> np.dtype[Any]:
        """Give the dtype of the ranks: integers unless some are fractions or may be NaN."""
        has_nan = may_be_nan(keys) and self.nan_policy != "raise"
        return np.dtype(np.float64 if self.method == "average" or self.pct or has_nan else np.int64)

    def refuse_nan(self, found: Any) -> None:
        """Raise if there are NaN and the policy says so."""
        refuse_nan(self.nan_policy, found)


def rank_rows(block: Any, ranking: Ranking, axis: int) -> Any:
    """Give the ranks of a chunk's keys along an axis that is whole in the chunk."""
    rows = np.moveaxis(block, axis, -1)
    dtype = ranking.dtype_of(block.dtype)
    if block.size:
        matrix = rows.reshape(-1, rows.shape[-1])
        found = ops_for(rows).rank_keys(matrix, ranking.method, dtype, ranking.descending).reshape(rows.shape)
    else:
        found = np.empty_like(rows, dtype=dtype)
    some = is_any_nan(rows)
    ranking.refuse_nan(some)
    nans = are_nan(rows) if some else None
    if ranking.pct:
        # Where all keys are NaN, so are all ranks.
        found /= rows.shape[-1] if nans is None else np.maximum(rows.shape[-1] - nans.sum(axis=-1, keepdims=True), 1)
    if nans is not None and dtype.kind == "f":
        without = nans if ranking.nan_policy == "omit" else nans.any(axis=-1, keepdims=True)
        found = np.where(without, np.nan, found)
    return np.moveaxis(found, -1, axis)


def rank_keys(rows: Any, method: RankMethod, dtype: np.dtype[Any], descending: bool = False) -> Any:
    """Give the ranks of keys in the rows of a matrix, row after row. NaN are equal, and last."""
    ordered, positions = _sorted_rows(rows, Order(rows.dtype, descending, stable=True))
    groups = ops_for(rows).tie_groups(ordered, True, rows.shape[1])
    return groups.scatter_ranks(positions, method, dtype)


def _sorted_rows(rows: Any, order: Order) -> tuple[Any, Any]:
    """Rows of keys, sorted, and the positions of the sorted keys among all keys, each of shape (keys,)."""
    ops, (count, length) = ops_for(rows), rows.shape
    if count == 1:
        found: tuple[Any, Any] = ops.sort_and_argsort(rows.reshape(-1), order)
        return found
    ordered, positions = ops.sort_and_argsort(rows, order)
    whole = positions + np.arange(0, count * length, length, like=positions)[:, None]
    return ordered.reshape(-1), whole.reshape(-1)
