"""Sorts along one axis of arrays of several dimensions: many sorts of rows.

The strategy depends on the chunks of a row::

    "join"       on one device                   one task concatenates all chunks and sorts      no exchange
    "whole"      in one chunk                    sort the rows of each chunk                          no exchange
    "rechunk"    in several, fits one chunk      rechunk so that rows are whole, sort, rechunk back   Dask's rechunk
    "global"     in several, too long for one    one global sort a row                                our exchange

An array is sorted if each chunk is, and no border between chunks descends; a join has no borders::

    chunk 0   chunk 1   chunk 2        order-edges, one task a chunk: sorted? first and last key of each row
      |  last < first?  |
      '-------+---------'              order-borders, one task: all chunks sorted, and no border descends
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import complete, ops_for
from ..chunk.checks import checked_chunk
from ..cost import describe, describe_rows
from ..drivers.one import call_with_whole
from ..graph.collection import Output
from ..graph.explain import note
from ..graph.inputs import chunk_limit, equal_chunks, lane_by_lane, rechunk, rechunk_checked, whole_axes
from ..order import Order
from ..plan import Plan
from ..plan.terms import Projection
from .global_sort import global_sort, join, joins_rows, plan_for, rows_bytes
from .request import Keys, Request


def sort_block(block: Any, order: Order, axis: int, length: float, staged: bool = False) -> Any:
    """Task: sort the rows of one chunk."""
    checked_chunk(block, order.dtype.base, sizes={axis: length})
    return complete(ops_for(block, staged=staged).sort_rows(block, order, axis))


def argsort_block(block: Any, order: Order, axis: int, length: float, staged: bool = False) -> Any:
    """Task: indices that sort the rows of one chunk."""
    checked_chunk(block, order.dtype.base, sizes={axis: length})
    return complete(ops_for(block, staged=staged).argsort_rows(block, order, axis))


def take_block(block: Any, indices: Any, axis: int, staged: bool = False) -> Any:
    """Task: rows of one chunk, reordered by indices."""
    checked_chunk(block, None)
    ops = ops_for(block, staged=staged)
    ops.check_lengths(indices, [block], indices.ndim)
    return complete(ops.take_rows(block, indices, axis))


def row_strategy(request: Request, keys: Keys, values: Sequence[Any], axis: int) -> str:
    """The strategy for an axis: "join", "whole", "rechunk" or "global" (see the module's table)."""
    array = keys.array
    if (array.numblocks[axis] > 1 or math.prod(array.numblocks) == 1) and joins_rows(request, keys, values):
        return "join"
    if array.numblocks[axis] == 1:
        return "whole"
    length = array.shape[axis]
    if keys.template.ndim > 1 and any(map(math.isnan, array.shape)):
        if math.isnan(length):
            raise ValueError(
                f"the array to sort has several chunks of unknown sizes along axis {axis}: "
                "call its compute_chunk_sizes() first"
            )
        # An unknown number of rows cannot be sorted one by one.
        return "rechunk"
    row_bytes = length * _widest(keys, values)
    return "rechunk" if array.size == 0 or row_bytes <= chunk_limit(array) else "global"


def sort_rows(request: Request, keys: Keys, values: Sequence[Any], axis: int, chunks: Any) -> tuple[Any, ...]:
    """Sort along an axis of an array of several dimensions, or of one chunk, as `global_sort`."""
    strategy = row_strategy(request, keys, values, axis)
    array, template = keys.array, keys.template
    others = (size for dim, size in enumerate(template.shape) if dim != axis)
    count = math.prod(others if strategy == "global" else template.numblocks)

    def projection(step: Callable[[type], Any]) -> Projection:
        if strategy == "join" and template.ndim == 1:  # which needs no plan
            return describe(plan_for(request, keys, values, chunks[0]))
        sized = template.size and not math.isnan(template.size)
        at_once = _whole_rows(keys, values, axis) if strategy == "rechunk" and sized else dict(enumerate(array.chunks))
        own = [at_once[dim] for dim in range(template.ndim)]
        peak = rows_bytes(request, keys, values, None if strategy == "join" else own)
        return describe_rows(strategy, count, step(Plan), request.method, peak)

    note(strategy, projection, request.runtime)
    if strategy == "join":
        return join(request, keys, values, axis, chunks)
    if strategy == "global":
        found = _row_by_row(request, array, values, axis)
    else:
        if strategy == "rechunk":
            whole = _whole_rows(keys, values, axis)
            array, *values = (rechunk(each, whole) for each in (array, *values))
        found = _sort_blocks(request, array, values, axis)
    return tuple(array if equal_chunks(array.chunks, chunks) else rechunk_checked(array, chunks) for array in found)


def _whole_rows(keys: Keys, values: Sequence[Any], axis: int) -> dict[int, Any]:
    """Chunks, for `rechunk`, with a whole axis."""
    return whole_axes(keys.template, (axis,), _widest(keys, values), chunk_limit(keys.array))


def _widest(keys: Keys, values: Sequence[Any]) -> int:
    """Bytes of the widest element; of objects, whose size Dask does not know, that of their references."""
    return max(keys.order.transit_dtype.itemsize, *(value.dtype.itemsize for value in values), 1)


def _sort_blocks(request: Request, keys: Any, values: Sequence[Any], axis: int) -> tuple[Any, ...]:
    order, meta = request.order, keys._meta
    length, staged = keys.shape[axis], request.staged
    if request.want == "keys":
        return (keys.map_blocks(sort_block, order, axis, length, staged, dtype=keys.dtype, meta=meta),)
    dropped = {"drop_axis": [keys.ndim - 1]} if order.words else {}
    meta = np.empty_like(meta, shape=(0,) * (keys.ndim - len(dropped)), dtype=np.int64)
    positions = keys.map_blocks(argsort_block, order, axis, length, staged, dtype=np.int64, meta=meta, **dropped)
    if request.want == "positions":
        return (positions,)
    return tuple(
        da.map_blocks(take_block, array, positions, axis, staged, dtype=array.dtype, meta=array._meta)
        for array in ((keys, *values) if request.want == "both" else values)
    )


def _row_by_row(request: Request, keys: Any, values: Sequence[Any], axis: int) -> tuple[Any, ...]:
    def sort_row(row: Any, *own: Any) -> tuple[Any, ...]:
        return global_sort(request, Keys(row, request.order), own, row.chunks[0])

    return lane_by_lane(sort_row, [keys, *values], axis, keys.ndim - bool(request.order.words))


@dataclass(frozen=True)
class Edges:
    """Of one chunk: whether its rows are sorted, and their first and last keys."""

    ordered: bool
    first: Any
    last: Any


def edges_of(block: Any, order: Order, axis: int) -> np.ndarray:
    """Task: the edges of one chunk, as the only element of an array of the chunk's dimensions."""
    checked_chunk(block, order.dtype.base)
    found = np.empty((1,) * (block.ndim - bool(order.words)), object)
    found[...] = Edges(*ops_for(block).edges(block, order, axis))
    return found


def borders_rise(edges: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Task: whether all chunks are sorted and no border between them descends; shape ()."""
    lines = np.moveaxis(edges, axis, -1).reshape(-1, edges.shape[axis])
    borders = (pair for line in lines for pair in pairwise(chunk for chunk in line if len(chunk.first)))
    rise = (not ops_for(a.last).before(b.first, a.last, order).any() for a, b in borders)
    return np.array(all(chunk.ordered for chunk in edges.ravel()) and all(rise))


def whole_rises(whole: Any, order: Order, axis: int) -> tuple[np.ndarray]:
    """Whether a whole array is sorted along an axis."""
    return (np.array(ops_for(whole).edges(whole, order, axis)[0]),)


def is_ordered(request: Request, keys: Keys, axis: int) -> Any:
    """Tell whether an array is sorted along an axis: a Dask array of bool, shape ()."""
    array, order = keys.array, keys.order
    dims = keys.template.ndim
    # Beside what a sort takes there are the codes and whether each descends.
    if joins_rows(request, keys, (), task_bytes=order.transit_dtype.itemsize + 1):
        function, output = partial(whole_rises, order=order, axis=axis), Output(np.empty((), bool), ())
        return call_with_whole(array, function, [output], (False,), "order", "order")[0]
    edges = array.map_blocks(
        edges_of,
        order,
        axis,
        drop_axis=list(range(dims, array.ndim)),
        chunks=tuple((1,) * count for count in array.numblocks[:dims]),
        dtype=object,
        meta=np.empty((0,) * dims, object),
    )
    together = rechunk_checked(edges, (-1,) * dims)
    return together.map_blocks(
        borders_rise, order, axis, drop_axis=list(range(dims)), chunks=(), dtype=bool, meta=np.empty((), bool)
    )
