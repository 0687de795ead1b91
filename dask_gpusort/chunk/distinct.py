"""Distinct keys of one chunk, for NumPy and CuPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..order import Order
from . import library_of, ops_for

#: Most codes in a table of counts, 2 MiB: a level-2 cache. Larger tables are slower to count than keys are to sort.
_TABLE_CODES = 1 << 18


@dataclass(frozen=True)
class Distinct:
    """Hold the distinct keys of one chunk; what was not wanted is None."""

    values: Any  # shape (d,): the distinct keys, sorted; perhaps a view of the chunk
    counts: Any = None  # shape (d,): how often each occurs
    firsts: Any = None  # shape (d,): position of each in the flat chunk: that of the first of equal keys
    inverse: Any = None  # of the chunk's shape: the position of each key in `values`
    repeats: Any = None  # of the chunk's shape: how many equal keys precede each key


@dataclass(frozen=True)
class Columns:
    """Say which arrays of `Distinct` are wanted besides the values."""

    # `inverse_dtype` is that of the inverse, or None for the smallest one.

    counts: bool = False
    firsts: bool = False
    inverse: bool = False
    repeats: bool = False
    inverse_dtype: np.dtype[Any] | None = None

    @property
    def positions(self) -> bool:
        """Whether they need the positions of the sorted keys."""
        return self.firsts or self.inverse or self.repeats


def find_distinct(block: Any, order: Order, columns: Columns, equal_nan: bool) -> Distinct:
    """Find the distinct keys of one chunk of any dimensions, in a stable order."""
    if library_of(block) == "cupy":
        few: Distinct | None = ops_for(block).find_few(block, order, columns, equal_nan)
        if few is not None:
            return few
    elif order.coded and _is_exact(order.dtype, equal_nan) and not columns.repeats and _is_narrow(block, order):
        return _find_by_counting(ops_for(block).encode(block, order), order, columns)
    return _find_by_sort(block, order, columns, equal_nan)


def _is_exact(dtype: np.dtype[Any], equal_nan: bool) -> bool:
    """Tell whether keys of a dtype are equal if, and only if, their codes are."""
    return dtype.kind in "biu" or (dtype.kind in "mM" and equal_nan)


def _is_narrow(block: np.ndarray, order: Order) -> bool:
    """Whether a table of all codes from the least to the greatest is no longer than the chunk, and fits a cache."""
    if not block.size:
        return False
    # NaT is the least and the greatest key to NumPy.
    ends = ops_for(block).encode(block if block.dtype.kind in "mM" else np.stack([block.min(), block.max()]), order)
    return int(ends.max()) - int(ends.min()) < min(block.size, _TABLE_CODES)


def _find_by_counting(codes: np.ndarray, order: Order, columns: Columns) -> Distinct:
    """Give the distinct keys of a chunk, from a table of how often each code occurs; nothing is sorted."""
    least = codes.min()
    offsets = (codes.reshape(-1) - least).astype(np.intp)
    table = np.bincount(offsets)
    held = np.flatnonzero(table)
    firsts = inverse = None
    if columns.firsts:
        seen = np.empty(len(table), np.int64)
        # Of equal indices, NumPy assigns the last one.
        seen[offsets[::-1]] = np.arange(len(offsets) - 1, -1, -1)
        firsts = seen[held]
    if columns.inverse:
        numbers = (np.cumsum(table > 0) - 1).astype(columns.inverse_dtype or np.uint32)
        inverse = numbers[offsets].reshape(codes.shape)
    values = ops_for(codes).decode(held.astype(codes.dtype) + least, order)
    return Distinct(values, table[held] if columns.counts else None, firsts, inverse)


def _find_by_sort(block: Any, order: Order, columns: Columns, equal_nan: bool) -> Distinct:
    ops, keys = ops_for(block), block.reshape(-1)
    turns_ties = not (columns.firsts or columns.repeats)
    step = 0 if library_of(block) == "cupy" else ops.direction(keys, order, turns_ties=turns_ties)
    positions: Any = slice(None, None, step) if step else None
    if step:
        ordered = keys[positions]
    elif columns.positions:
        ordered, positions = ops.sort_and_argsort(keys, order)
    else:
        ordered = ops.sort_chunks([keys], order)
    groups = ops.tie_groups(ordered, equal_nan)
    # Numbers of keys have the dtype of positions, unless they are a result. They are made first: they take most memory.
    dtype = np.uint32 if len(keys) <= np.iinfo(np.uint32).max else np.int64
    inverse = repeats = None
    if columns.inverse:
        inverse = groups.scatter_numbers(positions, columns.inverse_dtype or dtype).reshape(block.shape)
    if columns.repeats:
        repeats = groups.scatter_repeats(positions, dtype).reshape(block.shape)
    sources = np.arange(len(keys))[positions] if step and columns.firsts else positions
    firsts = groups.of_firsts(sources).astype(np.int64) if columns.firsts else None
    return Distinct(groups.values, groups.counts if columns.counts else None, firsts, inverse, repeats)
