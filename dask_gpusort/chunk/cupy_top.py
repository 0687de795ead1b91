"""The first keys of the rows of one CuPy chunk, in the order of the sort."""

from __future__ import annotations

from typing import Any

from ..order import Order
from .cupy_rows import argsort_rows


def first_indices(block: Any, order: Order, count: int, axis: int) -> Any:
    """Find the first keys of each row in the order of a stable sort, as `numpy_top.first_indices`."""
    # The rows are sorted whole. The copy frees the memory of the other indices.
    indices = argsort_rows(block, order, axis)
    return indices[(slice(None),) * axis + (slice(count),)].copy()
