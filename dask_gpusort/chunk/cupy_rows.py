"""Sorts of the rows of one CuPy chunk, along an axis that is in one chunk."""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..order import Order
from .cupy_keys import words_of
from .cupy_sorts import argsort_keys


def sort_rows(block: Any, order: Order, axis: int, *, overwrite: bool = False) -> Any:
    """Sort a chunk along an axis of one chunk; `overwrite` allows the result in the chunk's memory."""
    if not order.coded:
        return cupy.take_along_axis(block, argsort_rows(block, order, axis), axis)
    rows, shape = _rows(block, axis)
    out = rows if overwrite or rows.data.ptr != block.data.ptr else None
    ordered = kernels.sort_rows(rows, descending=order.descending, stable=order.stable, out=out)
    return cupy.moveaxis(ordered.reshape(shape), -1, axis)


def argsort_rows(block: Any, order: Order, axis: int) -> Any:
    """Find the stable indices, int64, that sort a chunk along an axis of one chunk; see `numpy_ops.argsort_rows`."""
    if order.coded:
        rows, shape = _rows(block, axis)
        found = kernels.argsort_rows(rows, descending=order.descending)
    else:
        moved = cupy.ascontiguousarray(cupy.moveaxis(block, axis, -2 if order.words else -1))
        shape = moved.shape[:-1] if order.words else moved.shape
        count, length = math.prod(shape[:-1]), shape[-1]
        found = _argsort_batch(moved.reshape(count * length, *moved.shape[len(shape) :]), count, length, order)
    return cupy.moveaxis(found.reshape(shape), -1, axis)


def _argsort_batch(keys: Any, count: int, length: int, order: Order) -> Any:
    """Find the indices that sort `count` contiguous rows of uncoded keys."""
    if order.less is not None:
        rows = [argsort_keys(keys[row * length : (row + 1) * length], order) for row in range(count)]
        return cupy.concatenate(rows) if rows else cupy.empty(0, np.int64)
    if count <= 1:
        return argsort_keys(keys, order)
    # All rows are sorted together, with the number of the row as the first word.
    number = (cupy.arange(count * length, dtype=np.uint64) // np.uint64(max(length, 1)))[:, None]
    by_row = cupy.ascontiguousarray(cupy.concatenate([number, words_of(keys, order)], axis=1))
    return kernels.argsort_words(by_row) % max(length, 1)


def _rows(block: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """A chunk as a matrix of the rows to sort, and the chunk's shape with the axis moved last."""
    moved = cupy.moveaxis(block, axis, -1)
    rows = cupy.ascontiguousarray(moved).reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    return rows, moved.shape


def first_indices(block: Any, order: Order, count: int, axis: int) -> Any:
    """Find the first keys of each row in the order of a stable sort, as `numpy_top.first_indices`."""
    # The rows are sorted whole. The copy frees the memory of the other indices.
    indices = argsort_rows(block, order, axis)
    return indices[(slice(None),) * axis + (slice(count),)].copy()
