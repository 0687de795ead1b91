"""From checked arguments to the arrays of reads and writes at positions, by a plan for the scheduler in use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, product
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import library_of, ops_for
from ..chunk.numpy_positions import positions_of
from ..config import setting
from ..drivers.recipe import DRIVERS, Input, ProgramRecipe, Result
from ..functions.positions import Fill, Read, Requests, Source, Write, Writes
from ..functions.program import Superstep
from ..graph.collection import Output, new_arrays
from ..graph.exchanges import exchange_by_group, gathering_members
from ..graph.explain import note
from ..graph.inputs import chunk_limit, flatten, lane_by_lane, rechunk, with_axes
from ..graph.runtime import Runtime
from ..plan import Workers
from ..plan.positions import (
    INDEX_BYTES,
    UNMOVED,
    Addressed,
    PositionsExchange,
    PositionsPlan,
    bundle_chunks,
    choose_addressing,
    largest_bytes,
    names_few_chunks,
)
from .blocks import (
    along_chunks,
    put_into_lanes,
    spread_along,
    take_at_once,
    take_from_axis,
    take_from_lanes,
    whole_units,
)

#: Elements, or indices, of each chunk, and the bytes that move with each.
Moved = tuple[Sequence[float], int]


def build_take(array: Any, indices: Any, axis: int | None, mode: str) -> Any:
    """`numpy.take`, of indices in a Dask array."""
    array, axis = flatten(array, axis)
    # Rows are all elements at one position each.
    row = array.dtype.itemsize * math.prod(size for dim, size in enumerate(array.shape) if dim != axis)
    in_chunk = [math.prod(sizes) for sizes in product(*indices.chunks)]
    moved = (array.chunks[axis], row), (in_chunk, row + INDEX_BYTES)
    plan = _plan(array, indices, axis, *moved, gangs=_is_divided_along(array, axis))
    at_once = plan.strategy == "gather" and plan.reason != "empty" and _is_divided_along(array, axis)
    if plan.sources or (at_once and library_of(array._meta) == "cupy"):
        return take_at_once(array, indices, axis, mode, plan.sources)
    if plan.exchange is None:
        return take_from_axis(array, indices, axis, mode, _limit_of(plan))
    first = [axis, *(dim for dim in range(array.ndim) if dim != axis)]
    found = _take_by_exchange(with_axes(array, first), indices, axis, mode, plan.exchange)
    behind = list(range(indices.ndim, found.ndim))
    found = with_axes(found, [*behind[:axis], *range(indices.ndim), *behind[axis:]])
    return rechunk(found, (*array.chunks[:axis], *indices.chunks, *array.chunks[axis + 1 :]))


def take_known(array: Any, indices: Any, axis: int | None, mode: str) -> Any:
    """Take elements of a Dask array as `numpy.take` does, of indices in an array in memory."""
    array, positions, axis = _checked_known(array, indices, axis, mode)
    if not names_few_chunks(positions.size, array.shape[axis], array.size, da.array_expr_enabled()):
        return build_take(array, da.from_array(positions, asarray=False), axis, mode)
    _noted(PositionsPlan("slices", "few", _addressed(array, positions.size, 1, axis), math.inf))
    found = array[(*(slice(None),) * axis, positions.reshape(-1))]
    if positions.ndim == 1:
        return found
    shape = (*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :])
    return rechunk(found, {axis: -1}).reshape(shape)


def _checked_known(array: Any, indices: Any, axis: int | None, mode: str) -> tuple[Any, Any, int]:
    """The array or its elements in C order, the indices as positions if the size of the axis is known, and the axis."""
    array, axis = flatten(array, axis)
    size = array.shape[axis]
    if library_of(indices) != library_of(array._meta):
        indices = ops_for(array._meta).moved_here(np.atleast_1d(indices)).reshape(indices.shape)
    each = math.prod(array.shape[:axis] + array.shape[axis + 1 :])
    return array, indices if math.isnan(size) else positions_of(indices, int(size), axis, mode, each), axis


def build_take_along(array: Any, indices: Any, axis: int) -> Any:
    """`numpy.take_along_axis`."""
    if array.ndim == 1:
        return build_take(array, indices, 0, "raise")
    item = array.dtype.itemsize
    plan = _plan(array, indices, axis, (array.chunks[axis], item), (indices.chunks[axis], item + INDEX_BYTES))
    if plan.exchange is None:
        return take_from_lanes(array, indices, axis, _limit_of(plan))
    exchange = plan.exchange

    def take_lane(lane: Any, own: Any) -> tuple[Any]:
        return (_take_by_exchange(lane, own, axis, "raise", exchange),)

    (found,) = lane_by_lane(take_lane, [array, indices], axis, array.ndim)
    return rechunk(found, along_chunks(array, indices, axis))


def build_put_along(array: Any, indices: Any, values: Any, axis: int) -> Any:
    """`numpy.put_along_axis`, as a new array."""
    if indices.size == 0:
        return array
    values = whole_units(values[(None,) * (array.ndim - values.ndim)])
    sizes = list(enumerate(zip(array.shape, indices.shape, strict=True)))
    # Several indices of another dimension for one lane are written in C order, by one task.
    shared = any(own == 1 != other for dim, (own, other) in sizes if dim != axis)
    item = array.dtype.itemsize + INDEX_BYTES
    moved = (array.chunks[axis], item), (indices.chunks[axis], item)
    plan = _plan(array, indices, axis, *moved, written_bytes=values.dtype.itemsize)
    if shared or plan.exchange is None:
        return put_into_lanes(array, indices, values, axis, _limit_of(plan))
    exchange = plan.exchange

    def put_lane(lane: Any, own: Any, some: Any) -> tuple[Any]:
        some = rechunk(some, own.chunks) if some.shape == own.shape else spread_along(some, own)
        return (_put_by_exchange(some.astype(array.dtype), own, axis, exchange, lane),)

    (found,) = lane_by_lane(put_lane, [array, indices, values], axis, array.ndim)
    return rechunk(found, array.chunks)


def _limit_of(plan: PositionsPlan) -> float:
    """Most bytes of a chunk that is joined of several ones."""
    return math.inf if plan.strategy == "gather" else plan.array.limit


def _take_by_exchange(source: Any, indices: Any, axis: int, mode: str, exchange: PositionsExchange) -> Any:
    """Rows of a source, by an exchange with the groups of its chunks; `axis` is for errors."""
    source = rechunk(source, {dim: -1 for dim in range(1, source.ndim) if source.numblocks[dim] > 1})
    steps = Source(), Requests(_bounds(source, exchange), axis, mode), Read(), Fill(source.dtype)
    recipe = _recipe(steps, [indices, source], exchange)
    meta = np.empty_like(source._meta, shape=(0,) * (indices.ndim + source.ndim - 1))
    output = Output(meta, (*indices.chunks, *source.chunks[1:]))
    return new_arrays(recipe, [indices, source], [output], "take")[0]


def _put_by_exchange(values: Any, indices: Any, axis: int, exchange: PositionsExchange, array: Any) -> Any:
    """An array with values at some of its positions; all are of one dimension, which is `axis` in errors."""
    recipe = _recipe((Writes(_bounds(array, exchange), axis), Write()), [indices, values, array], exchange)
    return new_arrays(recipe, [indices, values, array], [Output(array._meta, array.chunks)], "put")[0]


def _bounds(array: Any, exchange: PositionsExchange) -> tuple[int, ...]:
    """The first position of each group of an array's chunks, and the end of the last."""
    starts = list(accumulate(map(int, array.chunks[0]), initial=0))
    return (*(starts[group[0]] for group in exchange.groups), starts[-1])


def _recipe(steps: tuple[Superstep, ...], arrays: Sequence[Any], exchange: PositionsExchange) -> ProgramRecipe:
    """A program whose parts have indices, and values to write if there are some, and whose groups have the elements."""
    indices, *values, elements = arrays
    parts, groups = exchange.bundles, exchange.groups
    inputs = [Input("the indices", indices.dtype, indices.chunks, parts)]
    inputs += [Input("the values", array.dtype, array.chunks, parts) for array in values]
    inputs.append(Input("the input", elements.dtype, elements.chunks, groups, "group"))
    results, names = (Result(len(steps) - 1, 0),), tuple(array.name for array in arrays)
    return ProgramRecipe(steps, results, names, tuple(inputs), len(groups), DRIVERS.get(exchange.by, "tasks"))


def _is_divided_along(array: Any, axis: int) -> bool:
    """Whether an array has one chunk along all other axes."""
    return bool(array.numblocks[axis] == math.prod(array.numblocks))


def _plan(
    array: Any, indices: Any, axis: int, elements: Moved, requests: Moved, written_bytes: int = 0, gangs: bool = False
) -> PositionsPlan:
    """The plan for reading, or for writing values; elements and requests are what an exchange of one lane moves.

    `gangs` says whether a gang can do that.
    """
    runtime = Runtime.of(array)
    count = 0 if 0 in indices.shape else indices.size
    addressed = _addressed(array, count, indices.numblocks[axis] if written_bytes else 1, axis, written_bytes)
    workers = _workers(runtime)
    shared = runtime.one_process or workers.processes == 1 or (workers.devices and workers.threads == 1)
    memory = math.inf if workers.memory is None else workers.memory * workers.threads
    memory *= setting("held_share")
    chosen = choose_addressing(addressed, shared, memory, setting("exchange"))
    plan = PositionsPlan(*chosen, addressed, memory)
    if gangs and plan.reason not in UNMOVED:
        moved = ([size * each for size in sizes] for sizes, each in (elements, requests))
        if sources := gathering_members(runtime, (array, indices), *moved):
            return _noted(PositionsPlan("gang", "gang", addressed, memory, sources=sources))
    if plan.strategy != "exchange":
        return _noted(plan)
    groups, bundles = (bundle_chunks(*moved, workers, setting("groups")) for moved in (elements, requests))
    exchange = PositionsExchange(
        groups=groups,
        bundles=bundles,
        by=exchange_by_group(runtime),
        group_bytes=largest_bytes(groups, *elements),
        bundle_bytes=largest_bytes(bundles, *requests),
        row_bytes=elements[1],
    )
    return _noted(replace(plan, exchange=exchange))


def _noted(plan: PositionsPlan) -> PositionsPlan:
    note(plan)
    return plan


def _addressed(array: Any, indices: float, least_chunks: int, axis: int, written_bytes: int = 0) -> Addressed:
    others = [dim for dim in range(array.ndim) if dim != axis]
    return Addressed(
        chunks=max(array.numblocks[axis], least_chunks),
        size=array.shape[axis],
        lanes=math.prod(array.shape[dim] for dim in others),
        itemsize=array.dtype.itemsize,
        indices=indices,
        limit=chunk_limit(array),
        index_bytes=8 + written_bytes if written_bytes else 0,
        blocks=math.prod(array.numblocks[dim] for dim in others),
    )


def _workers(runtime: Runtime) -> Workers:
    workers = runtime.workers
    memory = runtime.memory if workers.memory is None else None
    return workers if memory is None else replace(workers, memory=memory // workers.threads)
