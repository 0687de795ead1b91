"""Whether an array is sorted: each chunk, then the borders between chunks.

::

    chunk 0   chunk 1   chunk 2        order-edges, one task a chunk: sorted? first and last key of each row
      |  last < first?  |
      '-------+---------'              order-borders, one task: all chunks sorted, and no border descends
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...chunk import ops_for
from ...order import Order
from ..input_checks import checked_chunk
from ..rechunk import rechunk_checked
from .request import Keys


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
    return np.array(all(chunk.ordered for chunk in edges.ravel()) and all(map(all, _borders(lines, order))))


def _borders(lines: np.ndarray, order: Order) -> Iterator[Iterator[bool]]:
    """For each line of chunks, whether each border is in order; empty chunks are skipped."""
    for line in lines:
        held = [chunk for chunk in line if len(chunk.first)]
        yield (not ops_for(a.last).before(b.first, a.last, order).any() for a, b in pairwise(held))


def is_ordered(keys: Keys, axis: int) -> Any:
    """Tell whether an array is sorted along an axis: a Dask array of bool, shape ()."""
    array = keys.array
    dims = keys.template.ndim
    edges = array.map_blocks(
        edges_of,
        keys.order,
        axis,
        drop_axis=list(range(dims, array.ndim)),
        chunks=tuple((1,) * count for count in array.numblocks[:dims]),
        dtype=object,
        meta=np.empty((0,) * dims, object),
    )
    together = rechunk_checked(edges, (-1,) * dims)
    return together.map_blocks(
        borders_rise, keys.order, axis, drop_axis=list(range(dims)), chunks=(), dtype=bool, meta=np.empty((), bool)
    )
