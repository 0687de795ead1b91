"""Distinct keys of one chunk, and tie groups of sorted keys, for NumPy and CuPy.

A tie group is all equal keys. In sorted keys it is contiguous::

    keys       1  1  1  4  4  7            of one chunk, sorted
    bounds     0        3     5   (6)      first of each tie group, and the end
    numbers    0  0  0  1  1  2            the tie group of each key

Keys are compared as NumPy's `unique` compares them, by ``!=``: so signed zeros are equal, and NaN are equal only on
request.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..order import Order
from . import library_of, ops_for

#: Kinds of dtypes with keys that differ from themselves: NaN and NaT.
NAN_KINDS = "fcmM"

#: Most codes in a table of counts, 2 MiB: a level-2 cache. Larger tables are slower to count than keys are to sort.
_TABLE_CODES = 1 << 18


def are_nan(keys: Any) -> Any:
    """Whether each key is NaN or NaT; False for dtypes that `numpy.unique` does not search for them."""
    if keys.dtype.kind not in NAN_KINDS:
        return np.zeros_like(keys, dtype=bool)
    # NumPy warns of signalling NaN.
    with np.errstate(invalid="ignore"):
        return keys != keys


def changes(keys: Any, others: Any, equal_nan: bool) -> Any:
    """Elementwise: whether keys are not equal to others."""
    found = _not_equal(keys, others)
    if equal_nan and keys.dtype.kind in NAN_KINDS:
        found &= ~(are_nan(keys) & are_nan(others))
    return found


def _not_equal(keys: Any, others: Any) -> Any:
    if keys.dtype.char in "fF" and library_of(keys) == "cupy":
        # CuPy's kernels flush subnormal floats of 32 bits to zero: codes are compared instead.
        codes, theirs = map(_tie_classes, (keys, others))
        return (codes != theirs) | are_nan(keys)
    with np.errstate(invalid="ignore"):
        return keys != others


def _tie_classes(keys: Any) -> Any:
    order, ops = Order(keys.dtype, stable=True), ops_for(keys)
    return ops.floor(ops.encode(keys, order), order)


@dataclass(frozen=True)
class TieGroups:
    """The tie groups of sorted keys.

    Attributes
    ----------
    keys : array, shape (n,)
    firsts : array of bool, shape (n,)
        Whether each key is the first of its group.
    """

    keys: Any
    firsts: Any

    @classmethod
    def of(cls, keys: Any, equal_nan: bool) -> TieGroups:
        """The groups of equal keys; with `equal_nan` all NaN are one group, else each is one."""
        firsts = np.ones_like(keys, dtype=bool)
        firsts[1:] = changes(keys[1:], keys[:-1], equal_nan)
        return cls(keys, firsts)

    @cached_property
    def bounds(self) -> Any:
        """Position of the first key of each group, and the number of keys: int64, shape (groups + 1,)."""
        if self.count == len(self.keys):
            return np.arange(self.count + 1, like=self.firsts)
        starts = np.flatnonzero(self.firsts)
        found = np.empty_like(starts, shape=(len(starts) + 1,), dtype=np.int64)
        found[:-1] = starts
        found[-1] = len(self.keys)
        return found

    @cached_property
    def count(self) -> int:
        """Number of groups."""
        return int(np.count_nonzero(self.firsts))

    @property
    def values(self) -> Any:
        """The first key of each group."""
        return self.keys if self.count == len(self.keys) else self.keys[self.firsts]

    @cached_property
    def numbers(self) -> Any:
        """The number of each key's group, int64."""
        if self.count == len(self.keys):
            return self.bounds[:-1]
        return np.cumsum(self.firsts, dtype=np.int64) - 1

    def sums(self, amounts: Any) -> Any:
        """The sum of some amounts of each group's keys, int64."""
        sums = np.zeros_like(amounts, shape=(len(amounts) + 1,), dtype=np.int64)
        np.cumsum(amounts, dtype=np.int64, out=sums[1:])
        return sums[self.bounds[1:]] - sums[self.bounds[:-1]]

    def first_where(self, mask: Any, amounts: Any) -> Any:
        """The amount of each group's first key inside a mask, -1 where there is none."""
        numbers, kept = self.numbers[mask], amounts[mask]
        found = np.full_like(self.bounds, -1)[:-1]
        leading = np.ones_like(numbers, dtype=bool)
        leading[1:] = numbers[1:] != numbers[:-1]
        found[numbers[leading]] = kept[leading]
        return found


@dataclass(frozen=True)
class Distinct:
    """The distinct keys of one chunk; what was not wanted is None.

    Attributes
    ----------
    values : array, shape (d,)
        The distinct keys, ascending.
    counts : int64 array, shape (d,)
        How often each occurs.
    firsts : int64 array, shape (d,)
        Position of each in the flat chunk: that of the first of equal keys.
    inverse : unsigned array of the chunk's shape
        The position of each key in `values`.
    repeats : unsigned array of the chunk's shape
        How many equal keys precede each key.
    """

    values: Any
    counts: Any = None
    firsts: Any = None
    inverse: Any = None
    repeats: Any = None


@dataclass(frozen=True)
class Columns:
    """Which arrays of `Distinct` are wanted besides the values.

    `origins`, the number of the chunk for each value, is for the stage that knows it.
    """

    origins: bool = False
    counts: bool = False
    firsts: bool = False
    inverse: bool = False
    repeats: bool = False

    @property
    def positions(self) -> bool:
        """Whether they need the positions of the sorted keys."""
        return self.firsts or self.inverse or self.repeats


def find_distinct(block: Any, order: Order, columns: Columns, equal_nan: bool) -> Distinct:
    """The distinct keys of one chunk of any dimensions.

    Parameters
    ----------
    block : array
    order : Order
        Ascending and stable.
    columns : Columns
    equal_nan : bool
        As in `TieGroups.of`.
    """
    if library_of(block) == "numpy" and order.coded and _is_exact(order.dtype, equal_nan) and not columns.repeats:
        codes = ops_for(block).encode(block, order)
        if _is_narrow(codes):
            return _find_by_counting(codes, order, columns)
    return _find_by_sort(block, order, columns, equal_nan)


def _is_exact(dtype: np.dtype[Any], equal_nan: bool) -> bool:
    """Whether keys of a dtype are equal if, and only if, their codes are."""
    return dtype.kind in "biu" or (dtype.kind in "mM" and equal_nan)


def _is_narrow(codes: np.ndarray) -> bool:
    """Whether a table of all codes from the least to the greatest is no longer than the chunk, and fits a cache."""
    return codes.size > 0 and int(codes.max()) - int(codes.min()) < min(codes.size, _TABLE_CODES)


def _find_by_counting(codes: np.ndarray, order: Order, columns: Columns) -> Distinct:
    """The distinct keys of a chunk, from a table of how often each code occurs; nothing is sorted."""
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
        numbers = (np.cumsum(table > 0) - 1).astype(np.uint32)
        inverse = numbers[offsets].reshape(codes.shape)
    values = ops_for(codes).decode(held.astype(codes.dtype) + least, order)
    return Distinct(values, table[held] if columns.counts else None, firsts, inverse)


def _find_by_sort(block: Any, order: Order, columns: Columns, equal_nan: bool) -> Distinct:
    ops = ops_for(block)
    run = ops.local_sort(block.reshape(-1), (), order, positions=columns.positions)
    groups = TieGroups.of(ops.decode(run.keys, order), equal_nan)
    positions: Any = run.values[-1] if columns.positions else None
    inverse = repeats = None
    if columns.inverse:
        # Numbers of keys have the dtype of their positions.
        inverse = ops.scatter(groups.numbers.astype(positions.dtype), positions).reshape(block.shape)
    if columns.repeats:
        starts = groups.bounds[:-1]
        preceding = np.arange(len(run), like=starts) - starts[groups.numbers]
        repeats = ops.scatter(preceding.astype(positions.dtype), positions).reshape(block.shape)
    return Distinct(
        groups.values,
        np.diff(groups.bounds) if columns.counts else None,
        positions[groups.firsts].astype(np.int64) if columns.firsts else None,
        inverse,
        repeats,
    )
