"""Keys in transit of one NumPy chunk: encoding, comparison and search."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .. import keys as key_codes
from ..order import Order
from ..table import Side
from . import numpy_columns, numpy_less, numpy_words

#: Keys that are gathered and encoded at a time: about a level-2 cache.
_GATHERED_KEYS = 1 << 17


def encode(block: np.ndarray, order: Order) -> np.ndarray:
    """Encode the user's keys into a new array of keys in transit."""
    if order.coded:
        return key_codes.encode(block, descending=order.descending)
    return np.array(block, order="C", copy=True)


def encode_at(block: np.ndarray, positions: np.ndarray, order: Order) -> np.ndarray:
    """Encode the user's keys at some positions, in the memory of the result alone."""
    if not order.coded:
        return block.take(positions, axis=0)
    codes = np.empty(positions.shape, order.transit_dtype)
    for start in range(0, len(positions), _GATHERED_KEYS):
        part = slice(start, start + _GATHERED_KEYS)
        codes[part] = encode(block.take(positions[part]), order)
    return codes


def decode(array: np.ndarray, order: Order) -> np.ndarray:
    """Decode keys in transit to the user's; may reuse their memory."""
    if order.coded:
        return key_codes.decode(array, order.dtype, descending=order.descending)
    return array


def floor(array: np.ndarray, order: Order, out: np.ndarray | None = None) -> np.ndarray:
    """Replace keys in transit by the least of their tie classes: equal keys become identical."""
    return key_codes.tie_floor(array, order.dtype, descending=order.descending, out=out) if order.has_ties else array


def ceiling(array: np.ndarray, order: Order) -> np.ndarray:
    """Replace keys in transit by the greatest of their tie classes."""
    return key_codes.tie_ceiling(array, order.dtype, descending=order.descending) if order.has_ties else array


def differ(first: np.ndarray, second: np.ndarray, order: Order) -> np.ndarray:
    """Tell elementwise whether keys in transit, least of their tie class, differ."""
    if order.coded:
        return np.not_equal(first, second)
    if order.less is not None:
        return numpy_less.differ(first, second, function_of(order))
    return numpy_words.differ(first, second) if order.words else numpy_columns.differ(first, second, order)


def before(first: np.ndarray, second: np.ndarray, order: Order) -> np.ndarray:
    """Tell elementwise whether keys in transit, least of their tie class, come before others."""
    if order.coded:
        return np.less(first, second)
    if order.less is not None:
        return numpy_less.compare(function_of(order), first, second)
    if order.words:
        return numpy_words.less(first, second)
    both = numpy_columns.alike(first, second)
    return numpy_columns.less(*(numpy_columns.columns_of(keys, order) for keys in both))


def search(array: np.ndarray, needles: np.ndarray, order: Order, side: Side) -> np.ndarray:
    """Count the sorted keys in transit less than ("left"), or up to ("right"), each needle."""
    if order.coded:
        # Keys of one tie class are in any order, so a search from the right must pass all of them.
        ends = ceiling(needles, order) if side == "right" else needles
        return np.searchsorted(array, ends, side=side).astype(np.int64, copy=False)
    if order.less is not None:
        return numpy_less.search(array, needles, function_of(order), side)
    if order.words:
        return numpy_words.search(array, needles, side)
    if order.dtype.kind in "cSU" and order.dtype.isnative and not order.descending:
        # NumPy's search compares as its sort does, and needs no columns at every step.
        return np.searchsorted(array, needles, side=side).astype(np.int64, copy=False)
    return numpy_columns.search(array, needles, order, side)


def function_of(order: Order) -> Callable[[Any, Any], Any]:
    if isinstance(order.less, str):
        # A CUDA C++ expression is evaluated on the device.
        found: Callable[[Any, Any], Any] = import_module(f"{__package__}.cupy_keys").comparison_on_host(order.less)
        return found
    assert order.less is not None
    return order.less
