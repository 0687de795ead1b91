"""Sorts and merges of keys in transit of one NumPy chunk, by the method that fits their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..order import Order
from . import numpy_columns, numpy_less, numpy_merge, numpy_radix, numpy_words
from .merge_choice import prefers_merge
from .numpy_keys import ceiling, floor, function_of
from .run import Run

#: Widest `U` dtype, in bytes, for which columns of codes beat np.sort, which reads a wide string only once. Speed
#: relative to np.sort, 2**20 random keys: U1 5.1, U4 4.1, U12 1.3, U16 0.9, U25 0.6; and S, whose columns are words of
#: eight bytes: S1 3.6, S8 5.4, S20 2.1, S64 1.7, S100 1.3.
_COLUMN_TEXT_BYTES = 48


def sort_keys(array: np.ndarray, order: Order) -> np.ndarray:
    """Sort keys in transit along the last axis, in place if possible."""
    if not order.coded:
        if not sorted_by_numpy(order):
            return array.take(argsort_keys(array, order), axis=0)
        # Equal strings have equal bits, so NumPy's unstable sort gives the same result as a stable one.
        array.sort()
        return array
    members = _tie_members(array, order)
    numpy_radix.sort(array)
    _restore_ties(array, members, order)
    return array


def argsort_keys(array: np.ndarray, order: Order, offsets: np.ndarray | None = None) -> np.ndarray:
    """Find the stable permutation that sorts keys in transit, shape (n,).

    `offsets`, shape (runs + 1,), are the ends of contiguous sorted runs, which are then merged.
    """
    if order.coded:
        codes = floor(array, order)
        return numpy_radix.argsort(codes) if offsets is None else numpy_merge.argmerge_runs(codes, offsets)
    if order.less is not None:
        return numpy_less.argsort(array, function_of(order), offsets)
    if order.words:
        return numpy_words.argsort(numpy_words.columns_of(array), offsets)
    return numpy_columns.argsort_columns(numpy_columns.columns_of(array, order), offsets)


def sort_with_positions(array: np.ndarray, order: Order) -> tuple[np.ndarray, np.ndarray]:
    if order.coded and not order.has_ties:
        return numpy_radix.sort_with_positions(array)
    permutation = argsort_keys(array, order)
    return array.take(permutation, axis=0), permutation


def merge(pieces: Sequence[Run], order: Order, memory: Sequence[Any] = ()) -> Run:
    """Merge sorted runs, which may be overwritten, into one, equal keys in the order of the runs.

    `memory` has arrays of the result's dtypes and size, or None, which some of its arrays may take: for the keys, and
    for each value.
    """
    if order.coded and not pieces[0].values:
        arrays = [piece.keys for piece in pieces]
        members = _tie_members(np.concatenate(arrays), order) if order.has_ties else None
        merged = numpy_merge.join_runs(arrays, *memory[:1])
        _restore_ties(merged, members, order)
        return Run(merged)
    joined = Run.concat(pieces, copy=None)
    if len(pieces) == 1:
        return joined
    if not joined.values and _merged_by_numpy(order, len(pieces)):
        joined.keys.sort(kind="stable")
        return joined
    permutation = argsort_keys(joined.keys, order, np.cumsum([0, *map(len, pieces)]))
    keys, *values = (array.take(permutation, axis=0) for array in joined.arrays)
    return Run(keys, tuple(values))


def sorted_by_numpy(order: Order) -> bool:
    """Tell whether NumPy's sort of uncoded keys is used: if it is correct and faster than columns."""
    if order.less is not None or order.descending:
        return False
    return order.dtype.kind == "T" or (order.dtype.kind == "U" and order.dtype.itemsize > _COLUMN_TEXT_BYTES)


def _merged_by_numpy(order: Order, num_runs: int) -> bool:
    """Tell whether NumPy's stable sort, which finds runs and merges them, is used for uncoded keys without values."""
    if order.less is not None or order.descending or not order.dtype.isnative:
        return False
    if sorted_by_numpy(order):
        return True
    measured = order.dtype.kind in "cSU" and order.dtype.itemsize > 0
    return measured and prefers_merge(order.dtype, num_runs, _sort_columns)


def _sort_columns(array: np.ndarray) -> np.ndarray:
    return array.take(numpy_columns.argsort_columns(numpy_columns.columns_of(array, Order(array.dtype))))


def _tie_members(array: np.ndarray, order: Order) -> np.ndarray | None:
    """Codes in input order whose tie class has several codes; None if their order does not matter."""
    if not order.has_ties:
        return None
    members = array[_in_tie_class(array, order)]
    floors = floor(members, order)
    return members if (members != floors).any() else None


def _in_tie_class(array: np.ndarray, order: Order) -> np.ndarray:
    return np.not_equal(ceiling(array, order), floor(array, order))


def _restore_ties(array: np.ndarray, members: np.ndarray | None, order: Order) -> None:
    """Rewrite keys that compare equal but differ in their bits, in input order, row by row."""
    if members is None:
        return
    mask = _in_tie_class(array, order)
    rows = np.repeat(np.arange(mask.size // mask.shape[-1]), np.atleast_2d(mask).sum(axis=-1).ravel())
    by_floor = numpy_radix.argsort(floor(members, order))
    array[mask] = members[by_floor[np.argsort(rows[by_floor], kind="stable")]]
