"""Every step of the sort on one NumPy chunk.

`cupy_ops` has the same steps under the same names for CuPy chunks. In the order in which the graph runs them::

    local_sort -> probe (once or a few times) -> split -> merge -> finished
    sort_rows, argsort_rows, take_rows                    an axis that is one chunk, nothing else needed
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .. import keys as key_codes
from ..order import Order, of_words
from ..table import Brackets, Digits, Entries, KeyOrder, Side
from . import numpy_columns, numpy_less, numpy_radix, numpy_words, probing, words
from .run import Run
from .run import concatenate as concatenate_alike

#: Keys that are scanned for changes at a time: about a level-2 cache of 64-bit ones.
_SCANNED_KEYS = 1 << 16

#: Bytes of `U` up to which columns of codes beat np.sort, which reads a wide string but once. Times as fast as np.sort,
#: 2**20 random keys: U1 5.1, U4 4.1, U12 1.3, U16 0.9, U25 0.6; and S, whose columns are words of eight bytes: S1 3.6,
#: S8 5.4, S20 2.1, S64 1.7, S100 1.3.
_COLUMN_TEXT_BYTES = 48

#: Runs up to which NumPy's stable sort of keys alone beats sorting their columns afresh, by kind of dtype. 2**20 keys
#: in 2 / 16 / 64 / 256 runs, by NumPy and by columns: complex128 12, 32, 43, 54 and 48, 42, 46, 51 ms; S20 21, 50, 71,
#: 99 and 47, 48, 55, 62 ms; U8 33, 72, 151, 199 and 90, 79, 116, 163 ms (all on an AVX-512 Xeon).
_NUMPY_RUNS = {"c": 64, "S": 8, "U": 16}

#: Keys of rows that are sorted together, the row's number being the first column: enough to make up for some fifty
#: NumPy calls, few enough that the columns stay near the cache.
_ROW_KEYS = 1 << 16


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
    in_place = order.coded or _sorted_by_numpy(order)
    array = encode(block, order) if in_place else np.ascontiguousarray(block)
    if not values and not positions:
        return Run(sort_keys(array, order))
    array, permutation = _sort_with_positions(array, order)
    moved = [value.take(permutation, axis=0) for value in values]
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


def pack(parts: Sequence[np.ndarray], directions: Sequence[bool]) -> np.ndarray:
    """Several keys of one chunk as one.

    Parameters
    ----------
    parts : sequence of arrays of one shape
        The most significant one first.
    directions : sequence of bool
        Whether each descends.

    Returns
    -------
    array
        Of the parts' shape, unsigned codes; or with one dimension more, words; in the order of the sort, equal where
        NumPy calls the keys equal. Or a record of columns, if NumPy has to compare one of them. `packed_order` tells.
    """
    columns = _columns([part.reshape(-1) for part in parts], directions)
    if numpy_columns.codes_of(columns) is None:
        packed = _record(columns)
    else:
        packed = words.pack([column.values for column in columns], [column.bits for column in columns])
    return packed.reshape(*parts[0].shape, *packed.shape[1:])


def packed_order(dtypes: Sequence[np.dtype[Any]], directions: Sequence[bool]) -> Order:
    """The order of what `pack` gives for keys of some dtypes."""
    columns = _columns([np.empty(0, dtype) for dtype in dtypes], directions)
    if numpy_columns.codes_of(columns) is None:
        return Order(_record(columns).dtype, stable=True, directions=tuple(column.descending for column in columns))
    packed = words.pack([column.values for column in columns], [column.bits for column in columns])
    return Order(packed.dtype, stable=True) if packed.ndim == 1 else of_words(packed.shape[1])


def _columns(parts: Sequence[np.ndarray], directions: Sequence[bool]) -> list[numpy_columns.Column]:
    return [
        column
        for part, descending in zip(parts, directions, strict=True)
        for column in numpy_columns.columns_of(part, Order(part.dtype, descending))
    ]


def _record(columns: Sequence[numpy_columns.Column]) -> np.ndarray:
    # A record cannot hold strings of variable width, but references to Python's.
    arrays = [column.values.astype(object) if column.values.dtype.kind == "T" else column.values for column in columns]
    record = np.empty(len(arrays[0]), [(f"key{number}", array.dtype) for number, array in enumerate(arrays)])
    for number, array in enumerate(arrays):
        record[f"key{number}"] = array
    return record


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
        if not _sorted_by_numpy(order):
            return array.take(argsort_keys(array, order), axis=0)
        # Equal strings are the same bits, so NumPy's own sort cannot be told from a stable one.
        array.sort()
        return array
    members = _tie_members(array, order)
    numpy_radix.sort(array)
    _restore_ties(array, members, order)
    return array


def _sorted_by_numpy(order: Order) -> bool:
    """Whether NumPy's own sort of uncoded keys is used: where it is right, and faster than by columns."""
    if order.less is not None or order.descending:
        return False
    return order.dtype.kind == "T" or (order.dtype.kind == "U" and order.dtype.itemsize > _COLUMN_TEXT_BYTES)


def _merged_by_numpy(order: Order, num_runs: int) -> bool:
    """Whether NumPy's stable sort, which finds runs and merges them, is used for uncoded keys alone."""
    if order.less is not None or order.descending or not order.dtype.isnative:
        return False
    return _sorted_by_numpy(order) or num_runs <= _NUMPY_RUNS.get(order.dtype.kind, 0)


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


def argsort_keys(array: np.ndarray, order: Order, offsets: np.ndarray | None = None) -> np.ndarray:
    """Stable permutation that sorts keys in transit, shape (n,).

    `offsets`, shape (runs + 1,), tells where sorted runs lie side by side: they are then merged.
    """
    if order.coded:
        codes = floor(array, order)
        return numpy_radix.argsort(codes) if offsets is None else numpy_radix.argmerge_runs(codes, offsets)
    if order.less is not None:
        return numpy_less.argsort(array, _function(order), offsets)
    if order.words:
        return numpy_words.argsort(numpy_words.columns_of(array), offsets)
    return numpy_columns.argsort_columns(numpy_columns.columns_of(array, order), offsets)


def _function(order: Order) -> Callable[[Any, Any], Any]:
    if not callable(order.less):
        raise TypeError(f"less of NumPy chunks must be a function of two arrays, not {order.less!r}")
    return order.less


def differ(first: np.ndarray, second: np.ndarray, order: Order) -> np.ndarray:
    """Elementwise: whether keys in transit, least of their tie class, differ."""
    if order.coded:
        return np.not_equal(first, second)
    if order.less is not None:
        return numpy_less.differ(first, second, _function(order))
    return numpy_words.differ(first, second) if order.words else numpy_columns.differ(first, second, order)


def before(first: np.ndarray, second: np.ndarray, order: Order) -> np.ndarray:
    """Elementwise: whether keys in transit, least of their tie class, come before others."""
    if order.coded:
        return np.less(first, second)
    if order.less is not None:
        return numpy_less.compare(_function(order), first, second)
    if order.words:
        return numpy_words.less(first, second)
    return numpy_columns.less(*(numpy_columns.columns_of(keys, order) for keys in (first, second)))


def search(array: np.ndarray, needles: np.ndarray, order: Order, side: Side) -> np.ndarray:
    """How many sorted keys in transit are less than ("left"), or at most ("right"), each needle."""
    if order.coded:
        # Keys of one tie class may stand in any order, so a search must pass them all.
        ends = ceiling(needles, order) if side == "right" else needles
        return np.searchsorted(array, ends, side=side).astype(np.int64, copy=False)
    if order.less is not None:
        return numpy_less.search(array, needles, _function(order), side)
    if order.words:
        return numpy_words.search(array, needles, side)
    if order.dtype.kind in "cSU" and order.dtype.isnative and not order.descending:
        # NumPy's own search compares as its sort does, without taking keys apart at every step.
        return np.searchsorted(array, needles, side=side).astype(np.int64, copy=False)
    return numpy_columns.search(array, needles, order, side)


def _sort_with_positions(array: np.ndarray, order: Order) -> tuple[np.ndarray, np.ndarray]:
    if order.coded and not order.has_ties:
        return numpy_radix.sort_with_positions(array)
    permutation = argsort_keys(array, order)
    return array.take(permutation, axis=0), permutation


def key_order(order: Order) -> KeyOrder:
    """How the table compares entries' keys, which are all least of their tie class."""
    if isinstance(order.less, str):
        # An expression of CUDA C++: compared on the device, which only hosts of CuPy chunks have.
        device_order: KeyOrder = import_module(f"{__package__}.cupy_ops").key_order(order)
        return device_order
    if order.coded:
        return KeyOrder(numpy_radix.argsort, lambda array: array[1:] != array[:-1], np.searchsorted)
    return KeyOrder(
        lambda array: argsort_keys(array, order),
        lambda array: differ(array[1:], array[:-1], order),
        lambda array, needles, side: search(array, needles, order, side),
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
        return search(self.array, needles, self.order, side)

    def differ(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return differ(first, second, self.order)


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
    if not joined.values and _merged_by_numpy(order, len(pieces)):
        joined.keys.sort(kind="stable")
        return joined
    permutation = argsort_keys(joined.keys, order, np.cumsum([0, *map(len, pieces)]))
    keys, *values = (array.take(permutation, axis=0) for array in joined.arrays)
    return Run(keys, tuple(values))


def first_fall(array: np.ndarray, order: Order) -> int | None:
    """Position of the first key in transit that comes before the one ahead of it; None if they are sorted."""
    for start in range(0, len(array) - 1, _SCANNED_KEYS):
        part = floor(array[start : start + _SCANNED_KEYS + 1], order)
        fallen = np.flatnonzero(before(part[1:], part[:-1], order))
        if len(fallen):
            return start + 1 + int(fallen[0])
    return None


def edges(block: np.ndarray, order: Order, axis: int) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether the rows of a chunk are sorted, and the first and the last key of each, least of their tie class.

    The keys have shape (rows,), or (rows, words); (0,) where rows have no keys.
    """
    keys = floor(encode(np.moveaxis(block, axis, 0), order), order)
    row = (-1, *keys.shape[keys.ndim - bool(order.words) :])
    # Keys of one position in all rows stand side by side, so that neighbours of rows are two slices.
    ordered = not before(keys[1:].reshape(row), keys[:-1].reshape(row), order).any()
    return ordered, keys[:1].reshape(row), keys[-1:].reshape(row)


def sort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Sort a chunk along an axis that is whole in it."""
    rows = np.moveaxis(block, axis, -1)
    if not order.coded and block.ndim == 1:
        return sort_keys(encode(block, order) if _sorted_by_numpy(order) else block, order)
    if not order.coded:
        return np.take_along_axis(block, argsort_rows(block, order, axis), axis)
    array = sort_keys(encode(rows, order), order)
    return np.moveaxis(decode(array, order), -1, axis)


def argsort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Stable indices, int64, that sort a chunk along an axis that is whole in it.

    Keys of several words have them in one more dimension, the last, which the indices lack.
    """
    rows = np.moveaxis(block, axis, -2 if order.words else -1)
    if order.coded:
        found = numpy_radix.argsort(floor(encode(rows, order), order))
        return np.moveaxis(found.astype(np.int64, copy=False), -1, axis)
    shape = rows.shape[:-1] if order.words else rows.shape
    flat = np.ascontiguousarray(rows).reshape(math.prod(shape[:-1]), shape[-1], *rows.shape[len(shape) :])
    found = np.empty(flat.shape[:2], np.int64)
    batch = max(1, _ROW_KEYS // max(shape[-1], 1))
    for start in range(0, len(flat), batch):
        found[start : start + batch] = _argsort_batch(flat[start : start + batch], order)
    return np.moveaxis(found.reshape(shape), -1, axis)


def _argsort_batch(rows: np.ndarray, order: Order) -> np.ndarray:
    """Indices that sort rows, shape (rows, keys): all together if the keys are columns of codes."""
    count, length = rows.shape[:2]
    columns = _code_columns(rows.reshape(count * length, *rows.shape[2:]), order) if count > 1 else None
    if columns is None:
        return np.array([argsort_keys(row, order) for row in rows], np.int64).reshape(count, length)
    number = np.repeat(np.arange(count, dtype=np.uint64), length)
    return numpy_words.argsort([number, *columns]).reshape(count, length) % max(length, 1)


def _code_columns(array: np.ndarray, order: Order) -> list[np.ndarray] | None:
    """Uncoded keys as columns of codes, None if they are none."""
    if order.less is not None:
        return None
    if order.words:
        return numpy_words.columns_of(array)
    return numpy_columns.codes_of(numpy_columns.columns_of(array, order))


def take_rows(block: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """A chunk's elements in the order of indices along an axis."""
    return np.take_along_axis(block, indices, axis)


def concatenate(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Join arrays along their first dimension."""
    joined: np.ndarray = concatenate_alike(arrays)
    return joined
