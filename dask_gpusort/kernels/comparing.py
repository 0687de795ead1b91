"""Comparison sorts of CuPy arrays, in NumPy's order or in the user's, on the current device and stream.

::

    algorithm                       steps                                         every key is read and written
    "merge"                         tiles, then merging of two or four runs       once per level
    "odd_even_merge"                Batcher's network, one launch per layer       once per layer, (log2 n)^2 / 2 of them
    "odd_even_transposition"        neighbours, one launch per layer              n times
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .keys.dtypes import device_key
from .keys.less import Comparison, by_expression, natural
from .keys.transform import decode, encode, gather, search_ranks
from .launch.array_checks import check_algorithm, check_array, check_indexable, prepare_out
from .launch.launch import Launch, blocks_for, instance
from .launch.loader import require_cupy
from .merge import merge_sort
from .papers import odd_even_merge
from .policy import merge_tuning

NETWORKS = {
    "odd_even_merge": odd_even_merge.odd_even_merge,
    "odd_even_transposition": odd_even_merge.odd_even_transposition,
}
ALGORITHMS = ("merge", *NETWORKS)
SOURCE = "merge/compare.cu"
THREADS = 256


def compare(dtype: Any, less: str | None, descending: bool, *, tied: bool) -> Comparison:
    """Choose the comparison for keys of a dtype; parameters as `less.natural` and `less.by_expression`."""
    if less is not None:
        return by_expression(dtype, less, descending)
    return natural(dtype, descending, tied=tied)


def sort_by_comparison(
    keys: Any,
    *,
    less: str | None = None,
    descending: bool = False,
    stable: bool = False,
    out: Any = None,
    algorithm: str = "merge",
    split: merge_sort.Split = merge_tuning.SPLIT,
    tiles: merge_sort.Tiles = "merge",
) -> Any:
    """Sort contiguous keys by comparing them, in NumPy's order or by a strict weak order `less`, a CUDA C++ expression.

    It is true where key ``a`` comes before key ``b``. If it is no such order, the result holds keys of the input in no
    useful order, some perhaps missing or repeated. `out` may be `keys`.
    """
    # Keys have a radix dtype; with `less` also complex128, and not float16. Without `less`, NaN and NaT stay last, and
    # `stable` lets zeros of both signs, and NaNs, keep their order. With it equal keys always do. "merge" cuts runs
    # into parts by `split`: in fours by selection, or in pairs by merge path or by the paper's samples.
    #
    # Satish, Harris, Garland, IPDPS 2009, section 5; Odeh et al., IPDPS workshops 2012; Batcher, AFIPS 1968.
    check_array(keys, "keys")
    check_algorithm(algorithm, ALGORITHMS)
    out = prepare_out(out, keys.shape, keys.dtype)
    tied = stable and less is None and device_key(keys.dtype).has_ties
    if tied or (less is not None and algorithm == "odd_even_merge"):  # a sort of keys alone loses the order of ties
        positions = argsort_by_comparison(
            keys, less=less, descending=descending, algorithm=algorithm, split=split, tiles=tiles
        )
        source = keys.copy() if out.data.ptr == keys.data.ptr else keys
        return gather(source, positions, out)
    comparison = compare(keys.dtype, less, descending, tied=False)
    if keys.size == 0:
        return out
    if algorithm == "merge":
        spare = require_cupy().empty(keys.size, keys.dtype)
        buffers = merge_sort.Buffers([spare, out], [None, None], out, None)
        merge_sort.sort(comparison, keys, buffers, split=split, tiles=tiles)
    else:
        codes = encode(keys, descending) if less is None else keys.copy()
        NETWORKS[algorithm](comparison, codes, None)
        out[...] = decode(codes, keys.dtype, descending) if less is None else codes
    return out


def argsort_by_comparison(
    keys: Any,
    *,
    less: str | None = None,
    descending: bool = False,
    out: Any = None,
    algorithm: str = "merge",
    split: merge_sort.Split = merge_tuning.SPLIT,
    tiles: merge_sort.Tiles = "merge",
) -> Any:
    """Find the int64 positions that sort the keys by comparing them, stably, as `sort_by_comparison` does."""
    cupy = require_cupy()
    check_array(keys, "keys")
    check_algorithm(algorithm, ALGORITHMS)
    check_indexable(keys.size)
    out = prepare_out(out, keys.shape, np.int64)
    comparison = compare(keys.dtype, less, descending, tied=True)
    if keys.size == 0:
        return out
    if algorithm == "merge":
        codes = [cupy.empty(keys.size, keys.dtype) for _ in range(2)]
        positions = [cupy.empty(keys.size, np.uint32) for _ in range(2)]
        merge_sort.sort(comparison, keys, merge_sort.Buffers(codes, positions, None, out), split=split, tiles=tiles)
        return out
    if less is None:
        order = device_key(keys.dtype, descending).order
        comparison = replace(comparison, less=instance("CanonicalLess", order))
    positions = cupy.arange(keys.size, dtype=np.uint32)
    codes = encode(keys, descending) if less is None else keys.copy()
    NETWORKS[algorithm](comparison, codes, positions)
    out[...] = positions
    return out


def compare_elements(first: Any, second: Any, less: str) -> Any:
    """Test, element by element of one dtype, whether a key comes before another by an expression."""
    check_same_dtype(first, second)
    comparison = by_expression(first.dtype, less, False)
    before = require_cupy().empty(first.size, np.bool_)
    name = instance("compare_elements", comparison.code, comparison.less)
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
    comparison = by_expression(keys.dtype, less, False)
    types = comparison.code, comparison.less
    return search_ranks(SOURCE, "search_compared", types, keys, needles, side, expression=less)
