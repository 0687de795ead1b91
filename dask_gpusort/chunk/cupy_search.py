"""Ranks of needles among sorted keys of CuPy chunks; both are in transit, and the least of their tie class.

Coded keys may be the user's instead.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..order import Order
from ..table import Side
from .cupy_keys import encode, floor
from .cupy_ties import scatter_numbers

#: Keys and needles from which needles are sorted before the search: then threads read neighbouring keys.
LEAST_KEYS, LEAST_NEEDLES = 1 << 22, 1 << 18


def ranked_keys(array: Any, order: Order) -> Any:
    """Give the user's keys or needles, as `rank` takes them: the kernels compare codes of coded keys themselves."""
    return cupy.ascontiguousarray(array) if order.coded else floor(encode(array, order), order)


def interpolate(needles: Any, keys: Any, values: Any, ends: tuple[Any, Any]) -> Any:
    """Interpolate at needles; see `numpy_search.interpolate`."""
    return cupy.interp(cupy.ascontiguousarray(needles), keys, values, *ends)


def rank(keys: Any, needles: Any, order: Order, side: Side) -> Any:
    """Count the sorted keys less than ("left"), or up to ("right"), each needle; see `numpy_search.rank`."""
    if len(keys) < LEAST_KEYS or len(needles) < LEAST_NEEDLES or not order.coded:
        search = kernels.search_sorted if order.coded else kernels.search_wide
        return search(cupy.ascontiguousarray(keys), cupy.ascontiguousarray(needles), side)
    ordered, positions = kernels.sort_with_positions(cupy.ascontiguousarray(needles))
    ranks = rank_sorted(keys, ordered, order, side)
    return scatter_numbers(ranks, positions, np.int64) if ranks.dtype == np.uint32 else scatter(ranks, positions)


def rank_sorted(keys: Any, needles: Any, order: Order, side: Side) -> Any:
    """As `rank`, of sorted needles; unsigned integers of 32 bits if they suffice."""
    search = kernels.rank_sorted_needles if order.coded else kernels.search_wide
    return search(cupy.ascontiguousarray(keys), cupy.ascontiguousarray(needles), side)


def scatter(values: Any, positions: Any) -> Any:
    """An array with the values at positions that are a permutation."""
    found = cupy.empty_like(values)
    kernels.scatter(values, positions, found)
    return found


def equal_before(keys: Any, needles: Any, ranks: Any, order: Order) -> Any:
    """Tell whether the key before each rank is equal to the needle."""
    if not len(keys):
        return cupy.zeros(len(needles), bool)
    return (keys[cupy.maximum(ranks, 1) - 1] == needles) & (ranks > 0)
