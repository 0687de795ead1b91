"""Ranks of keys among all keys of their lane, for NumPy and CuPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..order import Order
from . import ops_for
from .distinct import NAN_KINDS, TieGroups, are_nan, changes

#: How ties are ranked, as by `scipy.stats.rankdata`.
RankMethod = Literal["average", "min", "max", "dense", "ordinal"]
#: What NaN do, as in SciPy.
NanPolicy = Literal["propagate", "omit", "raise"]

METHODS: tuple[str, ...] = get_args(RankMethod)
NAN_POLICIES: tuple[str, ...] = get_args(NanPolicy)


@dataclass(frozen=True)
class Ranking:
    """How keys are ranked.

    Attributes
    ----------
    method : {"average", "min", "max", "dense", "ordinal"}
    nan_policy : {"propagate", "omit", "raise"}
    pct : bool
        Whether ranks are divided by the number of keys that are not NaN.
    """

    method: RankMethod
    nan_policy: NanPolicy
    pct: bool

    def dtype_of(self, keys: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the ranks: integers unless some are fractions or may be NaN."""
        may_be_nan = keys.kind in NAN_KINDS and self.nan_policy != "raise"
        return np.dtype(np.float64 if self.method == "average" or self.pct or may_be_nan else np.int64)

    def of_groups(self, number: Any, before: Any, counts: Any) -> Any:
        """The rank of each tie group, from its number, the keys before it and its keys; not for "ordinal"."""
        if self.method == "average":
            return before + (counts + 1) / 2
        return {"min": before, "max": before + counts - 1, "dense": number}[self.method] + 1

    def refuse_nan(self, found: Any) -> None:
        """Raise if there are NaN and the policy says so.

        Raises
        ------
        ValueError
            If it does.
        """
        if self.nan_policy == "raise" and bool(found):
            raise ValueError("The input contains nan values: use nan_policy='omit' or 'propagate'")


def rank_rows(block: Any, ranking: Ranking, axis: int) -> Any:
    """The ranks of a chunk's keys along an axis that is whole in the chunk."""
    rows = np.moveaxis(block, axis, -1)
    dtype = ranking.dtype_of(block.dtype)
    found = _rank_rows(rows, ranking).astype(dtype, copy=False) if block.size else np.empty_like(rows, dtype=dtype)
    if block.dtype.kind in NAN_KINDS:
        nans = are_nan(rows)
        ranking.refuse_nan(nans.any())
        if ranking.pct:
            # Where all keys are NaN, so are all ranks.
            found /= np.maximum(rows.shape[-1] - nans.sum(axis=-1, keepdims=True), 1)
        if dtype.kind == "f":
            without = nans if ranking.nan_policy == "omit" else nans.any(axis=-1, keepdims=True)
            found[np.broadcast_to(without, found.shape)] = np.nan
    elif ranking.pct:
        found /= rows.shape[-1]
    return np.moveaxis(found, -1, axis)


def _rank_rows(rows: Any, ranking: Ranking) -> Any:
    """The ranks of keys along the last axis. NaN are equal, and last."""
    ordered, positions = _sorted_rows(rows.reshape(-1, rows.shape[-1]))
    ranks = None if ranking.method == "ordinal" else _of_ties(ordered, ranking)
    if ranks is None:
        ranks = np.arange(positions.size, like=positions, dtype=np.int64) % rows.shape[-1] + 1
    return ops_for(rows).scatter(ranks, positions).reshape(rows.shape)


def _sorted_rows(rows: Any) -> tuple[Any, Any]:
    """Rows of keys, sorted, and the positions of the sorted keys among all keys, shape (keys,)."""
    ops, order, (count, length) = ops_for(rows), Order(rows.dtype, stable=True), rows.shape
    if count == 1:
        run = ops.local_sort(rows.reshape(-1), (), order, positions=True)
        return ops.decode(run.keys, order).reshape(1, -1), run.values[-1]
    positions = ops.argsort_rows(rows, order, 1)
    ordered = ops.take_rows(rows, positions, 1)
    return ordered, (positions + np.arange(0, count * length, length, like=positions)[:, None]).reshape(-1)


def _of_ties(ordered: Any, ranking: Ranking) -> Any:
    """The ranks of sorted rows, shape (keys,); None if no keys tie, as all methods give ordinal ranks then."""
    length = ordered.shape[1]
    firsts = np.ones_like(ordered, dtype=bool)
    firsts[:, 1:] = changes(ordered[:, 1:], ordered[:, :-1], equal_nan=True)
    groups = TieGroups(ordered.reshape(-1), firsts.reshape(-1))
    if groups.count == ordered.size:
        return None
    starts = groups.bounds[:-1]
    # Numbers and positions count from the first row; ranks count from their own.
    number = np.arange(groups.count, like=starts) - groups.numbers[starts // length * length]
    ranks = ranking.of_groups(number, starts % length, groups.bounds[1:] - starts)
    return ranks[groups.numbers]
