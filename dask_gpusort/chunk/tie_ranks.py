"""Ranks of keys among all keys of their lane, for NumPy and CuPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..order import Order
from . import ops_for
from .tie_groups import NAN_KINDS, RankMethod, are_nan

#: What NaN do, as in SciPy.
NanPolicy = Literal["propagate", "omit", "raise"]

METHODS: tuple[str, ...] = get_args(RankMethod)
NAN_POLICIES: tuple[str, ...] = get_args(NanPolicy)


@dataclass(frozen=True)
class Ranking:
    """Say how keys are ranked."""

    method: RankMethod
    nan_policy: NanPolicy
    pct: bool  # whether ranks are divided by the number of keys that are not NaN

    def dtype_of(self, keys: np.dtype[Any]) -> np.dtype[Any]:
        """Give the dtype of the ranks: integers unless some are fractions or may be NaN."""
        may_be_nan = keys.kind in NAN_KINDS and self.nan_policy != "raise"
        return np.dtype(np.float64 if self.method == "average" or self.pct or may_be_nan else np.int64)

    def refuse_nan(self, found: Any) -> None:
        """Raise if there are NaN and the policy says so."""
        if self.nan_policy == "raise" and bool(found):
            raise ValueError("The input contains nan values: use nan_policy='omit' or 'propagate'")


def rank_rows(block: Any, ranking: Ranking, axis: int) -> Any:
    """Give the ranks of a chunk's keys along an axis that is whole in the chunk."""
    rows = np.moveaxis(block, axis, -1)
    dtype = ranking.dtype_of(block.dtype)
    found = _rank_rows(rows, ranking.method, dtype) if block.size else np.empty_like(rows, dtype=dtype)
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


def _rank_rows(rows: Any, method: RankMethod, dtype: np.dtype[Any]) -> Any:
    """Give the ranks of keys along the last axis. NaN are equal, and last."""
    length = rows.shape[-1]
    ordered, positions = _sorted_rows(rows.reshape(-1, length))
    groups = ops_for(rows).tie_groups(ordered, True, length)
    return groups.scatter_ranks(positions, method, dtype).reshape(rows.shape)


def _sorted_rows(rows: Any) -> tuple[Any, Any]:
    """Rows of keys, sorted, and the positions of the sorted keys among all keys, each of shape (keys,)."""
    ops, order, (count, length) = ops_for(rows), Order(rows.dtype, stable=True), rows.shape
    if count == 1:
        found: tuple[Any, Any] = ops.sort_and_argsort(rows.reshape(-1), order)
        return found
    positions = ops.argsort_rows(rows, order, 1)
    ordered = ops.take_rows(rows, positions, 1)
    whole = positions + np.arange(0, count * length, length, like=positions)[:, None]
    return ordered.reshape(-1), whole.reshape(-1)
