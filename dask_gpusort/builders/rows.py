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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import complete, ops_for
from ..chunk.checks import checked_chunk
from ..drivers.one import call_with_whole
from ..graph.collection import Output
from ..graph.explain import note
from ..graph.inputs import chunk_limit, equal_chunks, lane_by_lane, rechunk, rechunk_checked, whole_axes
from ..order import Order
from ..plan.choose import Lanes, Where, choose
from ..plan.memory import HOST_BYTES
from ..plan.plan import Plan, StepBytes
from ..plan.sort import SHARED
from .global_sort import global_sort, join, joins_rows, rows_bytes
from .request import Keys, Request

#: What a plan says of a check, and of a method that is asked for where rows are sorted whole.
EDGES = "each chunk is checked, and then the borders between them"
WHOLE_ROWS = "rows are sorted whole: nothing is cut, so the method has no effect"


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


def choose_rows(request: Request, keys: Keys, values: Sequence[Any], axis: int) -> tuple[Where, str]:
    """Where rows along an axis are sorted, and why (see the module's table)."""
    array, template = keys.array, keys.template
    lanes, single = _lanes_of(keys, values, axis), math.prod(array.numblocks) == 1
    if (lanes.chunks > 1 or single) and joins_rows(request, keys, values):
        return "join", SHARED
    if lanes.chunks > 1 and template.ndim > 1 and math.isnan(array.shape[axis]):
        raise ValueError(
            f"the array to sort has several chunks of unknown sizes along axis {axis}: "
            "call its compute_chunk_sizes() first"
        )
    return choose(lanes, "sort")


def _lanes_of(keys: Keys, values: Sequence[Any], axis: int) -> Lanes:
    """Rows of the widest of the arrays."""
    array = keys.template
    kept = [dim for dim in range(array.ndim) if dim != axis]
    count, blocks = (math.prod(own[dim] for dim in kept) for own in (array.shape, array.numblocks))
    largest = math.prod(max(array.chunks[dim]) for dim in kept)
    width, limit = _widest(keys, values), chunk_limit(keys.array)
    return Lanes(count, array.shape[axis], largest, array.numblocks[axis], blocks, width, limit, True)


def _plan_rows(
    request: Request, keys: Keys, values: Sequence[Any], axis: int, where: Where, why: str, whole: dict[int, Any]
) -> Plan:
    """What is told of rows, which may be made `whole` in chunks; those of an exchange have plans of their own."""
    chunks = keys.template.chunks
    if whole and keys.template.size and not math.isnan(keys.template.size):
        chunks = tuple(whole[dim] for dim in range(len(chunks)))
    taken = rows_bytes(request, keys, values, None if where == "join" else chunks)
    return Plan(
        where=where,
        why=why,
        given={"rows": _lanes_of(keys, values, axis).text},
        more={"path": WHOLE_ROWS * (where != "exchange" and request.method != "auto")},
        steps=() if where == "exchange" else (StepBytes("sort_block", 0, 0, stays=taken),),
        scope="process" if where == "join" else "thread",
    )


def sort_rows(request: Request, keys: Keys, values: Sequence[Any], axis: int, chunks: Any) -> tuple[Any, ...]:
    """Sort along an axis of an array of several dimensions, or of one chunk, as `global_sort`."""
    where, why = choose_rows(request, keys, values, axis)
    array, whole = keys.array, _whole_rows(keys, values, axis) if where == "rechunk" else {}
    note(_plan_rows(request, keys, values, axis, where, why, whole), request.runtime)
    if where == "join":
        return join(request, keys, values, axis, chunks)
    if where == "exchange":
        found = _row_by_row(request, array, values, axis)
    else:
        if where == "rechunk":
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
    lanes, (fixed, copies) = _lanes_of(keys, (), axis), HOST_BYTES["edges"]
    largest = lanes.whole_bytes("blocks") / lanes.itemsize
    steps = (StepBytes("order-edges", largest, lanes.itemsize, copies, fixed),)
    note(Plan(where="blocks", why=EDGES, given={"rows": lanes.text}, steps=steps), request.runtime)
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
