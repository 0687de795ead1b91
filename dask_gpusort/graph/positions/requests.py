"""Requests: the indices of a bundle of chunks, divided by the groups of chunks that they name.

The groups of an axis and their bounds are known before anything moves. So a stable sort of the indices by the number
of their group is all that an exchange needs: the requests for a group are then a slice::

    indices 7 0 5 2 | 6 1 ...      bounds 0 3 6 8
    group   2 0 1 0   2 0
    order   1 3 5 | 2 | 0 4        positions in the bundle
    offsets 0 2 1 | 2 | 1 0        in the group: what travels, with the values if some are written
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np

from ...chunk import complete, ops_for
from ...chunk.numpy_positions import positions_of
from ...chunk.run import Run
from ...order import Order
from ...plan.positions import Bundles
from .. import serialization
from ..input_checks import DeclaredChunk, changed_source, checked_chunk, wrong_size
from ..sort.finish import cut_part

#: Shape of each chunk of a bundle.
Shapes: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class GroupedAxis:
    """Divide the chunks of an axis into groups."""

    bounds: tuple[int, ...]  # first position of each group, and the end of the last
    axis: int  # its number, for errors
    mode: str = "raise"  # as for `numpy.take`

    @classmethod
    def of(cls, sizes: Sequence[int], groups: Bundles, axis: int, mode: str = "raise") -> GroupedAxis:
        """The axis of chunks of these sizes."""
        starts = list(accumulate(map(int, sizes), initial=0))
        return cls(tuple(starts[end] for end in groups.ends), axis, mode)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def size_of(self, group: int) -> int:
        """Positions in a group."""
        return self.bounds[group + 1] - self.bounds[group]


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Hold the indices of a bundle, in the order of their groups."""

    run: Run  # offsets in the groups, int64, and the values to write there
    order: Any  # positions in the bundle, shape (n,); empty where values are written
    ends: tuple[int, ...]  # where the requests for each group begin, and their end
    shapes: Shapes  # of each chunk of the bundle

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        return object.__sizeof__(self) + sys.getsizeof(self.run) + int(self.order.nbytes)

    def part(self, group: int) -> slice:
        """Where the requests for a group are."""
        return slice(self.ends[group], self.ends[group + 1])


def _split(requests: Requests) -> tuple[Any, list[Any]]:
    return (requests.ends, requests.shapes), [requests.order, *requests.run.arrays]


def _join(kept: Any, arrays: Sequence[Any]) -> Requests:
    order, offsets, *values = arrays
    return Requests(Run(offsets, tuple(values)), order, *kept)


serialization.add_class(Requests, _split, _join)


def make_requests(
    indices: list[Any], values: list[list[Any]], axis: GroupedAxis, declared: Sequence[Sequence[DeclaredChunk]]
) -> Requests:
    """Task: make the requests of a bundle from its chunks of indices, in C order, and the chunks of values to write.

    `declared` is what the array of indices, and each array of values, say of these chunks.
    """
    serialization.register()
    for chunks, said in zip((indices, *values), declared, strict=True):
        for block, one in zip(chunks, said, strict=True):
            one.check(block)
    ops = ops_for(indices[0])
    size = axis.bounds[-1]
    positions = ops.concatenate([positions_of(block, size, axis.axis, axis.mode).reshape(-1) for block in indices])
    groups = np.searchsorted(ops.from_host(np.array(axis.bounds[1:-1], np.int64)), positions, "right")
    groups = groups.astype(np.min_scalar_type(len(axis)))
    order = ops.argsort_rows(groups, Order(groups.dtype, stable=True), 0)
    starts = ops.from_host(np.array(axis.bounds[:-1], np.int64))
    offsets = positions[order] - starts[groups[order]]
    counts = np.bincount(groups, minlength=len(axis)).tolist()
    moved = tuple(ops.concatenate(own)[order] for own in values)
    narrow = np.uint32 if len(order) <= np.iinfo(np.uint32).max else np.int64
    kept = order[:0] if values else order.astype(narrow)
    shapes = tuple(tuple(map(int, block.shape)) for block in indices)
    complete(offsets)
    return Requests(Run(offsets, moved), kept, tuple(accumulate(counts, initial=0)), shapes)


def order_of(requests: Requests) -> Requests:
    """Task: requests without the offsets, which are freed when they are sent."""
    return Requests(requests.run[:0], requests.order, requests.ends, requests.shapes)


def cut_offsets(requests: Requests, group: int) -> Any:
    """Task: the offsets that a bundle requests of a group."""
    return complete(cut_part(requests.run.keys, requests.part(group)))


def cut_shard(requests: Requests, group: int) -> Run:
    """Task: the offsets in a group, and the values for it."""
    shard = requests.run[requests.part(group)].own()
    complete(shard.keys)
    return shard


def join_group(chunks: list[Any], size: int) -> Any:
    """Task: the chunks of a group, end to end; a single one is not copied."""
    blocks = [checked_chunk(block, None) for block in chunks]
    found = sum(len(block) for block in blocks)
    if found != size:
        raise wrong_size(f"a group of chunks has {found} elements", size)
    return complete(ops_for(blocks[0]).concatenate(blocks)) if len(blocks) > 1 else blocks[0]


@dataclass(frozen=True)
class Rows:
    """Describe what an index names."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of one row; () for a single element


def fill_bundle(shapes: Shapes, replies: Iterable[tuple[Any, Any]], rows: Rows) -> list[Any]:
    """Fill each chunk of indices of a bundle with the rows that it requested.

    `replies` are the rows of each group and their positions in the bundle; they do not fit if the indices were computed
    again, and changed.
    """
    ends = list(accumulate((math.prod(shape) for shape in shapes), initial=0))
    whole, filled = None, 0
    for positions, found in replies:
        if len(positions) != len(found):
            raise changed_source(f"{len(found)} elements arrived for {len(positions)} requests")
        whole = ops_for(found).empty(rows.dtype, (ends[-1], *rows.shape)) if whole is None else whole
        whole[positions] = found
        filled += len(found)
    if filled != ends[-1]:
        raise changed_source(f"{filled} of {ends[-1]} requests have a reply")
    # No reply at all arrives for no requests of NumPy chunks.
    whole = np.empty((0, *rows.shape), rows.dtype) if whole is None else complete(whole)
    parts = zip(shapes, pairwise(ends), strict=True)
    return [whole[slice(*part)].reshape((*shape, *rows.shape)) for shape, part in parts]


def fill_from_replies(requests: Requests, replies: list[Any], rows: Rows) -> list[Any]:
    """Task: the elements that the chunks of a bundle requested, from the replies of all groups."""
    parts = (requests.order[requests.part(group)] for group in range(len(replies)))
    return fill_bundle(requests.shapes, zip(parts, replies, strict=True), rows)
