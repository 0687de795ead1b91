"""From checked arguments to the arrays of reads and writes at positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da
import numpy as np

from ...plan.positions import PositionsStrategy
from ..collection import Output, new_arrays
from ..inputs import flatten
from ..rechunk import chunk_limit, rechunk
from .blocks import (
    along_chunks,
    put_into_lanes,
    scatter_in_memory,
    spread_along,
    take_from_axis,
    take_from_lanes,
    whole_units,
)
from .choice import INDEX_BYTES, bundles_of, choose_strategy, moves_by_p2p, scatters_in_memory
from .put import Put
from .requests import GroupedAxis, Rows
from .take import Take


def build_take(array: Any, indices: Any, axis: int | None, mode: str) -> Any:
    """`numpy.take`, of indices in a Dask array."""
    array, axis = flatten(array, axis)
    strategy = choose_strategy(array, indices, axis)
    if strategy != "exchange":
        return take_from_axis(array, indices, axis, mode, _limit_of(array, strategy))
    first = [axis, *(dim for dim in range(array.ndim) if dim != axis)]
    found = _take_by_exchange(_with_axes(array, first), indices, axis, mode)
    behind = list(range(indices.ndim, found.ndim))
    found = _with_axes(found, [*behind[:axis], *range(indices.ndim), *behind[axis:]])
    return rechunk(found, (*array.chunks[:axis], *indices.chunks, *array.chunks[axis + 1 :]))


def build_take_along(array: Any, indices: Any, axis: int) -> Any:
    """`numpy.take_along_axis`."""
    strategy = choose_strategy(array, indices, axis)
    if strategy != "exchange":
        return take_from_lanes(array, indices, axis, _limit_of(array, strategy))

    def take_lane(lane: Any, own: Any) -> Any:
        return _take_by_exchange(lane, own, axis, "raise")

    return rechunk(_lane_by_lane(take_lane, [array, indices], axis), along_chunks(array, indices, axis))


def build_put_along(array: Any, indices: Any, values: Any, axis: int) -> Any:
    """`numpy.put_along_axis`, as a new array."""
    if indices.size == 0:
        return array
    values = whole_units(values[(None,) * (array.ndim - values.ndim)])
    sizes = list(enumerate(zip(array.shape, indices.shape, strict=True)))
    # Several indices of another dimension for one lane are written in C order, by one task.
    shared = any(own == 1 != other for dim, (own, other) in sizes if dim != axis)
    strategy = choose_strategy(array, indices, axis, values.dtype.itemsize)
    if shared or strategy != "exchange":
        return put_into_lanes(array, indices, values, axis, _limit_of(array, strategy))

    def put_lane(lane: Any, own: Any, some: Any) -> Any:
        some = rechunk(some, own.chunks) if some.shape == own.shape else spread_along(some, own)
        return _put_by_exchange([some.astype(array.dtype)], own, lane.chunks[0], axis, lane)[0]

    return rechunk(_lane_by_lane(put_lane, [array, indices, values], axis), array.chunks)


def build_scatter(values: Sequence[Any], positions: Any, chunks: Sequence[int]) -> list[Any]:
    """Write values to their positions: ``out[positions[i]] = values[i]``.

    Parameters
    ----------
    values : sequence of one-dimensional dask arrays
        All of the length and the chunks of `positions`.
    positions : dask array of int64
        A permutation of ``range(sum(chunks))``. If positions are missing, computing the result raises ValueError or
        IndexError, unless others occur as often: that is not noticed.
    chunks : sequence of int
        Chunk sizes of the outputs, known.

    Returns
    -------
    list of dask arrays
        One for each array of values.
    """
    total = sum(chunks) * (INDEX_BYTES + sum(value.dtype.itemsize for value in values))
    if scatters_in_memory(positions, total):
        return scatter_in_memory(values, positions, chunks)
    return _put_by_exchange(values, positions, chunks, 0)


def _limit_of(array: Any, strategy: PositionsStrategy) -> float:
    """Most bytes of a chunk that is joined of several ones."""
    return math.inf if strategy == "gather" else chunk_limit(array)


def _lane_by_lane(function: Callable[..., Any], arrays: Sequence[Any], axis: int) -> Any:
    """Apply a function to the lanes of some arrays, which are broadcast, one by one; they are few and long."""
    others = [dim for dim in range(arrays[0].ndim) if dim != axis]
    moved = [_with_axes(array, [*others, axis]) for array in arrays]
    back = np.argsort([*others, axis]).tolist()
    return _with_axes(_stacked(function, moved), back)


def _with_axes(array: Any, axes: list[int]) -> Any:
    # Dask makes tasks even if nothing changes.
    return array if axes == sorted(axes) else array.transpose(axes)


def _stacked(function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    if arrays[0].ndim == 1:
        return function(*arrays)
    sizes = {array.shape[0] for array in arrays} - {1} or {1}
    if any(map(math.isnan, sizes)):
        raise ValueError("indices of chunks of unknown sizes, for lanes in several chunks: call compute_chunk_sizes()")
    (count,) = sizes
    lanes = [
        _stacked(function, [array[index if array.shape[0] > 1 else 0] for array in arrays]) for index in range(count)
    ]
    return da.stack(lanes, axis=0, allow_unknown_chunksizes=True).astype(lanes[0].dtype)


def _take_by_exchange(source: Any, indices: Any, axis: int, mode: str) -> Any:
    """Rows of a source, by an exchange with the groups of its chunks; `axis` is for errors."""
    source = rechunk(source, {dim: -1 for dim in range(1, source.ndim) if source.numblocks[dim] > 1})
    sizes = _known_sizes(source)
    row_bytes = source.dtype.itemsize * math.prod(source.shape[1:])
    groups = bundles_of(source, sizes, row_bytes)
    in_chunk = [math.prod(shape) for shape in _shapes(indices)]
    bundles = bundles_of(indices, in_chunk, row_bytes + INDEX_BYTES)
    recipe = Take(
        names=(source.name, indices.name),
        axis=GroupedAxis.of(sizes, groups, axis, mode),
        groups=groups,
        bundles=bundles,
        numblocks=indices.numblocks,
        rows=Rows(source.dtype, source.shape[1:]),
        p2p=moves_by_p2p(source, source.shape[0] * row_bytes + indices.size * (row_bytes + INDEX_BYTES)),
    )
    meta = np.empty_like(source._meta, shape=(0,) * (indices.ndim + source.ndim - 1))
    output = Output(meta, (*indices.chunks, *source.chunks[1:]))
    return new_arrays(recipe, [source, indices], [output], "take")[0]


def _shapes(array: Any) -> list[tuple[float, ...]]:
    """The shape of each chunk of an array, in C order."""
    return [
        tuple(sizes[number] for sizes, number in zip(array.chunks, index, strict=True))
        for index in np.ndindex(*array.numblocks)
    ]


def _put_by_exchange(
    values: Sequence[Any], indices: Any, chunks: Sequence[int], axis: int, array: Any = None
) -> list[Any]:
    """One-dimensional values at positions of an array, or at all positions of new arrays."""
    sizes = chunks if array is None else _known_sizes(array)
    item_bytes = sum(value.dtype.itemsize for value in values) + INDEX_BYTES
    groups = bundles_of(indices, sizes, item_bytes)
    bundles = bundles_of(indices, indices.chunks[0], item_bytes)
    inputs = [indices, *values, *([] if array is None else [array])]
    recipe = Put(
        names=tuple(one.name for one in inputs),
        dtypes=tuple(value.dtype for value in values),
        axis=GroupedAxis.of(sizes, groups, axis),
        groups=groups,
        bundles=bundles,
        p2p=moves_by_p2p(indices, (indices.size + sum(sizes)) * item_bytes),
    )
    outputs = [Output(value._meta if array is None else array._meta, (tuple(sizes),)) for value in values]
    return list(new_arrays(recipe, inputs, outputs, "put"))


def _known_sizes(array: Any) -> tuple[int, ...]:
    if any(map(math.isnan, array.chunks[0])):
        raise ValueError("lanes of several chunks of unknown sizes: call compute_chunk_sizes() first")
    sizes: tuple[int, ...] = array.chunks[0]
    return sizes
