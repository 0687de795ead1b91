"""Reads and writes in chunks that hold whole lanes: nothing is exchanged.

A read names its source in every task, which has one chunk along the axis. A write takes all chunks along the axis, of
the array, of the indices and of the values, as they are: the task joins those of the array, and writes the others one
after the other. So the last value for a position stays, in C order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tlz import concat

from ..chunk import complete, ops_for
from ..chunk.checks import Blocks, DeclaredChunk, checked_chunk
from ..drivers import run_in_gang
from ..drivers.one import InOneTask, make_whole
from ..drivers.recipe import Input
from ..functions.positions import Elements
from ..functions.whole import Read, ReadWhole, Whole
from ..graph._dask import flatten
from ..graph.collection import Output, new_arrays
from ..graph.inputs import DeclaredChunks, blockwise, equal_chunks, largest_chunk, rechunk, rechunk_checked, whole_axes
from ..graph.tasks import Chunks
from ..plan import Runs


def take_block(block: Any, indices: Any, declared: DeclaredChunk, axis: int, length: float, mode: str | None) -> Any:
    """Task: elements of one chunk; `mode` is that of `numpy.take`, None takes along the axis."""
    declared.check(indices)
    chunks = [checked_chunk(each, None) for each in flatten([block])]
    # Dask leaves the chunks of an empty array as they are.
    block = chunks[0] if len(chunks) == 1 else ops_for(chunks[0]).concatenate_along(chunks, axis)
    ops = ops_for(checked_chunk(block, None, sizes={axis: length}))
    return complete(ops.take_along(block, indices, axis) if mode is None else ops.take(block, indices, axis, mode))


def read_checked(chunks: list[Any], sizes: Chunks, read: Read, declared: Sequence[DeclaredChunk]) -> tuple[list[Any]]:
    """Task: what is read from the chunks of such sizes for each of those behind them."""
    found, count = Blocks(chunks, declared).checked(), math.prod(map(len, sizes))
    with ops_for(found[0]).exclusive():
        return (read(found[:count], found[count:]),)


def put_block(
    blocks: Any, indices: Any, declared: Any, values: Any, declared_values: Any, axis: int, length: float
) -> Any:
    """Task: the chunks of some lanes, joined, with values written to them."""
    for given, said in ((indices, declared), (values, declared_values)):
        for chunk, one in zip(flatten([given]), flatten([said]), strict=True):
            one.check(chunk)
    chunks = [checked_chunk(block, None) for block in flatten([blocks])]
    ops = ops_for(chunks[0])
    whole = ops.concatenate_along(chunks, axis)
    checked_chunk(whole, None, sizes={axis: length})
    numbers, written = list(flatten([indices])), list(flatten([values]))
    # One value for all indices of a lane is in one chunk.
    for positions, some in zip(numbers, written * len(numbers) if len(written) == 1 else written, strict=True):
        ops.put_along(whole, positions, some, axis)
    return complete(whole)


def along_chunks(array: Any, indices: Any, axis: int) -> Chunks:
    """Chunks of `take_along_axis`: those of the indices, or of the array where these are broadcast."""
    return tuple(
        own if dim != axis and indices.shape[dim] == 1 else sizes
        for dim, (own, sizes) in enumerate(zip(array.chunks, indices.chunks, strict=True))
    )


def take_from_lanes(array: Any, indices: Any, axis: int, limit: float) -> Any:
    """`take_along_axis`, by chunks of whole lanes, which are joined up to `limit` bytes."""
    wanted = along_chunks(array, indices, axis)
    array, indices = whole_units(array), whole_units(indices)
    array = _whole_lanes(array, axis, along_chunks(array, indices, axis), limit)
    grid = along_chunks(indices, array, axis)
    lanes = {dim: sizes for dim, sizes in enumerate(grid) if dim != axis and indices.shape[dim] != 1}
    indices = _align(indices, lanes)
    dims = tuple(range(array.ndim))
    contracted = tuple(array.ndim if dim == axis else dim for dim in dims)
    chunks = along_chunks(array, indices, axis)
    inputs = (array, contracted, *_declared("the indices", indices, dims))
    return _restored(_take(array, dims, inputs, chunks, axis, None), wanted)


def take_from_axis(array: Any, indices: Any, axis: int, mode: str, limit: float) -> Any:
    """`take`, by chunks of whole lanes, which are joined up to `limit` bytes."""
    wanted = (*array.chunks[:axis], *indices.chunks, *array.chunks[axis + 1 :])
    array = _whole_lanes(array, axis, array.chunks, limit)
    last = array.ndim + indices.ndim
    positions = tuple(range(array.ndim, last))
    contracted = tuple(last if dim == axis else dim for dim in range(array.ndim))
    dims = (*range(axis), *positions, *range(axis + 1, array.ndim))
    chunks = (*array.chunks[:axis], *indices.chunks, *array.chunks[axis + 1 :])
    inputs = (array, contracted, *_declared("the indices", indices, positions))
    return _restored(_take(array, dims, inputs, chunks, axis, mode), wanted)


def take_at_once(array: Any, indices: Any, axis: int, mode: str, sources: Runs) -> Any:
    """`take` by a gang whose members have some chunks each, or without any in one task: others would wait in turn."""
    chunks = (*array.chunks[:axis], *indices.chunks, *array.chunks[axis + 1 :])
    output = Output(np.empty_like(array._meta, shape=(0,) * len(chunks)), chunks)
    # The sizes of the elements' chunks are checked where all are joined.
    unknown = tuple((math.nan,) * len(sizes) for sizes in array.chunks)
    inputs = Input("the input", array.dtype, unknown, ()), Input("the indices", indices.dtype, indices.chunks, ())
    read = Elements(array.chunks, axis, mode)
    if sources:
        return read_in_gang(read, [array, indices], inputs, sources, output, "take")
    function = partial(read_checked, read=read, declared=[*concat(one.declared for one in inputs)])
    names, others = (array.name, indices.name), (indices.numblocks,)
    recipe = InOneTask(function, "take-join", names, array.chunks, others=others)
    return new_arrays(recipe, [array, indices], [output], "take")[0]


def read_in_gang(
    read: Read, arrays: Sequence[Any], inputs: Sequence[Input], sources: Runs, output: Output, prefix: str
) -> Any:
    """Make an array of what is read from all of an array for each chunk of another one, by a gang.

    `sources` are the chunks of each member, by their numbers in the first array, and then in the other one.
    """
    count = math.prod(arrays[0].numblocks)
    parts = tuple(tuple(chunk for chunk in own if chunk < count) for own in sources)
    groups = tuple(tuple(chunk - count for chunk in own if chunk >= count) for own in sources)
    steps = Whole(tuple(map(bool, groups))), ReadWhole(read, parts)
    own = inputs[0]._replace(side="part", owned=parts), inputs[1]._replace(side="group", owned=groups)
    members = tuple((part,) for part in range(len(parts)))
    return run_in_gang(arrays, own, steps, [(1, 0)], members, [output], prefix)[0]


def put_into_lanes(array: Any, indices: Any, values: Any, axis: int, limit: float) -> Any:
    """`put_along_axis` in one task for all chunks of the same lanes, of up to `limit` bytes."""
    wanted = array.chunks
    array = _shorter_lanes(whole_units(array), axis, limit)
    indices = whole_units(indices)
    # Several indices of another dimension for one lane are written in C order, so they must be in one chunk.
    shared = [dim for dim in range(array.ndim) if dim != axis and array.shape[dim] == 1 != indices.shape[dim]]
    lanes = {dim: sizes for dim, sizes in enumerate(array.chunks) if dim != axis and dim not in shared}
    whole = dict.fromkeys((*shared, *([axis] if shared else [])), -1)
    indices = _align(indices, {**{dim: own for dim, own in lanes.items() if indices.shape[dim] != 1}, **whole})
    along = {dim: indices.chunks[dim] for dim in (axis, *shared) if values.shape[dim] != 1}
    values = _align(values, {**{dim: own for dim, own in lanes.items() if values.shape[dim] != 1}, **along})
    dims, count = tuple(range(array.ndim)), array.ndim
    written = tuple(count + 1 + dim if dim == axis or dim in shared else dim for dim in dims)
    found = blockwise(
        put_block,
        dims,
        array,
        tuple(count if dim == axis else dim for dim in dims),
        *_declared("the indices", indices, written),
        *_declared("the values", values, written),
        new_axes={axis: (array.shape[axis],)},
        adjust_chunks={dim: sizes for dim, sizes in enumerate(array.chunks) if dim != axis},
        token="put-along",
        dtype=array.dtype,
        meta=array._meta,
        axis=axis,
        length=array.shape[axis],
    )
    return _restored(found, wanted)


def _take(array: Any, dims: Sequence[int], inputs: Sequence[Any], chunks: Chunks, axis: int, mode: str | None) -> Any:
    return blockwise(
        take_block,
        dims,
        *inputs,
        adjust_chunks=dict(zip(dims, chunks, strict=True)),
        token="take",
        dtype=array.dtype,
        meta=np.empty_like(array._meta, shape=(0,) * len(dims)),
        axis=axis,
        length=array.shape[axis],
        mode=mode,
    )


def _declared(what: str, array: Any, dims: tuple[int, ...]) -> tuple[Any, ...]:
    """Arguments of `dask.array.blockwise`: an array, and what it says of its chunks."""
    return array, dims, DeclaredChunks(what, array.dtype, array.chunks), dims


def _whole_lanes(array: Any, axis: int, wanted: Chunks, limit: float) -> Any:
    """The array with its axis in one chunk, and the other axes as wanted if that makes no chunk of more bytes."""
    if math.isinf(limit) and 1 < array.numblocks[axis] == math.prod(array.numblocks):
        return make_whole(array, "take")
    others = {dim: wanted[dim] for dim in range(array.ndim) if dim != axis and array.shape[dim] != 1}
    if any(map(math.isnan, (*array.shape, *concat(others.values())))):
        if array.numblocks[axis] > 1:
            raise ValueError(
                f"an array of several chunks along axis {axis} has unknown sizes along others: "
                "call its compute_chunk_sizes() first"
            )
        return array
    largest = array.shape[axis] * array.dtype.itemsize * math.prod(max(sizes) for sizes in others.values())
    if largest <= max(limit, largest_chunk(array)):
        return rechunk(array, {**others, axis: -1}, None if math.isinf(limit) else limit)
    if array.numblocks[axis] == 1:
        return array
    return rechunk(array, whole_axes(array, (axis,), array.dtype.itemsize, limit), limit)


def whole_units(array: Any) -> Any:
    """The array with axes of size one in one chunk, without the empty ones, so that it can be broadcast."""
    return rechunk(array, {dim: -1 for dim in range(array.ndim) if array.shape[dim] == 1 < array.numblocks[dim]})


def _shorter_lanes(array: Any, axis: int, limit: float) -> Any:
    """The array with its other axes divided so that whole lanes of a chunk have at most `limit` bytes."""
    others = [max(sizes) for dim, sizes in enumerate(array.chunks) if dim != axis]
    largest = array.shape[axis] * array.dtype.itemsize * math.prod(others)
    if not largest > max(limit, largest_chunk(array)):
        return array
    chosen = whole_axes(array, (axis,), array.dtype.itemsize, limit)
    return rechunk(array, {dim: sizes for dim, sizes in chosen.items() if dim != axis}, limit)


def _align(array: Any, chunks: dict[int, Any]) -> Any:
    """The array in these chunks; if some sizes are unknown, it has as many chunks already."""
    known = {}
    for dim, sizes in chunks.items():
        count = 1 if sizes == -1 else len(sizes)
        if not (math.isnan(array.shape[dim]) or (sizes != -1 and np.isnan(sizes).any())):
            known[dim] = sizes
        elif array.numblocks[dim] != count:
            raise ValueError(
                f"arr and indices, or values, have chunks of unknown sizes along axis {dim} which do not match: "
                "call their compute_chunk_sizes() first"
            )
    return rechunk(array, known)


def spread_along(values: Any, indices: Any) -> Any:
    """One value, in an array of one dimension, as an array like the indices."""
    return blockwise(
        spread_block,
        (0,),
        indices,
        (0,),
        values,
        (1,),
        token="spread",
        dtype=values.dtype,
        meta=values._meta,
    )


def spread_block(indices: Any, values: Any) -> Any:
    """Task: one value for each index."""
    (value,) = flatten([values])
    return np.broadcast_to(value, indices.shape)


def _restored(array: Any, chunks: Any) -> Any:
    return array if equal_chunks(array.chunks, chunks) else rechunk_checked(array, chunks)
