"""Masked arrays of `numpy.ma`: what is found of their elements that are not masked.

A masked array is two plain ones, its elements and its mask, from which other builders find results, and these get
masks of their own::

    array --+-- fill-masked ---> elements --> statistics --+-- masked-result --> masked array
            '-- find-contents --> contents of lanes -------'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import dask.array as da
import numpy as np
from tlz import concat

from ..chunk.lanes import has_nan
from ..chunk.masked import (
    fill_block,
    find_contents,
    join_contents,
    masked_counts,
    masked_end,
    masked_lanes,
    masked_ranks,
    masked_values,
)
from ..chunk.tie_groups import Ranking
from ..graph.inputs import blockwise, flatten, rechunk
from ..table import Statistic
from .distinct import Unique, build_unique
from .ranks import build_rank
from .request import Options
from .searches import build_search
from .sort import build_lexsort, build_sort_by_keys
from .statistics import build_statistic
from .top import select_top

#: Kinds of dtypes whose elements have an order, and a zero that takes the place of masked ones; and those with NaN, or
#: that floats are in place of.
ORDERED, NUMBERS = "biufcmMSU", "biufcmM"
#: Whether floats of the dtype longdouble have all integers of 64 bits.
EXACT = np.finfo(np.longdouble).nmant >= 63


def is_masked(array: Any) -> bool:
    """Whether the chunks of a Dask array are masked."""
    return isinstance(array._meta, np.ma.MaskedArray)


def plain(array: Any) -> Any:
    """The elements of a masked array, with zeros in place of masked ones."""
    return _filled(array, np.zeros((), array.dtype))


def mask_of(array: Any) -> Any:
    """Whether each element is masked."""
    dims = tuple(range(array.ndim))
    return blockwise(np.ma.getmaskarray, dims, array, dims, token="get-mask", meta=np.empty((0,) * array.ndim, bool))


def _filled(array: Any, filler: np.ndarray) -> Any:
    dims, meta = tuple(range(array.ndim)), np.empty((0,) * array.ndim, filler.dtype)
    what = {"expected": array.dtype, "filler": filler}
    return blockwise(fill_block, dims, array, dims, **what, token="fill-masked", meta=meta)


def with_nan(array: Any, exact: bool) -> Any:
    """The elements with NaN or NaT in place of masked ones; integers and booleans as floats.

    If floats must be `exact`, integers of 64 bits are of the dtype longdouble.
    """
    dtype = array.dtype
    if not has_nan(dtype):
        wide = exact and dtype.itemsize > 4
        if wide and not EXACT:
            raise TypeError(f"masked {dtype} need a longdouble of 64 bits, which there is not: use a.astype('f8')")
        dtype = np.dtype(np.longdouble if wide else np.float64)
    return _filled(array, np.array("NaT" if dtype.kind in "mM" else np.nan, dtype))


def _contents(array: Any, axes: tuple[int, ...], keepdims: bool, skip_nan: bool) -> Any:
    """What is in each lane."""
    return da.reduction(
        array,
        partial(find_contents, with_nan=not skip_nan),
        join_contents,
        axes,
        keepdims,
        dtype=np.uint8,
        name="find-contents",
        meta=np.empty((0,) * (array.ndim if keepdims else array.ndim - len(axes)), np.uint8),
    )


def _masked_result(function: Any, arrays: Sequence[Any], dtype: np.dtype[Any], **more: Any) -> Any:
    """Apply a task to the chunks of arrays that broadcast to the first one, for a masked array."""
    # Of no dimensions, Dask takes an element, which is a masked one only if it is masked.
    empty = np.empty((0,) * arrays[0].ndim, dtype)
    meta = np.ma.MaskedArray(empty, mask=True, fill_value=more.get("fill_value"))
    return _of_all(function, arrays, meta=meta, **more)


def _of_all(function: Any, arrays: Sequence[Any], **more: Any) -> Any:
    dims = tuple(range(arrays[0].ndim))
    inputs = concat((array, dims[len(dims) - array.ndim :]) for array in arrays)
    return blockwise(function, dims, *inputs, token="masked-result", **more)


def _fill_value_of(array: Any) -> Any:
    """The fill value of a masked array; None for NumPy's default, which is not always one of the dtype."""
    found = array._meta.fill_value
    return None if found == np.ma.default_fill_value(array.dtype) else found


def build_masked_statistic(
    array: Any, statistic: Statistic, axes: tuple[int, ...], keepdims: bool, strategy: str
) -> Any:
    """Build an order statistic of the elements that are not masked, as `build_statistic` does."""
    dtype = statistic.dtype_of(array.dtype)
    floats = with_nan(array, exact=dtype.kind in "iu")
    found = build_statistic(floats, replace(statistic, skip_nan=True, warns=False), axes, keepdims, strategy)
    contents = _contents(array, axes, keepdims, statistic.skip_nan)
    contents = rechunk(contents, found.chunks[len(statistic.shape) :])
    return _masked_result(masked_lanes, [found, contents], dtype, result=dtype)


def build_masked_sort(options: Options, array: Any, axis: int | None, chunks: Any) -> Any:
    """Sort a masked array, masked elements last."""
    keys, directions, axis = _sort_keys(options, array, axis)
    mask, found = build_sort_by_keys(replace(options, descending=False), keys, directions, (), axis, chunks)
    fill_value = _fill_value_of(array)
    return _masked_result(np.ma.MaskedArray, [found, mask], array.dtype, fill_value=fill_value)


def build_masked_argsort(options: Options, array: Any, axis: int | None, chunks: Any) -> Any:
    """Positions that sort a masked array; those of masked elements are last, and ascend."""
    keys, directions, axis = _sort_keys(options, array, axis)
    return build_lexsort(replace(options, descending=False), keys[::-1], directions[::-1], axis, chunks)


def _sort_keys(options: Options, array: Any, axis: int | None) -> tuple[list[Any], list[bool], int]:
    """The mask and the elements, their directions, and the axis of both."""
    (mask, flat), (keys, _) = flatten(mask_of(array), axis), flatten(plain(array), axis)
    return [mask, keys], [False, options.descending], flat


def build_masked_rank(array: Any, ranking: Ranking, axis: int | None) -> Any:
    """Rank the elements that are not masked."""
    dtype, axes = ranking.dtype_of(array.dtype), tuple(range(array.ndim)) if axis is None else (axis,)
    found = build_rank(with_nan(array, exact=True), replace(ranking, nan_policy="omit"), axis)
    mask = flatten(mask_of(array), axis)[0]
    contents = _contents(array, axes, axis is not None, ranking.nan_policy == "omit")
    return _masked_result(masked_ranks, [found, mask, contents], dtype, ranking=ranking, result=dtype)


def build_masked_unique(array: Any, wanted: Unique) -> tuple[Any, ...]:
    """The distinct values that are not masked, and a masked one behind them if any element is; then counts."""
    # A zero in place of masked elements could be returned for one of another sign.
    filler = (np.ones if array.dtype.kind in "fc" else np.zeros)((), array.dtype)
    values, counts = build_unique(_filled(array, filler), replace(wanted, counts=True))
    number = values.numblocks[0]
    is_last = da.from_array(np.arange(number) == number - 1, chunks=1)
    inputs = values, counts, mask_of(array).sum(), is_last
    fill_value = _fill_value_of(array)
    found = [_masked_result(masked_values, inputs, array.dtype, filler=filler, fill_value=fill_value)]
    if wanted.counts:
        found.append(_of_all(masked_counts, inputs, filler=filler, meta=np.empty(0, np.int64)))
    return tuple(found)


def build_masked_search(array: Any, needles: Any, side: Literal["left", "right"], sorter: Any) -> Any:
    """Search for the elements that are not masked."""
    found = build_search(array, plain(needles), side, sorter)
    return _masked_result(np.ma.MaskedArray, [found, mask_of(needles)], found.dtype)


def build_masked_top(array: Any, k: int, axis: int, split_every: int | None) -> Any:
    """The first keys of each lane that are not masked; masked ones if there are fewer."""
    dtype = array.dtype
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        filler = np.array(limits.min if k > 0 else limits.max, dtype)
    elif dtype.kind == "b":
        filler = np.array(k < 0)
    else:
        filler = np.array("NaT" if dtype.kind in "mM" else np.nan, dtype)
    keys = select_top(_filled(array, filler), (), k, axis, split_every)[0]
    counts = (~mask_of(array)).sum(axis, keepdims=True)
    return _masked_result(masked_end, [keys, counts], dtype, axis=axis)
