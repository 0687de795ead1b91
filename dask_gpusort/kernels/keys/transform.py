"""Element-wise launches (``transform.cu``), one thread per element: encode, decode, gather, search by rank.

Sorted needles are ranked by tiles (``sorted_needles.cu``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..launch.array_checks import INDEX_LIMIT, check_array, check_side, prepare_out
from ..launch.constants import cxx_constant
from ..launch.cxx_types import is_movable, type_of_bytes
from ..launch.grid import blocks_for, instance
from ..launch.launch import Launch, side_by_side
from ..launch.loader import require_cupy
from ..primitives.rank_search import search_ranks
from .dtypes import device_key

SOURCE = "keys/transform.cu"
THREADS = 256
NEEDLES_SOURCE = "keys/sorted_needles.cu"
NEEDLE_THREADS = cxx_constant(NEEDLES_SOURCE, "kNeedleThreads")
NEEDLE_TILE = NEEDLE_THREADS * cxx_constant(NEEDLES_SOURCE, "kNeedlesPerThread")


def launch_per_element(kernel: str, n: int, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel with one thread for each of `n` elements."""
    Launch(SOURCE, kernel, blocks_for(n, THREADS), THREADS, arguments).run()


def encode(keys: Any, descending: bool = False, *, out: Any = None) -> Any:
    """Encode keys as unsigned codes, one to one.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        Keys of a radix dtype.
    descending : bool
        Codes ascend as the keys descend; NaN and NaT stay last.
    out : cupy.ndarray, optional
        Receives the codes; may share the memory of `keys`.

    Returns
    -------
    cupy.ndarray, shape (n,), unsigned, of the same itemsize

    References
    ----------
    Graefe, Implementing Sorting in Database Systems, ACM Computing Surveys 38, 2006 (normalized keys).
    """
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    codes = prepare_out(out, keys.shape, key.code_dtype)
    launch_per_element(instance("encode_keys", key.order), keys.size, (keys, codes, np.uint64(keys.size)))
    return codes


def decode(codes: Any, dtype: Any, descending: bool = False, *, out: Any = None) -> Any:
    """Decode codes to keys: the inverse of `encode`.

    Parameters
    ----------
    codes : cupy.ndarray, shape (n,)
        Unsigned, of the itemsize of `dtype`.
    dtype : dtype
        The keys' dtype.
    descending : bool
        As given to `encode`.
    out : cupy.ndarray, optional
        Receives the keys; may share the memory of `codes`.

    Returns
    -------
    cupy.ndarray, shape (n,)

    Raises
    ------
    ValueError
        The codes are of another dtype than those of `dtype`.
    """
    check_array(codes, "codes")
    key = device_key(dtype, descending)
    if codes.dtype != key.code_dtype:
        raise ValueError(f"`codes` are {codes.dtype}; the codes of {np.dtype(dtype)} are {key.code_dtype}.")
    keys = prepare_out(out, codes.shape, np.dtype(dtype))
    launch_per_element(instance("decode_codes", key.order), codes.size, (codes, keys, np.uint64(codes.size)))
    return keys


def search_sorted(keys: Any, needles: Any, side: str = "left", *, descending: bool = False) -> Any:
    """Rank needles among sorted keys, as `numpy.searchsorted`, in the order of the sort.

    Parameters
    ----------
    keys : cupy.ndarray, shape (n,)
        Sorted by `sort_keys` with the same `descending`.
    needles : cupy.ndarray, shape (k,), the same dtype
    side : {"left", "right"}
        Count the keys before the needle, or the keys not after it.

    Returns
    -------
    cupy.ndarray, shape (k,), int64

    Raises
    ------
    ValueError
        Keys and needles differ in dtype, or `side` is neither.
    """
    check_array(keys, "keys")
    check_array(needles, "needles")
    if keys.dtype != needles.dtype:
        raise ValueError(f"`needles` are {needles.dtype} and `keys` {keys.dtype}; give one dtype.")
    return search_ranks(SOURCE, "search_sorted", (device_key(keys.dtype, descending).order,), keys, needles, side)


def rank_sorted_needles(keys: Any, needles: Any, side: str = "left") -> Any:
    """As `search_sorted`, of needles that are sorted like the keys, in ascending order.

    Returns
    -------
    cupy.ndarray, shape (k,)
        uint32, or int64 if there are 2**32 keys or more.
    """
    check_array(keys, "keys")
    check_array(needles, "needles")
    check_side(side)
    if keys.dtype != needles.dtype:
        raise ValueError(f"`needles` are {needles.dtype} and `keys` {keys.dtype}; give one dtype.")
    n, count = keys.size, needles.size
    ranks = require_cupy().empty(count, np.uint32 if n < INDEX_LIMIT else np.int64)
    name = instance("rank_sorted_needles", device_key(keys.dtype).order, side == "right", type_of_bytes(ranks.itemsize))
    arguments = (keys, np.uint64(n), needles, np.uint64(count), ranks)
    Launch(NEEDLES_SOURCE, name, blocks_for(count, NEEDLE_TILE), NEEDLE_THREADS, arguments).run()
    return ranks


def value_type(values: Any) -> str | None:
    """Name the C++ type that holds one value (a row, in several dimensions); `None` if no single access moves it."""
    width = values.itemsize * math.prod(values.shape[1:])
    if not is_movable(width) or not values.flags.c_contiguous or values.data.ptr % width:
        return None
    return type_of_bytes(width)


def moves_rows(values: Any) -> bool:
    """Whether one memory access moves a value of an array (a row, in several dimensions)."""
    return value_type(values) is not None


def gather(values: Any, positions: Any, out: Any = None) -> Any:
    """`values[positions]` for values of any width.

    Parameters
    ----------
    values : cupy.ndarray, shape (n, ...)
    positions : cupy.ndarray, shape (k,), uint32 or int64
    out : cupy.ndarray, shape (k, ...), optional
        Receives the result; may share the memory of `values`.

    Returns
    -------
    cupy.ndarray, shape (k, ...)
    """
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
    """`gather` for values that one access moves; prefetches the values `ahead` of the output position (0: none)."""
    n = positions.size
    name = instance("gather", type_name, type_of_bytes(positions.itemsize))
    launch_per_element(name, n, (values, positions, out, np.uint64(n), np.uint64(ahead)))


def gather_in_range(values: Any, indices: Any, out: Any) -> bool:
    """``out[...] = values[indices]`` for indices that may be negative or out of range; waits for the device.

    Parameters
    ----------
    values : cupy.ndarray, shape (n, ...)
        Rows that one memory access moves.
    indices : cupy.ndarray of int64, shape (k,)
    out : cupy.ndarray, shape (k, ...), the dtype of the values

    Returns
    -------
    bool
        Whether all indices are in range; else the elements of the others are undefined.
    """
    n, wrong = indices.size, require_cupy().zeros(1, np.uint32)
    arguments = (values, np.uint64(len(values)), indices, out, np.uint64(n), wrong)
    launch_per_element(instance("gather_in_range", value_type(values) or ""), n, arguments)
    return not int(wrong[0])


def scatter(values: Any, positions: Any, out: Any) -> None:
    """``out[positions] = values``, for values that one memory access moves, and positions that differ.

    Parameters
    ----------
    values : cupy.ndarray, shape (n,)
    positions : cupy.ndarray, shape (n,), uint32 or int64
    out : cupy.ndarray, the dtype of the values
    """
    n = positions.size
    name = instance("scatter", type_of_bytes(values.itemsize), type_of_bytes(positions.itemsize))
    launch_per_element(name, n, (values, positions, out, np.uint64(n)))


def tie_ranges(keys: Any, descending: bool) -> list[tuple[int, int]]:
    """Find the ranges of sorted real floats whose keys differ in bits but compare equal: the zeros and the NaNs."""
    cupy = require_cupy()
    classes = cupy.asarray(np.array([0.0, np.nan], keys.dtype))
    with side_by_side:
        left = search_sorted(keys, classes, "left", descending=descending)
        right = search_sorted(keys, classes, "right", descending=descending)
    bounds = zip(left.get().tolist(), right.get().tolist(), strict=True)
    return [(first, last) for first, last in bounds if last > first]
