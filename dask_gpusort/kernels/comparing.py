"""Comparison sorts of CuPy arrays by a CUDA C++ expression of the user, on the current device and stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from .keys.less import USER_LESS, by_expression
from .keys.transform import search_ranks
from .launch.array_checks import check_array, check_indexable, prepare_out
from .launch.launch import Launch, blocks_for, instance
from .launch.loader import require_cupy
from .merge import merge_sort

SOURCE = "merge/merge.cu"
THREADS = 256


def sort_by_comparison(keys: Any, *, less: str, out: Any = None) -> Any:
    """Sort contiguous keys stably by a strict weak order: a CUDA C++ expression that is true where ``a`` comes first.

    If it is no such order, the result holds keys of the input in no useful order, some perhaps missing or repeated.
    `out` may be `keys`, which have a radix dtype but float16, or are complex128.
    """
    # Odeh et al., IPDPS workshops 2012.
    check_array(keys, "keys")
    out, comparison = prepare_out(out, keys.shape, keys.dtype), by_expression(keys.dtype, less)
    if keys.size:
        spare = require_cupy().empty(keys.size, keys.dtype)
        merge_sort.sort(comparison, keys, merge_sort.Buffers([spare, out], [None, None], out, None))
    return out


def argsort_by_comparison(keys: Any, *, less: str, out: Any = None) -> Any:
    """Find the int64 positions that sort the keys by comparing them, stably, as `sort_by_comparison` does."""
    cupy = require_cupy()
    check_array(keys, "keys")
    check_indexable(keys.size)
    out, comparison = prepare_out(out, keys.shape, np.int64), by_expression(keys.dtype, less)
    if keys.size:
        codes = [cupy.empty(keys.size, keys.dtype) for _ in range(2)]
        positions = [cupy.empty(keys.size, np.uint32) for _ in range(2)]
        merge_sort.sort(comparison, keys, merge_sort.Buffers(codes, positions, None, out))
    return out


def compare_elements(first: Any, second: Any, less: str) -> Any:
    """Test, element by element of one dtype, whether a key comes before another by an expression."""
    check_same_dtype(first, second)
    comparison = by_expression(first.dtype, less)
    before = require_cupy().empty(first.size, np.bool_)
    name = instance("compare_elements", comparison.code, USER_LESS)
    arguments = (first, second, before, np.uint64(first.size))
    Launch(SOURCE, name, blocks_for(first.size, THREADS), THREADS, arguments, expression=less).run()
    return before


def check_same_dtype(first: Any, second: Any) -> None:
    """Raise `TypeError` or `ValueError` unless these are two arrays of keys of one dtype."""
    check_array(first, "keys")
    check_array(second, "needles")
    if first.dtype != second.dtype:
        raise ValueError(f"`needles` are {second.dtype} and `keys` {first.dtype}; give one dtype.")


def search_by_comparison(keys: Any, needles: Any, side: str, less: str) -> Any:
    """Rank needles among keys that are sorted by an expression, as `numpy.searchsorted`, into int64."""
    check_same_dtype(keys, needles)
    comparison = by_expression(keys.dtype, less)
    return search_ranks(SOURCE, "search_compared", (comparison.code, USER_LESS), keys, needles, side, expression=less)
