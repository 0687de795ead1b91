"""Steps on one chunk with one code for NumPy and CuPy: on the steps of its library, and on functions that dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..order import Order
from . import ops_for


def check_lengths(block: Any, values: Sequence[Any], dims: int = 1) -> None:
    """Refuse companions that differ from the keys in the size of one of the first dimensions."""
    for value in values:
        if value.shape[:dims] != block.shape[:dims]:
            keys, others = (" x ".join(map(str, array.shape[:dims])) for array in (block, value))
            raise ValueError(
                f"a chunk of {keys} keys has {others} values: "
                "keys and values must have the same chunks, so call compute_chunk_sizes() and rechunk, "
                "or if they are not the same each time they are computed, persist them"
            )


def first_descent(array: Any, order: Order) -> int | None:
    """Find the first key in transit that comes before its predecessor; None if the keys are sorted."""
    ops = ops_for(array)
    for start in range(0, len(array) - 1, ops.SCANNED_KEYS):
        part = ops.floor(array[start : start + ops.SCANNED_KEYS + 1], order)
        descents = ops.before(part[1:], part[:-1], order)
        if bool(descents.any()):
            return start + 1 + int(descents.argmax())
    return None


def edges(block: Any, order: Order, axis: int) -> tuple[bool, Any, Any]:
    """Tell whether the rows of a chunk are sorted, and give the first and the last key of each row.

    They are the least of their tie class, of shape (rows,), or (rows, words); (0,) if rows are empty.
    """
    ops = ops_for(block)
    keys = ops.floor(ops.encode(np.moveaxis(block, axis, 0), order), order)
    row = (-1, *keys.shape[keys.ndim - bool(order.words) :])
    # Keys of one position in all rows are contiguous, so that neighbours within rows are two slices.
    ordered = not bool(ops.before(keys[1:].reshape(row), keys[:-1].reshape(row), order).any())
    return ordered, keys[:1].reshape(row), keys[-1:].reshape(row)


def add_starts(positions: Sequence[Any], starts: Sequence[int]) -> Any:
    """Turn positions in several chunks, end to end, into int64 positions in the whole array."""
    found = np.concatenate(positions, dtype=np.int64)
    ends = accumulate(map(len, positions), initial=0)
    for (first, last), start in zip(pairwise(ends), starts, strict=True):
        found[first:last] += start
    return found


def take_rows(block: Any, indices: Any, axis: int) -> Any:
    """Take a chunk's elements in the order of indices along an axis."""
    return np.take_along_axis(block, indices, axis)
