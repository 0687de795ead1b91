"""Sorts of the rows of one NumPy chunk, along an axis that is in one chunk."""

from __future__ import annotations

import math

import numpy as np

from ..order import Order
from . import numpy_columns, numpy_radix, numpy_words
from .numpy_keys import decode, encode, floor
from .numpy_sorts import argsort_keys, sort_keys, sorted_by_numpy

#: Keys of rows that are sorted together, with the row's number as the first column: enough to outweigh some fifty NumPy
#: calls, few enough for the cache.
_ROW_KEYS = 1 << 16


def sort_rows(block: np.ndarray, order: Order, axis: int, *, overwrite: bool = False) -> np.ndarray:
    """Sort a chunk along an axis that is in one chunk; `overwrite` allows the result in the chunk's memory."""
    rows = np.moveaxis(block, axis, -1)
    if not order.coded and block.ndim == 1:
        return sort_keys(encode(block, order) if sorted_by_numpy(order) else block, order)
    if not order.coded:
        return np.take_along_axis(block, argsort_rows(block, order, axis), axis)
    array = sort_keys(encode(rows, order), order)
    return np.moveaxis(decode(array, order), -1, axis)


def argsort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Find the stable indices, int64, that sort a chunk along an axis that is in one chunk.

    Words are in an additional last dimension, which the indices do not have.
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
