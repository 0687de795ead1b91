"""Tie groups of sorted CuPy keys: those of `tie_groups`, by kernels that keep one bit for each key."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..keys import decode, tie_floor
from ..order import Order
from . import tie_groups as of_groups
from .distinct import Columns, Distinct
from .tie_groups import RankMethod, TieGroups, may_be_nan

#: Keys of the longest rows whose ranks are written at random positions: ranks of some rows fit a level-2 cache.
_CACHED_ROW = 1 << 16
#: Keys from which on few values are looked for: a sort of fewer takes little longer than finding many values.
LEAST_OF_FEW = 1 << 20
#: Positions that have 32 bits.
MOST_POSITIONS = 1 << 32


class CupyTieGroups(TieGroups):
    """The tie groups of sorted keys; see `TieGroups`."""

    def _mark(self, equal_nan: bool) -> None:
        # Codes are compared where there are any: CuPy's own kernels flush subnormal floats of 32 bits to zero.
        if Order(self.keys.dtype, stable=True).coded:
            keys = cupy.ascontiguousarray(self.keys)
            self._ties = kernels.mark_ties(keys, equal_nan=equal_nan, length=self.length)
        else:
            self._ties = kernels.pack_ties(self._find_firsts(equal_nan))
        self.count = self._ties.count()

    def count_in_rows(self) -> Any:
        """See `TieGroups`."""
        return cupy.bincount(self.bounds[:-1] // self.length, minlength=len(self.keys) // self.length)

    def _up_to(self, end: int) -> Any:
        return cupy.arange(end, dtype=np.int64)

    def _list_bounds(self) -> Any:
        return self._ties.starts(self.count)

    def _take_firsts(self, amounts: Any) -> Any:
        return self._ties.take_firsts(cupy.ascontiguousarray(amounts), self.count)

    def _number_keys(self) -> Any:
        return self._ties.numbers(np.int64)

    def scatter_numbers(self, positions: Any, dtype: Any) -> Any:
        """See `TieGroups`."""
        if len(positions) > MOST_POSITIONS:
            return super().scatter_numbers(positions, dtype)
        numbers = None if self.all_differ else self._ties.numbers(np.uint32)
        return scatter_numbers(numbers, positions, dtype)

    def scatter_ranks(self, positions: Any, method: RankMethod, dtype: Any) -> Any:
        """See `TieGroups`."""
        n = len(self.keys)
        if n >= kernels.MOST_RANKED:
            return super().scatter_ranks(positions, method, dtype)
        if method != "ordinal" and not self.all_differ:
            ranks = self._ties.ranks(self.bounds, method, self.length)
            return scatter_numbers(ranks, positions, dtype, 0.5 if method == "average" else 1)
        if self.length >= n:
            return scatter_numbers(None, positions, dtype, first=1)
        ranks = cupy.arange(n, dtype=np.uint32) % np.uint32(self.length) + np.uint32(1)
        return scatter_numbers(ranks, positions, dtype)


def rank_keys(rows: Any, method: RankMethod, dtype: Any, descending: bool = False) -> Any:
    """See `tie_groups.rank_keys`."""
    short = len(rows) > 1 and rows.shape[1] <= _CACHED_ROW and rows.size < kernels.MOST_RANKED
    if not (short and method in kernels.ROW_RANKINGS and Order(rows.dtype, stable=True).coded):
        return of_groups.rank_keys(rows, method, dtype, descending)
    ordered, positions = kernels.sort_rows_with_positions(cupy.ascontiguousarray(rows), descending=descending)
    found = cupy.empty(rows.shape, dtype)
    kernels.rank_rows(ordered, positions, method, found)
    return found


def flatnonzero(mask: Any) -> Any:
    """The positions of True."""
    found = kernels.pack_ties(mask)
    return found.starts(found.count())[:-1]


def scatter_numbers(numbers: Any, positions: Any, dtype: Any, factor: float = 1, first: int = 0) -> Any:
    """An array of a dtype with the numbers at positions that are a permutation; see `kernels.scatter_numbers`."""
    found = cupy.empty(len(positions), dtype)
    kernels.scatter_numbers(numbers, positions.astype(np.uint32, copy=False), found, factor, first)
    return found


def find_few(block: Any, order: Order, columns: Columns, equal_nan: bool) -> Distinct | None:
    """Find the distinct keys of a chunk by counting them, if they are few and no positions are wanted; else None."""
    differ = not equal_nan and may_be_nan(order.dtype)
    if not order.coded or order.descending or columns.firsts or columns.repeats or differ or block.size < LEAST_OF_FEW:
        return None
    few = kernels.count_few(cupy.ascontiguousarray(block).reshape(-1))
    if few is None:
        return None
    floors = tie_floor(few.codes, order.dtype)
    if (floors[1:] == floors[:-1]).any():  # the first of equal keys stands for them: a sort finds it
        return None
    inverse = few.numbers(columns.inverse_dtype or np.uint32).reshape(block.shape) if columns.inverse else None
    counts = cupy.asarray(few.counts) if columns.counts else None
    return Distinct(cupy.asarray(decode(few.codes, order.dtype)), counts, inverse=inverse)
