"""Keys in transit of one CuPy chunk: encoding and comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..order import Order
from . import cupy_staging, numpy_words
from .numpy_columns import Column


def encode(block: Any, order: Order) -> Any:
    """Encode the user's keys for transit, into a new array."""
    if not order.coded:
        return cupy.array(block, order="C", copy=True)
    return kernels.encode(cupy.ascontiguousarray(block).ravel(), order.descending).reshape(block.shape)


def encode_own(keys: Any, order: Order) -> Any:
    """Encode the user's keys for transit, in the same memory."""
    if not order.coded:
        return keys
    return kernels.encode(keys, order.descending, out=keys.view(f"u{keys.itemsize}"))


def decode(array: Any, order: Order) -> Any:
    """Decode keys in transit to the user's; may reuse their memory."""
    if not order.coded:
        return array
    codes = cupy.ascontiguousarray(array)
    return kernels.decode(codes, order.dtype, order.descending, out=codes.view(order.dtype))


def floor(array: Any, order: Order) -> Any:
    """Replace keys in transit by the least key of their tie class."""
    if not order.has_ties:
        return array
    codes = cupy.array(array, order="C", copy=True).ravel()
    return kernels.floor_codes(codes, order.dtype, order.descending).reshape(array.shape)


def before(first: Any, second: Any, order: Order) -> Any:
    """Tell elementwise whether keys in transit come before others; all are the least of their tie class."""
    if order.coded:
        return first < second
    if order.less is not None:
        return kernels.compare_elements(
            cupy.ascontiguousarray(first), cupy.ascontiguousarray(second), expression_of(order)
        )
    return numpy_words.less(words_of(first, order), words_of(second, order))


def columns_of(part: Any, order: Order) -> list[Column]:
    """Give the columns of one key, as `numpy_columns` makes them."""
    keys = cupy.ascontiguousarray(part)
    if order.coded:
        codes = kernels.floor_codes(kernels.encode(keys, order.descending), order.dtype, order.descending)
        return [Column(codes, bits=1 if order.dtype.kind == "b" else 8 * order.dtype.itemsize)]
    return [Column(word, bits=numpy_words.WORD_BITS) for word in kernels.encode_words(keys, order.descending).T]


def words_of(keys: Any, order: Order) -> Any:
    """Uncoded keys as rows of words."""
    return keys if order.words else kernels.encode_words(cupy.ascontiguousarray(keys), order.descending)


def expression_of(order: Order) -> str:
    if not isinstance(order.less, str):
        raise TypeError(f"less of CuPy chunks must be a CUDA C++ expression in a and b, not {order.less!r}")
    return order.less


def comparison_on_host(less: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A comparison of host arrays that runs on the device, for the few keys that the tasks which find cuts compare."""

    def compare(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        one, other = (cupy.asarray(cupy_staging.native(keys)) for keys in (first, second))
        found: np.ndarray = cupy.asnumpy(kernels.compare_elements(one, other, less))
        return found

    return compare
