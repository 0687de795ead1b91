"""Every step of the sort on one NumPy chunk.

`cupy_ops` has the same steps under the same names for CuPy chunks. In the order in which the graph runs them::

    local_sort -> probe (once or a few times) -> split -> merge -> finished
    sort_rows, argsort_rows, take_rows                    an axis that is one chunk, nothing else needed
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import keys as key_codes
from ..order import Order
from ..table import Brackets, Digits, Entries, KeyOrder, Side
from . import numpy_columns, numpy_radix, probing
from .run import Run
from .run import concatenate as concatenate_alike

#: Keys that are scanned for changes at a time: about a level-2 cache of 64-bit ones.
_SCANNED_KEYS = 1 << 16


def local_sort(block: np.ndarray, values: Sequence[np.ndarray], order: Order, *, positions: bool) -> Run:
    """Sort one chunk.

    Parameters
    ----------
    block : array, shape (n,)
        Keys as the user has them.
    values : sequence of arrays, each of shape (n, ...)
        Companions, moved along.
    order : Order
    positions : bool
        Append the keys' positions in the chunk to the values (uint32 where they fit, else int64).

    Returns
    -------
    Run
        Sorted keys in `order.transit_dtype`. With companions or positions the sort is stable.
    """
    check_lengths(block, values)
    array = encode(block, order)
    if not values and not positions:
        return Run(sort_keys(array, order))
    array, permutation = _sort_with_positions(array, order)
    moved = [value[permutation] for value in values]
    if positions:
        fits = len(block) <= np.iinfo(np.uint32).max
        moved.append(permutation.astype(np.uint32 if fits else np.int64, copy=False))
    return Run(array, tuple(moved))


def check_lengths(block: Any, values: Sequence[Any]) -> None:
    """Refuse companions of another length than the keys."""
    for value in values:
        if len(value) != len(block):
            raise ValueError(
                f"a chunk of {len(block)} keys has {len(value)} values: "
                "keys and values must have the same chunks, so call compute_chunk_sizes() and rechunk"
            )


def encode(block: np.ndarray, order: Order) -> np.ndarray:
    """Keys of the user to a fresh array of keys in transit."""
    if order.coded:
        return key_codes.encode(block, descending=order.descending)
    return np.array(block, order="C", copy=True)


def decode(array: np.ndarray, order: Order) -> np.ndarray:
    """Keys in transit back to the user's; may reuse their memory."""
    if order.coded:
        return key_codes.decode(array, order.dtype, descending=order.descending)
    return array


def floor(array: np.ndarray, order: Order) -> np.ndarray:
    """Keys in transit to the least of their tie classes: what compares equal becomes the same."""
    return key_codes.tie_floor(array, order.dtype, descending=order.descending) if order.has_ties else array


def ceiling(array: np.ndarray, order: Order) -> np.ndarray:
    """Keys in transit to the greatest of their tie classes."""
    return key_codes.tie_ceiling(array, order.dtype, descending=order.descending) if order.has_ties else array


def sort_keys(array: np.ndarray, order: Order) -> np.ndarray:
    """Sort keys in transit along the last axis, in place where that can be had."""
    if not order.coded:
        if order.descending or order.dtype.kind not in "SUT":
            return array[argsort_keys(array, order)]
        # Equal strings are the same bits, so NumPy's own sort cannot be told from a stable one.
        array.sort()
        return array
    members = _tie_members(array, order)
    numpy_radix.sort(array)
    _restore_ties(array, members, order)
    return array


def _tie_members(array: np.ndarray, order: Order) -> np.ndarray | None:
    """Codes in input order whose tie class has several codes, None where that order cannot be seen."""
    if not order.has_ties:
        return None
    members = array[_in_tie_class(array, order)]
    floors = floor(members, order)
    return members if (members != floors).any() else None


def _in_tie_class(array: np.ndarray, order: Order) -> np.ndarray:
    return np.not_equal(ceiling(array, order), floor(array, order))


def _restore_ties(array: np.ndarray, members: np.ndarray | None, order: Order) -> None:
    """Rewrite keys that compare equal but differ in their bits in input order, row by row."""
    if members is None:
        return
    mask = _in_tie_class(array, order)
    rows = np.repeat(np.arange(mask.size // mask.shape[-1]), np.atleast_2d(mask).sum(axis=-1).ravel())
    by_floor = numpy_radix.argsort(floor(members, order))
    array[mask] = members[by_floor[np.argsort(rows[by_floor], kind="stable")]]


def argsort_keys(array: np.ndarray, order: Order) -> np.ndarray:
    """Stable permutation that sorts keys in transit, shape (n,)."""
    if order.coded:
        return numpy_radix.argsort(floor(array, order))
    return numpy_columns.argsort_columns(numpy_columns.columns_of(array, order))


def _sort_with_positions(array: np.ndarray, order: Order) -> tuple[np.ndarray, np.ndarray]:
    if order.coded and not order.has_ties:
        return numpy_radix.sort_with_positions(array)
    permutation = argsort_keys(array, order)
    return array[permutation], permutation


def key_order(order: Order) -> KeyOrder:
    """How the table compares entries' keys, which are all least of their tie class."""
    if order.coded:
        return KeyOrder(numpy_radix.argsort, lambda array: array[1:] != array[:-1], np.searchsorted)
    return KeyOrder(
        lambda array: argsort_keys(array, order),
        lambda array: numpy_columns.differ(array[1:], array[:-1], order),
        lambda array, needles, side: numpy_columns.search(array, needles, order, side),
    )


class NumpyKeys:
    """Sorted keys in transit, for `probing`."""

    def __init__(self, array: np.ndarray, order: Order):
        self.array, self.order = array, order

    @property
    def size(self) -> int:
        return len(self.array)

    def at(self, positions: np.ndarray) -> np.ndarray:
        return floor(self.array[positions], self.order)

    def search(self, needles: np.ndarray, side: Side) -> np.ndarray:
        if not self.order.coded:
            return numpy_columns.search(self.array, needles, self.order, side)
        # Keys of one tie class may stand in any order, so a search must pass them all.
        ends = ceiling(needles, self.order) if side == "right" else needles
        return np.searchsorted(self.array, ends, side=side).astype(np.int64, copy=False)

    def differ(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first != second if self.order.coded else numpy_columns.differ(first, second, self.order)

    def scan(self, first: int, last: int) -> np.ndarray:
        found = [np.empty(0, np.int64)]
        for block in range(first, last - 1, _SCANNED_KEYS):
            part = floor(self.array[block : min(block + _SCANNED_KEYS + 1, last)], self.order)
            found.append(block + 1 + np.flatnonzero(self.differ(part[1:], part[:-1])))
        return np.concatenate(found)


def sorted_keys(run: Run, order: Order) -> NumpyKeys:
    """The keys of a run, for `probing`."""
    return NumpyKeys(run.keys, order)


def probe(run: Run, brackets: Brackets | None, order: Order, *, samples: int | None, radix_bits: int = 0) -> Entries:
    """Tell how one chunk's keys lie in some brackets (see `probing.probe`).

    Parameters
    ----------
    run : Run
    brackets, samples
        As for `probing.probe`.
    order : Order
    radix_bits : int
        Add a histogram of the chunk's leading digits of this many bits, if not 0.
    """
    keys = sorted_keys(run, order)
    digits = histogram(run.keys, order, radix_bits) if radix_bits and len(run) else None
    return probing.probe(keys, brackets, samples, digits)


def histogram(array: np.ndarray, order: Order, radix_bits: int) -> Digits:
    """Count the leading digits of sorted codes."""
    keys = NumpyKeys(array, order)
    shift, first, edges = probing.leading_digits(keys, radix_bits)
    return probing.count_digits(keys.size, shift, first, keys.search(floor(edges, order), "left"))


def needles(codes: Sequence[int], order: Order) -> np.ndarray:
    """Codes as Python integers to needles: least of their tie class, in transit form."""
    highest = np.iinfo(order.transit_dtype).max
    array = np.array([min(code, int(highest)) for code in codes], order.transit_dtype)
    return floor(array, order)


def merge(pieces: Sequence[Run], order: Order) -> Run:
    """Merge sorted runs into one, equal keys in the order of the runs.

    Parameters
    ----------
    pieces : sequence of Run, not empty
        May be written to.
    order : Order

    Returns
    -------
    Run
    """
    if order.coded and not pieces[0].values:
        arrays = [piece.keys for piece in pieces]
        members = _tie_members(np.concatenate(arrays), order) if order.has_ties else None
        merged = numpy_radix.join_runs(arrays)
        _restore_ties(merged, members, order)
        return Run(merged)
    joined = Run.concat(pieces, copy=None)
    if len(pieces) == 1:
        return joined
    if not joined.values:
        return Run(sort_keys(joined.keys, order))
    if order.coded:
        offsets = np.cumsum([0, *map(len, pieces)])
        permutation = numpy_radix.argmerge_runs(floor(joined.keys, order), offsets)
    else:
        permutation = argsort_keys(joined.keys, order)
    return Run(joined.keys[permutation], tuple(value[permutation] for value in joined.values))


def sort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Sort a chunk along an axis that is whole in it."""
    rows = np.moveaxis(block, axis, -1)
    if not order.coded:
        return np.take_along_axis(block, argsort_rows(block, order, axis), axis)
    array = sort_keys(encode(rows, order), order)
    return np.moveaxis(decode(array, order), -1, axis)


def argsort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Stable indices, int64, that sort a chunk along an axis that is whole in it."""
    rows = np.moveaxis(block, axis, -1)
    if order.coded:
        found = numpy_radix.argsort(floor(encode(rows, order), order))
        return np.moveaxis(found.astype(np.int64, copy=False), -1, axis)
    flat = np.ascontiguousarray(rows).reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    found = np.empty(flat.shape, np.int64)
    for row, out in zip(flat, found, strict=True):
        out[:] = argsort_keys(row, order)
    return np.moveaxis(found.reshape(rows.shape), -1, axis)


def take_rows(block: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """A chunk's elements in the order of indices along an axis."""
    return np.take_along_axis(block, indices, axis)


def concatenate(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Join arrays along their first dimension."""
    joined: np.ndarray = concatenate_alike(arrays)
    return joined
