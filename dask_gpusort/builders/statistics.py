"""From checked arguments to the array of an order statistic, by the strategy of its plan.

Lanes that are whole in their chunks, or are made so by a rechunk in bounded memory, are reduced chunk by chunk here.

So are weighted quantiles of lanes that fit a chunk. Long lanes are sorted, with the weights as companions (see
`functions.groups`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph
from tlz import concat

from ..chunk import complete
from ..chunk.checks import checked_chunk, only_chunk
from ..chunk.lanes import reduce_weighted_lanes
from ..chunk.reducers import Reducer, reduce_lanes
from ..config import setting
from ..drivers import run_in_gang
from ..drivers.one import InOneTask
from ..drivers.recipe import Input, recipe_of_lines
from ..functions.groups import PickWeighted, Weigh
from ..functions.joined import JoinedLanes
from ..functions.program import Superstep
from ..functions.selection import selection_steps
from ..graph.collection import Output, StageLayer, new_arrays
from ..graph.copies import read_again
from ..graph.exchanges import gang_of
from ..graph.explain import note
from ..graph.inputs import blockwise, chunk_limit, largest_chunk, rechunk, whole_axes, without_empty_chunks
from ..graph.runtime import Runtime, chunk_library
from ..plan import InputChunks, Runs
from ..plan.choose import JOINED_SHARE, LANES_BYTES, Lanes, choose, plan_lanes
from ..plan.select import (
    BOTH_PASSES,
    SelectPlan,
    fits_held,
    gang_of_selection,
    make_select_plan,
)
from ..table import Ranks, Statistic
from .request import Options
from .sort import build_sort

#: The message of an array whose lanes cannot be made whole.
UNKNOWN_LANES = "a has chunks of unknown sizes, and several along the axis: call a.compute_chunk_sizes() first"
#: Kinds of dtypes whose keys NumPy compares by value: booleans, numbers, dates and time differences.
_SEARCHABLE = "biufcmM"


def build_statistic(array: Any, statistic: Statistic, axes: tuple[int, ...], keepdims: bool, strategy: str) -> Any:
    """Build an order statistic of an array over the reduced axes, which ascend."""
    check_statistic(array, statistic)
    plan = plan_statistic(array, statistic, axes, strategy, setting("exchange"))
    note(plan)
    if plan.strategy == "join":
        return join_lanes(array, statistic, axes, keepdims, plan)
    if plan.strategy == "gang":
        steps = _steps(array, statistic, axes, keepdims, plan)
        own = [
            Input("the input", array.dtype, array.chunks, tuple((part,) for part in range(math.prod(array.numblocks))))
        ]
        outputs = [_output_of(array, statistic, axes, keepdims)]
        return run_in_gang([array], own, steps, [(len(steps) - 1, 0)], plan.sources, outputs, "quantile")[0]
    if plan.strategy != "samples":
        return reduce_blocks(array, statistic, axes, keepdims, plan.lanes_bytes)
    return select_by_samples(array, statistic, axes, keepdims, plan)


def check_statistic(array: Any, statistic: Statistic | Reducer) -> np.dtype[Any]:
    """Refuse a statistic that the elements of an array do not have, and give the dtype of its results."""
    if isinstance(statistic, Reducer):
        Options().check(Options().keys(array, "positions"))
        return statistic.dtype_of(array.dtype)
    if statistic.objects and chunk_library(array) == "cupy":
        raise TypeError("q of Python objects needs NumPy chunks: give q as floats")
    statistic.check_objects(array.dtype)
    return statistic.dtype_of(array.dtype)


def _steps(
    array: Any, statistic: Statistic | Ranks, axes: tuple[int, ...], keepdims: bool, plan: SelectPlan
) -> tuple[Superstep, ...]:
    """The program of a selection by samples."""
    sorts = plan.sorts == BOTH_PASSES, plan.sorts > 0
    about = statistic, axes, array.dtype, keepdims, plan.keys_per_stratum, sorts
    return selection_steps(*about, groups=max(len(plan.sources), 1))


def select_by_samples(
    array: Any, statistic: Statistic | Ranks, axes: tuple[int, ...], keepdims: bool, plan: SelectPlan
) -> Any:
    """Apply a statistic to the keys at its ranks in each lane, found by samples."""
    steps, output = _steps(array, statistic, axes, keepdims, plan), _output_of(array, statistic, axes, keepdims)
    recipe = recipe_of_lines(steps, 1, [array], *_dims(array, statistic, axes, keepdims))
    recipe = replace(recipe, groups=1, driver="threads", held=plan.held)
    inputs = [array]
    if not plan.held:
        name, chunks = recipe.first_decisions
        graph = HighLevelGraph.from_collections(name, StageLayer(recipe.first_stages), [array])
        first = da.Array(graph, name, chunks, dtype=object)
        again = read_again(array, first)
        recipe, inputs = replace(recipe, again=again.name), [first, again]
    return new_arrays(recipe, inputs, [output], "quantile")[0]


def _dims(
    array: Any, statistic: Statistic | Ranks, axes: tuple[int, ...], keepdims: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions that are not reduced, and the one that each of the output is, else -1."""
    kept = tuple(dim for dim in range(array.ndim) if dim not in axes)
    return kept, (-1,) * len(statistic.shape) + (tuple(range(array.ndim)) if keepdims else kept)


def join_lanes(array: Any, statistic: Statistic, axes: tuple[int, ...], keepdims: bool, plan: SelectPlan) -> Any:
    """An order statistic of the lanes of an array, each in one task."""
    kept, dims = _dims(array, statistic, axes, keepdims)
    join = InOneTask(
        JoinedLanes(statistic, axes, array.dtype, keepdims, plan.searches, plan.sorts),
        "select-join",
        (array.name,),
        array.chunks,
        lanes=kept,
        output_dims=dims,
    )
    return new_arrays(join, [array], [_output_of(array, statistic, axes, keepdims)], "quantile")[0]


def _output_of(array: Any, statistic: Statistic | Ranks, axes: tuple[int, ...], keepdims: bool) -> Output:
    kept = [(1,) if dim in axes else sizes for dim, sizes in enumerate(array.chunks) if keepdims or dim not in axes]
    chunks = (*((size,) for size in statistic.shape), *kept)
    return Output(np.empty_like(array._meta, shape=(0,) * len(chunks), dtype=statistic.dtype_of(array.dtype)), chunks)


def plan_statistic(
    array: Any, statistic: Statistic | Ranks, axes: tuple[int, ...], strategy: str, exchange: str = "tasks"
) -> SelectPlan:
    """The plan of an order statistic of an array; by a gang if this exchange is asked for, or with "auto" best."""
    lanes = lanes_of(array, axes, statistic.objects)
    runtime = Runtime.of(array)
    asked = None if strategy == "auto" else strategy
    if asked == "samples" and not lanes.searchable:
        what = "q of Python objects" if statistic.objects else array.dtype
        raise ValueError(f"strategy='samples' needs numbers or dates, not {what}: use strategy='auto'")
    if asked == "blocks" and lanes.chunks > 1:
        raise ValueError("strategy='blocks' needs axes that are whole in their chunks: use strategy='auto' or rechunk")
    quantiles = math.prod(statistic.shape)
    held = is_held(array, lanes, runtime)
    plan = make_select_plan(lanes, quantiles, runtime.workers, held, asked)  # type: ignore[arg-type]
    if plan.strategy in ("rechunk", "samples") and math.isnan(lanes.in_chunk):
        raise ValueError(UNKNOWN_LANES)
    sizes = [math.prod(sizes) for sizes in product(*array.chunks)]

    def choose(chunks: InputChunks) -> Runs:
        return gang_of_selection(plan, chunks, runtime.workers, exchange)

    if plan.strategy == "samples" and (sources := gang_of(runtime, exchange, sizes, [array], choose)):
        plan = replace(plan, strategy="gang", held=True, sources=sources)
    return plan


def is_held(array: Any, lanes: Lanes, runtime: Runtime) -> bool:
    """Whether the source stays in memory between passes over it: it fits, or is there already."""
    return (
        da.array_expr_enabled()  # where the second pass cannot wait for the first one
        or fits_held(lanes, runtime.workers, runtime.memory, setting("held_share"))
        or runtime.holds([array])
        or None not in (runtime.holders(array) or [None])
    )


def lanes_of(array: Any, axes: tuple[int, ...], objects: bool = False) -> Lanes:
    """The lanes of an array along some axes, which NumPy alone reduces if `q` are Python objects."""
    kept = [dim for dim in range(array.ndim) if dim not in axes]
    library = chunk_library(array)
    return Lanes(
        count=math.prod(array.shape[dim] for dim in kept),
        keys=math.prod(array.shape[dim] for dim in axes),
        in_chunk=math.prod(max(array.chunks[dim]) for dim in kept),
        chunks=math.prod(array.numblocks[dim] for dim in axes),
        blocks=math.prod(array.numblocks[dim] for dim in kept),
        itemsize=max(array.dtype.itemsize, 1),
        limit=chunk_limit(array),
        searchable=not objects and array.dtype.kind in (_SEARCHABLE if library == "numpy" else "biuf"),
    )


def reduce_block(
    block: Any, statistic: Statistic | Reducer, expected: np.dtype[Any], lengths: dict[int, float], keepdims: bool
) -> Any:
    """Task: the statistic of each lane of one chunk, along the axes that have `lengths`."""
    block = checked_chunk(only_chunk(block), expected, sizes=lengths)
    return complete(reduce_lanes(block, statistic, tuple(lengths), keepdims))


def reduce_blocks(
    array: Any, statistic: Statistic | Reducer, axes: Sequence[int], keepdims: bool, limit: float = LANES_BYTES
) -> Any:
    """Find the statistic of each lane of an array, shape (*statistic.shape, *kept axes), by chunks of whole lanes.

    A chunk made of several has `limit` bytes at most, unless these or a lane are larger.
    """
    return _reduced(reduce_block, [whole_lanes(array, axes, limit)], statistic, axes, keepdims, token="reduce-lanes")


def _reduced(
    function: Any, lanes: Sequence[Any], statistic: Statistic | Reducer, axes: Sequence[int], keepdims: bool, token: str
) -> Any:
    """What a task makes of chunks of whole lanes, and of those of other arrays beside them."""
    keys, first = lanes[0], len(statistic.shape)
    kept = [first + axis for axis in range(keys.ndim) if keepdims or axis not in axes]
    indices, dims = (*range(first), *kept), tuple(range(first, first + keys.ndim))
    dtype = statistic.dtype_of(keys.dtype)
    return blockwise(
        function,
        indices,
        *concat((array, dims) for array in lanes),
        statistic=statistic,
        expected=keys.dtype,
        lengths={axis: keys.shape[axis] for axis in sorted(axes)},
        keepdims=keepdims,
        new_axes=dict(enumerate(statistic.shape)),
        adjust_chunks={first + axis: 1 for axis in axes} if keepdims else None,
        token=token,
        dtype=dtype,
        meta=np.empty_like(keys._meta, shape=(0,) * len(indices), dtype=dtype),
    )


def whole_lanes(array: Any, axes: Sequence[int], limit: float = LANES_BYTES) -> Any:
    """The array with the reduced axes in one chunk each."""
    divided = [axis for axis in axes if array.numblocks[axis] > 1]
    if not divided:
        return array
    if any(math.isnan(array.shape[axis]) for axis in divided):
        raise ValueError(UNKNOWN_LANES)
    most = max(limit, largest_chunk(array))
    # Chunks that are only joined move less than those that are divided, too.
    joined = largest_chunk(array) * math.prod(array.shape[axis] / max(1, *array.chunks[axis]) for axis in axes)
    chunks = dict.fromkeys(axes, -1) if joined <= JOINED_SHARE * most else None
    return rechunk(array, chunks or whole_axes(array, axes, array.dtype.itemsize, most), most)


def reduce_weighted_block(
    block: Any,
    weights: Any,
    statistic: Statistic,
    expected: np.dtype[Any],
    lengths: dict[int, float],
    keepdims: bool,
) -> Any:
    """Task: the weighted quantiles of each lane of one chunk, along the axes that have `lengths`."""
    block = checked_chunk(only_chunk(block), expected, sizes=lengths)
    weights = checked_chunk(only_chunk(weights), None, "a chunk of the weights")
    return complete(reduce_weighted_lanes(block, weights, statistic, tuple(lengths), keepdims))


def build_weighted(
    array: Any, weights: Any, statistic: Statistic, axes: tuple[int, ...], keepdims: bool, strategy: str
) -> Any:
    """Build quantiles of the method "inverted_cdf" by weights, of size one where they are the same for a whole axis."""
    statistic.dtype_of(array.dtype)
    plan = plan_statistic(array, statistic, axes, strategy)
    by_sort = plan.searches and plan.lanes.chunks > 1 and array.size
    where, why = ("sort", "each lane is sorted with its weights") if by_sort else choose(plan.lanes, "sort")
    note(plan_lanes(plan.lanes, where, why, "reduce-weighted", "weighted", most=plan.lanes_bytes))
    if by_sort:
        found = _by_sort(array, weights, statistic, axes)
        first = (slice(None),) * len(statistic.shape)
        kept = tuple(None if axis in axes else slice(None) for axis in range(array.ndim))
        return found[first + kept] if keepdims else found
    # A chunk of lanes comes with its weights.
    share = array.dtype.itemsize / (array.dtype.itemsize + weights.dtype.itemsize)
    lanes = whole_lanes(array, axes, share * plan.lanes_bytes)
    both = [lanes, _in_chunks_of(lanes, weights)]
    return _reduced(reduce_weighted_block, both, statistic, axes, keepdims, token="reduce-weighted")


def _by_sort(array: Any, weights: Any, statistic: Statistic, axes: tuple[int, ...]) -> Any:
    """Quantiles of lanes in several chunks, without the reduced axes."""
    weights = _in_chunks_of(array, weights)
    if weights.shape != array.shape:
        weights = da.broadcast_to(weights, array.shape, chunks=array.chunks)
    keys, weights = build_sort(
        Options(), "both", one_axis(array, axes), (one_axis(weights, axes),), array.ndim - len(axes)
    )
    lane = keys.ndim - 1
    dims = (*(-1 for _ in statistic.shape), *range(lane))
    recipe = recipe_of_lines((Weigh(statistic), PickWeighted(statistic)), 1, (keys, weights), tuple(range(lane)), dims)
    return new_arrays(recipe, [keys, weights], [_output_of(keys, statistic, (lane,), False)], "pick-keys")[0]


def _in_chunks_of(array: Any, weights: Any) -> Any:
    """The weights in an array's chunks, or one chunk along the dimensions in which they are the same."""
    sizes = zip(array.chunks, array.shape, weights.shape, strict=True)
    return rechunk(weights, tuple(chunks if length == size else (1,) for chunks, length, size in sizes))


def one_axis(array: Any, axes: tuple[int, ...]) -> Any:
    """The array with the reduced axes last and merged, chunk by chunk: the order in a lane has no effect."""
    kept = [dim for dim in range(array.ndim) if dim not in axes]
    if 0 in (array.shape[axis] for axis in axes):
        chunks = (*(array.chunks[dim] for dim in kept), (0,))
        return da.from_array(np.empty_like(array._meta, shape=tuple(map(sum, chunks))), chunks=chunks, asarray=False)
    # Dask does not merge axes of size one.
    long = [axis for axis in axes if array.shape[axis] > 1] or axes[:1]
    moved = without_empty_chunks(array).transpose((*kept, *axes))[
        (..., *(slice(None) if axis in long else 0 for axis in axes))
    ]
    if len(long) == 1:
        return moved
    if da.array_expr_enabled():  # such arrays have no reshape
        return _merge_last_axes(moved, len(long))
    return da.reshape_blockwise(moved, (*moved.shape[: len(kept)], math.prod(array.shape[axis] for axis in long)))


def _merge_last_axes(array: Any, count: int) -> Any:
    """The array with its last axes merged, chunk by chunk."""
    if count == 1:
        return array
    ends, parts = np.cumsum(array.chunks[-1]), []
    for end, size in zip(ends.tolist(), array.chunks[-1], strict=True):
        chunks = (*array.chunks[:-2], tuple(rows * size for rows in array.chunks[-2]))
        meta = np.empty_like(array._meta, shape=(0,) * len(chunks))
        part = array[..., end - size : end]
        parts.append(part.map_blocks(merge_rows, drop_axis=array.ndim - 1, chunks=chunks, dtype=array.dtype, meta=meta))
    return _merge_last_axes(da.concatenate(parts, axis=-1), count - 1)


def merge_rows(block: Any) -> Any:
    """Task: a chunk whose last two axes are one."""
    return block.reshape(*block.shape[:-2], -1)
