"""Ranks of needles among sorted keys of CuPy chunks; both are in transit, and the least of their tie class."""

from __future__ import annotations

from typing import Any

import cupy

from .. import kernels
from ..order import Order
from ..table import Side


def rank(keys: Any, needles: Any, order: Order, side: Side) -> Any:
    """Number of sorted keys less than ("left"), or up to ("right"), each needle; see `numpy_search.rank`."""
    search = kernels.search_sorted if order.coded else kernels.search_wide
    return search(cupy.ascontiguousarray(keys), cupy.ascontiguousarray(needles), side)


#: One thread a needle: sorted needles read neighbouring keys anyway.
rank_sorted = rank


def equal_before(keys: Any, needles: Any, ranks: Any, order: Order) -> Any:
    """Whether the key before each rank is equal to the needle."""
    if not len(keys):
        return cupy.zeros(len(needles), bool)
    return (keys[cupy.maximum(ranks - 1, 0)] == needles) & (ranks > 0)
