"""The order transform alone, gathers by position, and rank look-ups: one thread an element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..launch.array_checks import check_array, prepare_out
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from .dtypes import device_key

SOURCE = "keys/transform.cu"
TRANSFORM_THREADS = 256
VALUE_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "u128"}
POSITION_TYPES = {4: "u32", 8: "u64"}


def transform_blocks(n: int) -> int:
    """Blocks of a kernel with one thread an element."""
    return -(-n // TRANSFORM_THREADS)


def encode(keys: Any, descending: bool = False, *, out: Any = None) -> Any:
    """The unsigned codes of keys, one to one.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        Keys of a radix dtype.
    descending : bool
        Codes that ascend as the keys descend; NaN and NaT stay last.
    out : cupy.ndarray, optional
        Receives the result; may be the memory of the keys.

    Returns
    -------
    cupy.ndarray, shape (n,), unsigned, of the same itemsize
    """
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    codes = prepare_out(out, keys.shape, key.code_dtype)
    Launch(
        SOURCE,
        f"encode_keys<{key.order}>",
        transform_blocks(keys.size),
        TRANSFORM_THREADS,
        (keys, codes, np.uint64(keys.size)),
    ).run()
    return codes


def decode(codes: Any, dtype: Any, descending: bool = False, *, out: Any = None) -> Any:
    """The keys of codes: the inverse of `encode`. `out` receives them, and may be the memory of the codes."""
    check_array(codes, "codes")
    key = device_key(dtype, descending)
    if codes.dtype != key.code_dtype:
        raise ValueError(f"`codes` are {codes.dtype}; the codes of {np.dtype(dtype)} are {key.code_dtype}.")
    keys = prepare_out(out, codes.shape, np.dtype(dtype))
    Launch(
        SOURCE,
        f"decode_codes<{key.order}>",
        transform_blocks(codes.size),
        TRANSFORM_THREADS,
        (codes, keys, np.uint64(codes.size)),
    ).run()
    return keys


def search_sorted(keys: Any, needles: Any, side: str = "left", *, descending: bool = False) -> Any:
    """Ranks of needles among sorted keys, as `numpy.searchsorted`, in the order of the sort.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        Sorted by `sort_keys` with the same `descending`.
    needles : cupy.ndarray, shape (k,), the same dtype
    side : {"left", "right"}
        Number of keys before the needle, or of keys not after it.

    Returns
    -------
    cupy.ndarray, shape (k,), int64
    """
    check_array(keys, "keys")
    check_array(needles, "needles")
    if keys.dtype != needles.dtype:
        raise ValueError(f"`needles` are {needles.dtype} and `keys` {keys.dtype}; give one dtype.")
    if side not in ("left", "right"):
        raise ValueError(f"`side` is {side!r}; give 'left' or 'right'.")
    order = device_key(keys.dtype, descending).order
    ranks = require_cupy().empty(needles.size, np.int64)
    Launch(
        SOURCE,
        f"search_sorted<{order}, {str(side == 'right').lower()}>",
        transform_blocks(needles.size),
        TRANSFORM_THREADS,
        (keys, np.uint64(keys.size), needles, ranks, np.uint64(needles.size)),
    ).run()
    return ranks


def value_type(values: Any) -> str | None:
    """C++ type that holds one value, a row where there are several dimensions; `None` where one access moves none."""
    width = values.itemsize * math.prod(values.shape[1:])
    if width not in VALUE_TYPES or not values.flags.c_contiguous or values.data.ptr % width:
        return None
    return VALUE_TYPES[width]


def gather(values: Any, positions: Any, out: Any = None) -> Any:
    """`values[positions]` for values of any width; `out` receives them, and may be the memory of the values."""
    out = require_cupy().empty((positions.size, *values.shape[1:]), values.dtype) if out is None else out
    if out.data.ptr == values.data.ptr:
        values = values.copy()
    type_in, type_out = value_type(values), value_type(out)
    if type_in is None or type_in != type_out:
        out[...] = values[positions]
    else:
        run_gather(type_in, values, positions, out)
    return out


def run_gather(type_name: str, values: Any, positions: Any, out: Any, ahead: int = 0) -> None:
    """`gather` of values that an access moves; those `ahead` of the output's place are called into the cache."""
    n = positions.size
    name = f"gather<{type_name}, {POSITION_TYPES[positions.itemsize]}>"
    arguments = (values, positions, out, np.uint64(n), np.uint64(ahead))
    Launch(SOURCE, name, transform_blocks(n), TRANSFORM_THREADS, arguments).run()


def tie_ranges(keys: Any, descending: bool) -> list[tuple[int, int]]:
    """Where sorted real floats hold keys of different bits that compare equal: the zeros, and the NaNs."""
    cupy = require_cupy()
    classes = cupy.asarray(np.array([0.0, np.nan], keys.dtype))
    left = search_sorted(keys, classes, "left", descending=descending)
    right = search_sorted(keys, classes, "right", descending=descending)
    bounds = cupy.stack([left, right], axis=1).get()
    return [(int(first), int(last)) for first, last in bounds if last > first]
