"""Stable sorts of keys with what travels along: their positions, or values."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import lsd, moving, msd, tuning
from .arguments import check_algorithm, check_array, check_indexable, prepare_out
from .dtypes import DeviceKey, device_key
from .elements import WIDTHS, Arrays, indexed_elements, tied_elements
from .loader import require_cupy
from .transform import gather, tie_ranges, value_type

NARROW_BYTES = 4


def sort_indexed_passes(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """As `sort_indexed`, a byte of the keys a pass."""
    cupy = require_cupy()
    codes, payloads = list(cupy.empty((2, keys.size), key.code_dtype)), list(cupy.empty((2, keys.size), np.uint32))
    elements = tied_elements(key, position_type, "u32")
    lsd.sort(elements, keys, keys.size, Arrays(codes, payloads, keys_out, positions_out))


def sort_indexed(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """Stable sort by (key, position): the position is the low part of the code, or travels beside it.

    `positions_out` is int64 or uint32 as `position_type` says; tied floats come out of `keys_out` canonical.
    """
    cupy = require_cupy()
    n = keys.size
    in_place = positions_out.itemsize == 8
    elements = indexed_elements(key, position_type)
    codes = [cupy.empty(n, np.uint64), positions_out if in_place else cupy.empty(n, np.uint64)]
    payloads = list(cupy.empty((2, n), np.uint32)) if elements.payload_bytes else [None, None]
    arrays = Arrays(codes, payloads, keys_out, positions_out)
    if not msd.sort(elements, keys, n, arrays, may_decline=True):
        del codes, payloads, arrays
        sort_indexed_passes(keys, key, position_type, positions_out, keys_out)


def argsort(keys: Any, *, descending: bool = False, out: Any = None, algorithm: str = "auto") -> Any:
    """Positions that sort the keys, stable.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        As for `sort_keys`; n below 2^32.
    descending : bool
        Largest first; equal keys still keep their input order.
    out : cupy.ndarray of int64, optional
        Receives the result.

    Returns
    -------
    cupy.ndarray, shape (n,), int64
    """
    check_array(keys, "keys")
    check_algorithm(algorithm)
    check_indexable(keys.size)
    key = device_key(keys.dtype, descending)
    out = prepare_out(out, keys.shape, np.int64)
    if keys.size == 0:
        return out
    if algorithm == "lsd":
        sort_indexed_passes(keys, key, "long long", out, None)
    else:
        sort_indexed(keys, key, "long long", out, None)
    return out


def sort_pairs(
    keys: Any,
    values: Any,
    *,
    descending: bool = False,
    keys_out: Any = None,
    values_out: Any = None,
    algorithm: str = "auto",
) -> tuple[Any, Any]:
    """Sort keys and move one value with each, stable.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        As for `argsort`.
    values : cupy.ndarray, shape (n, ...)
        Anything CuPy can index; values (or rows) of 1, 2, 4, 8 or 16 bytes are moved by kernels of our own.

    Returns
    -------
    keys : cupy.ndarray, shape (n,)
    values : cupy.ndarray, shape (n, ...)
    """
    check_array(keys, "keys")
    check_algorithm(algorithm)
    check_indexable(keys.size)
    if len(values) != keys.size:
        raise ValueError(f"{len(values)} values for {keys.size} keys; give one value a key.")
    key = device_key(keys.dtype, descending)
    shared = {array.data.ptr for array in (keys_out, values_out) if array is not None}
    if shared & {keys.data.ptr, values.data.ptr}:
        raise ValueError("`keys_out` and `values_out` may not be the inputs: values are gathered from them last.")
    keys_out = prepare_out(keys_out, keys.shape, keys.dtype, "keys_out")
    values_out = prepare_out(values_out, values.shape, values.dtype, "values_out")
    if keys.size == 0:
        return keys_out, values_out
    if algorithm != "auto" or not sort_with_values(keys, key, values, descending, keys_out, values_out):
        positions = order_with_positions(keys, descending, keys_out, algorithm)
        gather(values, positions, values_out)
    return keys_out, values_out


def sort_with_values(keys: Any, key: DeviceKey, values: Any, descending: bool, keys_out: Any, values_out: Any) -> bool:
    """As `sort_pairs`, by passes that move the values; False where to gather them at the end takes less time."""
    n, type_name, crowded = keys.size, value_type(values), False
    if type_name is None or type_name != value_type(values_out):
        return False
    if moving.pays(key, n, type_name):
        crowded = not moving.sort_moved(keys, values, type_name, key, descending, keys_out, values_out)
        if not crowded:
            return True
    if not takes_values(key, n, type_name, crowded):
        return False
    sort_valued(keys, key, values, type_name, keys_out, values_out)
    return True


def order_with_positions(keys: Any, descending: bool, keys_out: Any, algorithm: str) -> Any:
    """Stable sort into `keys_out`, tied keys with their own bits; the positions they came from, uint32."""
    key = device_key(keys.dtype, descending)
    positions = require_cupy().empty(keys.size, np.uint32)
    if algorithm == "lsd":
        sort_indexed_passes(keys, key, "u32", positions, keys_out)
    else:
        sort_indexed(keys, key, "u32", positions, keys_out)
    if keys.dtype.kind == "c":
        gather(keys, positions, keys_out)
    elif key.has_ties:
        for first, last in tie_ranges(keys_out, descending):
            gather(keys, positions[first:last], keys_out[first:last])
    return positions


def sort_with_positions(keys: Any, *, descending: bool = False) -> tuple[Any, Any]:
    """Sort keys and tell where they came from, stable.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        As for `argsort`.
    descending : bool
        Largest first; equal keys still keep their input order.

    Returns
    -------
    keys : cupy.ndarray, shape (n,)
    positions : cupy.ndarray, shape (n,), uint32
    """
    cupy = require_cupy()
    check_array(keys, "keys")
    check_indexable(keys.size)
    keys_out = cupy.empty_like(keys)
    if keys.size == 0:
        return keys_out, cupy.empty(0, np.uint32)
    return keys_out, order_with_positions(keys, descending, keys_out, "auto")


def takes_values(key: DeviceKey, n: int, type_name: str, crowded: bool) -> bool:
    """Whether stable passes that move the values themselves take less time than to gather them by position."""
    if key.has_ties or (key.itemsize, WIDTHS[type_name]) not in tuning.LSD:
        return False
    return crowded or (key.itemsize <= NARROW_BYTES and n >= tuning.LSD_PAIRS)


def sort_valued(keys: Any, key: DeviceKey, values: Any, type_name: str, keys_out: Any, values_out: Any) -> None:
    """Stable sort of keys without ties of different bits, each with a value that stable passes move."""
    cupy = require_cupy()
    codes = [cupy.empty(keys.size, key.code_dtype), keys_out]
    payloads = [cupy.empty(values.nbytes, np.uint8), values_out]
    elements = tied_elements(key, type_name, type_name)
    lsd.sort(elements, keys, keys.size, Arrays(codes, payloads, keys_out, values_out), values)
