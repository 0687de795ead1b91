"""Sorts, merges and first keys of NumPy chunks, and of their rows, by the method that fits their order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..order import Order
from . import numpy_columns, numpy_less, numpy_radix, numpy_words
from .merge_choice import prefers_merge
from .numpy_keys import ceiling, decode, encode, encode_at, floor, function_of
from .numpy_select import count_nans
from .run import Run, concatenate
from .steps import bound_rank

#: Widest `U` dtype, in bytes, for which columns of codes beat np.sort, which reads a wide string only once, if some
#: characters do not fit a byte. Speed relative to np.sort, 2**20 random keys: U1 5.1, U4 4.1, U12 1.3, U16 0.9, U25
#: 0.6; and S, whose columns are numbers of up to eight bytes: S1 3.6, S8 5.4, S20 2.1, S64 1.7, S100 1.3.
_COLUMN_TEXT_BYTES = 48
#: Keys of rows that are sorted together, with the row's number as the first column: enough to outweigh some fifty NumPy
#: calls, few enough for the cache.
_ROW_KEYS = 1 << 16
#: Keys of rows whose first keys are selected together: 64-bit codes then fill about a level-2 cache.
_TOP_KEYS = 1 << 17
#: Keys of a row from which on its first keys are selected from those up to a bound, and the most that may be selected.
_LONG_ROW, _LARGEST_SHARE = 1 << 15, 1 / 8
#: Keys of a row for each sample. In 800,000 float64 (EPYC), 12,500 samples take 0.05 ms and each selected key 20 ns.
_STEP = 64
#: Kinds of dtypes whose keys NumPy compares as it sorts them, NaN and NaT apart.
_COMPARED_KINDS = "biufcmMSU"


def sort_keys(array: np.ndarray, order: Order) -> np.ndarray:
    """Sort keys in transit along the last axis, in place if possible."""
    if not order.coded:
        if order.words:
            return numpy_words.sort(array)
        if not sorted_by_numpy(array, order):
            return array.take(argsort_keys(array, order), axis=0)
        # Equal strings have equal bits, so NumPy's unstable sort gives the same result as a stable one. Of StringDType
        # it ends the process where a pivot is bad again and again, as for two sorted halves.
        return _sort_by_numpy(array, stable=order.dtype.kind == "T")
    members = _tie_members(array, order)
    numpy_radix.sort(array)
    _restore_ties(array, members, order)
    return array


def argsort_keys(array: np.ndarray, order: Order, offsets: np.ndarray | None = None) -> np.ndarray:
    """Find the stable permutation that sorts keys in transit, shape (n,)."""
    # `offsets`, shape (runs + 1,), are the ends of contiguous sorted runs, which a sort by `less` merges.
    if order.coded:
        return numpy_radix.argsort(floor(array, order))
    if order.less is not None:
        return numpy_less.argsort(array, function_of(order), offsets)
    if order.words:
        return numpy_words.argsort(numpy_words.columns_of(array))
    return numpy_columns.argsort(array, order)


def argsort_block(block: np.ndarray, order: Order) -> np.ndarray:
    """Find the stable permutation that sorts the user's keys of a chunk, in the memory of their codes."""
    if not order.coded:
        return argsort_keys(np.ascontiguousarray(block), order)
    codes = encode(block, order)
    return numpy_radix.argsort(floor(codes, order, codes), lambda at: floor(encode_at(block, at, order), order))


def sort_with_positions(array: np.ndarray, order: Order) -> tuple[np.ndarray, np.ndarray]:
    if order.coded and not order.has_ties:
        return numpy_radix.sort_with_positions(array)
    permutation = argsort_keys(array, order)
    return array.take(permutation, axis=0), permutation


def merge(pieces: Sequence[Run], order: Order, with_keys: bool = True) -> Run:
    """Merge sorted runs, which may be overwritten, into one, equal keys in the order of the runs.

    The keys are in any order if they are not wanted.
    """
    placed = _following(pieces, order)
    joined = Run.concat(placed or pieces, copy=None)
    if len(pieces) == 1:
        return joined
    if placed:
        return joined.own() if joined.values else joined
    if not joined.values and not order.coded and _merged_by_numpy(joined.keys, order, len(pieces)):
        return Run(_sort_by_numpy(joined.keys, stable=True))
    if not joined.values and (order.coded or order.words):
        return Run(sort_keys(joined.keys, order))
    permutation = argsort_keys(joined.keys, order, np.cumsum([0, *map(len, pieces)]))
    keys = joined.keys.take(permutation, axis=0) if with_keys else joined.keys
    return Run(keys, tuple(value.take(permutation, axis=0) for value in joined.values))


def _following(pieces: Sequence[Run], order: Order) -> list[Run]:
    """Sorted runs in the order in which they follow each other; none if they overlap."""
    filled = [piece for piece in pieces if len(piece)]
    if not filled:
        return []
    # In a stable sort of all first and last keys, both keys of a run that is apart are neighbours.
    placed = argsort_keys(concatenate([piece.keys[[0, -1]] for piece in filled]), order)
    apart = placed[1::2] == placed[::2] + 1
    return [filled[end // 2] for end in placed[::2]] if apart.all() else []


def sorted_by_numpy(array: np.ndarray, order: Order) -> bool:
    """Tell whether NumPy's sort of uncoded keys is used: if it is correct and faster than columns."""
    if order.less is not None or order.descending:
        return False
    wide = order.dtype.kind == "U" and order.dtype.itemsize > _COLUMN_TEXT_BYTES
    return order.dtype.kind == "T" or (wide and not numpy_columns.fits_bytes(array))


def _sort_by_numpy(array: np.ndarray, *, stable: bool) -> np.ndarray:
    numpy_columns.check_strings(array)
    array.sort(kind="stable" if stable else None)
    return array


def _merged_by_numpy(array: np.ndarray, order: Order, num_runs: int) -> bool:
    """Tell whether NumPy's stable sort, which finds runs and merges them, is used for uncoded keys without values."""
    if order.less is not None or order.descending or not order.dtype.isnative:
        return False
    if sorted_by_numpy(array, order):
        return True
    measured = order.dtype.kind in "cSU" and order.dtype.itemsize > 0
    return measured and prefers_merge(order.dtype, num_runs, _sort_columns)


def _sort_columns(array: np.ndarray) -> np.ndarray:
    return array.take(numpy_columns.argsort(array, Order(array.dtype)))


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


def sort_rows(block: np.ndarray, order: Order, axis: int, *, overwrite: bool = False) -> np.ndarray:
    """Sort a chunk along an axis that is in one chunk; `overwrite` allows the result in the chunk's memory."""
    rows = np.moveaxis(block, axis, -1)
    if not order.coded and block.ndim == 1:
        return sort_keys(encode(block, order) if sorted_by_numpy(block, order) else block, order)
    if not order.coded:
        return np.take_along_axis(block, argsort_rows(block, order, axis), axis)
    fits = order.dtype.itemsize > 2 or rows.shape[-1] <= numpy_radix.WIDENED_ROW
    plain = order.dtype.kind in "iuf" and not order.descending and not order.has_ties
    if fits and plain and not count_nans(rows):  # not all of NumPy's sorts keep the bits of NaN
        values = np.array(rows, order.dtype.newbyteorder("="), order="C", copy=None if overwrite else True)
        numpy_radix.sort(values)
        return np.moveaxis(values.astype(order.dtype, copy=False), -1, axis)
    array = sort_keys(encode(rows, order), order)
    return np.moveaxis(decode(array, order), -1, axis)


def first_keys(rows: np.ndarray, order: Order, count: int) -> np.ndarray:
    """Find the first `count` keys of each row, sorted, or all."""
    if not order.coded:
        return sort_rows(rows, order, 1)[:, :count]
    codes = encode(rows, order)
    codes.partition(min(count, rows.shape[1]) - 1, axis=1)
    first = np.sort(codes[:, :count], axis=1)
    found = decode(first.copy(), order)
    if order.has_ties:
        # A key with other codes in its tie class may stand for one that comes before it in the row.
        several = _in_tie_class(first, order).any(axis=1)
        found[several] = sort_rows(rows[several], order, 1)[:, :count]
    return found


def argsort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Find the stable indices, int64, that sort a chunk along an axis that is in one chunk."""
    # Words are in an additional last dimension, which the indices do not have.
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
    """Find the indices that sort rows, shape (rows, keys): in one sort if the keys are columns of codes."""
    count, length = rows.shape[:2]
    columns = _code_columns(rows.reshape(count * length, *rows.shape[2:]), order) if count > 1 else None
    if columns is None:
        return np.array([argsort_keys(row, order) for row in rows], np.int64).reshape(count, length)
    number = np.repeat(np.arange(count, dtype=np.uint64), length)
    return numpy_words.argsort([number, *columns]).reshape(count, length) % max(length, 1)


def _code_columns(array: np.ndarray, order: Order) -> list[np.ndarray] | None:
    """Uncoded keys as columns of codes; None if NumPy or the user's function must compare them."""
    if order.less is not None:
        return None
    if order.words:
        return numpy_words.columns_of(array)
    return numpy_columns.codes_of(numpy_columns.columns_of(array, order))


def first_indices(block: np.ndarray, order: Order, count: int, axis: int) -> np.ndarray:
    """Find int64 indices of the first `count` keys of each row along an axis in the order of a stable sort, or of all.

    A row's indices are not sorted by key, but those of equal keys ascend.
    """
    rows = np.moveaxis(block, axis, -1)
    length = rows.shape[-1]
    if not 0 < count < length:
        every = np.arange(min(count, length))
        return np.moveaxis(np.broadcast_to(every, (*rows.shape[:-1], len(every))), -1, axis)
    if length < _LONG_ROW or count > length * _LARGEST_SHARE or order.dtype.kind not in _COMPARED_KINDS:
        return np.moveaxis(_first_of_rows(rows, order, count), -1, axis)
    found = np.empty((*rows.shape[:-1], count), np.int64)
    for index in np.ndindex(rows.shape[:-1]):
        found[index] = _first_of_long_row(rows[index], order, count)
    return np.moveaxis(found, -1, axis)


def _first_of_long_row(row: np.ndarray, order: Order, count: int) -> np.ndarray:
    """Select the first keys of one row from the keys up to a bound that samples give."""
    # If keys up to the bound are too few or too many, the whole row is selected from.
    sample = row[::_STEP]
    first = sample[_first_of_rows(sample[None], order, min(bound_rank(count / _STEP), len(sample)))[0]]
    # Selections by codes are not sorted.
    bound = first[np.argmax(floor(encode(first, order), order)) if order.coded else -1]
    with np.errstate(invalid="ignore"):
        before = np.flatnonzero(row > bound if order.descending else row < bound)
    if len(before) < count:
        # The bound is the last key, or it is NaN or NaT, which equals nothing.
        ties = np.flatnonzero(row == bound)[: count - len(before)]
        if len(before) + len(ties) == count:
            return np.concatenate([before, ties])
    if not count <= len(before) <= len(row) // 4:
        return _first_of_rows(row[None], order, count)[0]
    found: np.ndarray = before[_first_of_rows(row[before][None], order, count)[0]]
    return found


def _first_of_rows(rows: np.ndarray, order: Order, count: int) -> np.ndarray:
    """Find the indices of the first keys along the last axis, of which there are at least `count`."""
    if not order.coded:
        return argsort_rows(rows, order, -1)[..., :count]
    if rows.ndim == 1:  # batches are of rows
        return _first_of_rows(rows[None], order, count)[0]
    found = np.empty((*rows.shape[:-1], count), np.int64)
    batch = max(1, _TOP_KEYS // max(1, math.prod(rows.shape[1:])))
    for start in range(0, len(rows), batch):
        part = slice(start, start + batch)
        codes = floor(encode(rows[part], order), order)
        found[part] = _first_codes(codes.reshape(-1, rows.shape[-1]), count).reshape(found[part].shape)
    return found


def _first_codes(codes: np.ndarray, count: int) -> np.ndarray:
    """Ascending indices of the least codes of each row, shape (rows, keys); the first ones of equal codes."""
    last = np.partition(codes, count - 1, axis=1)[:, count - 1 : count]
    kept = codes <= last
    if np.count_nonzero(kept) > len(codes) * count:
        # More keys than are missing tie for the last rank.
        ties = codes == last
        missing = count - np.count_nonzero(codes < last, axis=1, keepdims=True)
        kept &= ~ties | (np.cumsum(ties, axis=1) <= missing)
    return (np.flatnonzero(kept) % codes.shape[1]).reshape(len(codes), count)
