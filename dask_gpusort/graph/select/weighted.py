r"""Weighted quantiles: the smallest key of each lane up to which there is a share of the weight.

Lanes that are whole in their chunks, or fit one, are sorted there. Long lanes in several chunks are sorted by the keys,
with the weights as companions::

    sorted keys, weights      sorted keys, weights
        |      \                  /      |
        |     weigh-part    weigh-part   |        the weight of each chunk
        |              \    /            |
    pick-part <------- all sums -----> pick-part  the keys at the quantiles, if they are in this chunk
             \                        /
              '----> pick-keys <-----'            the first of them
"""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np

from ...chunk import complete, library_of
from ...chunk.lanes import Picked, check_weights, combine_picked, pick_keys, reduce_weighted_lanes, sum_weights
from ...table import Statistic
from ..input_checks import checked_chunk, only_chunk
from ..rechunk import rechunk
from ..sort.build import build_sort
from ..sort.request import Options
from ..sort.rows import check_length
from .statistics import plan_statistic, whole_lanes


def reduce_weighted_block(
    block: Any,
    weights: Any,
    statistic: Statistic,
    expected: np.dtype[Any],
    lengths: dict[int, float],
    keepdims: bool,
) -> Any:
    """Task: the weighted quantiles of each lane of one chunk, along the axes that have `lengths`."""
    block, weights = only_chunk(block), only_chunk(weights)
    checked_chunk(block, expected)
    checked_chunk(weights, None, "a chunk of the weights")
    for axis, length in lengths.items():
        check_length(block, axis, length)
    return complete(reduce_weighted_lanes(block, weights, statistic, tuple(lengths), keepdims))


def weigh_part(keys: Any, weights: Any, statistic: Statistic) -> Any:
    """Task: the weight of one chunk of each sorted lane."""
    check_weights(weights)
    return complete(sum_weights(keys, weights, statistic))


def pick_part(keys: Any, weights: Any, sums: Any, part: Any, statistic: Statistic) -> np.ndarray:
    """Task: find the quantiles whose ranks fall into this chunk, boxed in an array of one object."""
    found = np.empty((1,) * keys.ndim, object)
    found[...] = complete(pick_keys(keys, weights, only_chunk(sums), int(part[0]), statistic))
    return found


def pick_first(parts: list[Any], statistic: Statistic) -> Any:
    """Task: the quantiles of some lanes from what all their chunks know."""
    known: list[Picked] = [part.item() for part in parts]
    found = combine_picked(known, statistic)
    return complete(found.reshape((*statistic.shape, *found.shape[1:])))


def build_weighted(
    array: Any, weights: Any, statistic: Statistic, axes: tuple[int, ...], keepdims: bool, strategy: str
) -> Any:
    """Build quantiles of the method "inverted_cdf" by weights, of size one where they are the same for a whole axis."""
    if library_of(weights._meta) != library_of(array._meta):
        raise TypeError(
            f"keys of {library_of(array._meta)} chunks and weights of {library_of(weights._meta)} chunks: move one of "
            "them, with map_blocks(cupy.asarray) or map_blocks(cupy.asnumpy)"
        )
    statistic.dtype_of(array.dtype)
    plan = plan_statistic(array, statistic, axes, strategy)
    if plan.searches and plan.lanes.chunks > 1 and array.size:
        found = _by_sort(array, weights, statistic, axes)
        first = (slice(None),) * len(statistic.shape)
        kept = tuple(None if axis in axes else slice(None) for axis in range(array.ndim))
        return found[first + kept] if keepdims else found
    # A chunk of lanes comes with its weights.
    share = array.dtype.itemsize / (array.dtype.itemsize + weights.dtype.itemsize)
    return _by_blocks(whole_lanes(array, axes, share * plan.lanes_bytes), weights, statistic, axes, keepdims)


def _by_blocks(lanes: Any, weights: Any, statistic: Statistic, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Quantiles of lanes that are whole in their chunks."""
    first = len(statistic.shape)
    kept = [first + axis for axis in range(lanes.ndim) if keepdims or axis not in axes]
    indices = (*range(first), *kept)
    dims = tuple(range(first, first + lanes.ndim))
    dtype = statistic.dtype_of(lanes.dtype)
    return da.blockwise(
        reduce_weighted_block,
        indices,
        lanes,
        dims,
        _in_chunks_of(lanes, weights),
        dims,
        statistic=statistic,
        expected=lanes.dtype,
        lengths={axis: lanes.shape[axis] for axis in axes},
        keepdims=keepdims,
        new_axes=dict(enumerate(statistic.shape)),
        adjust_chunks={first + axis: 1 for axis in axes} if keepdims else None,
        concatenate=False,
        align_arrays=False,
        token="reduce-weighted",
        dtype=dtype,
        meta=np.empty_like(lanes._meta, shape=(0,) * len(indices), dtype=dtype),
    )


def _by_sort(array: Any, weights: Any, statistic: Statistic, axes: tuple[int, ...]) -> Any:
    """Quantiles of lanes in several chunks, without the reduced axes."""
    weights = _in_chunks_of(array, weights)
    if weights.shape != array.shape:
        weights = da.broadcast_to(weights, array.shape, chunks=array.chunks)
    keys, weights = build_sort(
        Options(), "both", _one_axis(array, axes), (_one_axis(weights, axes),), array.ndim - len(axes)
    )
    lane = keys.ndim - 1
    dims, parts = tuple(range(keys.ndim)), keys.numblocks[lane]
    options = {"statistic": statistic, "concatenate": False, "align_arrays": False}
    sums = da.blockwise(
        weigh_part,
        dims,
        keys,
        dims,
        weights,
        dims,
        **options,
        adjust_chunks={lane: 1},
        token="weigh-part",
        meta=np.empty_like(weights._meta, dtype=np.float64),
    )
    known = da.blockwise(
        pick_part,
        dims,
        keys,
        dims,
        weights,
        dims,
        sums.rechunk({lane: -1}),
        (*dims[:-1], keys.ndim),
        da.arange(parts, chunks=1),
        (lane,),
        **options,
        token="pick-part",
        meta=np.empty((0,) * keys.ndim, object),
    )
    first = len(statistic.shape)
    dtype = statistic.dtype_of(array.dtype)
    indices = tuple(range(first + lane))
    return da.blockwise(
        pick_first,
        indices,
        known,
        tuple(range(first, first + keys.ndim)),
        **options,
        new_axes=dict(enumerate(statistic.shape)),
        token="pick-keys",
        dtype=dtype,
        meta=np.empty_like(array._meta, shape=(0,) * len(indices), dtype=dtype),
    )


def _in_chunks_of(array: Any, weights: Any) -> Any:
    """The weights in an array's chunks, or one chunk along the dimensions in which they are the same."""
    sizes = zip(array.chunks, array.shape, weights.shape, strict=True)
    return rechunk(weights, tuple(chunks if length == size else (1,) for chunks, length, size in sizes))


def _one_axis(array: Any, axes: tuple[int, ...]) -> Any:
    """The array with the reduced axes last and merged, chunk by chunk: the order in a lane has no effect."""
    kept = [dim for dim in range(array.ndim) if dim not in axes]
    # Dask merges neither empty chunks nor axes of size one.
    whole = rechunk(array, tuple(tuple(filter(None, sizes)) for sizes in array.chunks))
    long = [axis for axis in axes if array.shape[axis] > 1] or axes[:1]
    moved = whole.transpose((*kept, *axes))[(..., *(slice(None) if axis in long else 0 for axis in axes))]
    if len(long) == 1:
        return moved
    return da.reshape_blockwise(moved, (*moved.shape[: len(kept)], math.prod(array.shape[axis] for axis in long)))
