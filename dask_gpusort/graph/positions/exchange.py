"""Requests: the indices of a bundle of chunks, divided by the groups of chunks that they name.

The groups of an axis and their bounds are known before anything moves. So a stable sort of the indices by the number
of their group is all that an exchange needs: the requests for a group are then a slice::

    indices 7 0 5 2 | 6 1 ...      bounds 0 3 6 8
    group   2 0 1 0   2 0
    order   1 3 5 | 2 | 0 4        positions in the bundle
    offsets 0 2 1 | 2 | 1 0        in the group: what travels, with the values if some are written

A read sends requests to the groups, for O bundles of indices and S groups of the source. Elements come back::

    indices of bundle o                            source chunks of group s
        |                                                   |
    take-requests o     divided by group                take-source s     joined
        |           |                                       |
        |       take-shard (o, s)      offsets ------> take-reply (o, s)
        |                                                   |
    take-order o        what goes where                     |  elements
        |                                                   |
    take-fill o  <------------------------------------------
        |
    output chunks

Each reply is a task of its own, so no task holds more than a group and a bundle, wherever the indices point. Where
workers keep what moves, it is a portion of a task (see `runs.rows`).

A write sends values to the groups, for O bundles of indices and values and T groups of the array::

    indices, values of bundle o                chunks of group t
        |                                          |
    put-requests o      divided by group           |
        |                                          |
    put-shard (o, t)    offsets, values  --->  put-merge t      a copy of the group, written bundle by bundle
                                                   |
                                               output chunks

Bundles are in C order, and requests for a group keep their order. So the last value for a position stays.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import getitem
from typing import Any, TypeAlias

import numpy as np
from dask.typing import Key

from ...chunk import complete, ops_for
from ...chunk.numpy_positions import positions_of
from ...chunk.run import Run
from ...order import Order
from ...plan import Size
from ...plan.positions import Bundles
from .. import serialization
from .._dask import List
from ..input_checks import DeclaredChunk, changed_source, checked_chunk, declared_chunks, wrong_size
from ..sort.finish import cut_part, take_part
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunks_of

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


def reply(source: Any, offsets: Any) -> Any:
    """Task: the elements of a group at some offsets."""
    return complete(ops_for(source).take(source, offsets, 0))


@dataclass(frozen=True)
class Take(ArrayRecipe):
    """Hold all that the tasks of one read by an exchange are made from."""

    names: tuple[str, ...]  # of the source and of the indices
    axis: GroupedAxis  # the first axis of the source
    groups: Bundles  # of the source's chunks
    bundles: Bundles  # of the chunks of indices in C order
    index_dtype: np.dtype[Any]
    index_chunks: Chunks  # sizes in each dimension, nan where unknown
    rows: Rows  # of the source, whose dimensions after the first are one chunk each

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the chunks to the filled bundles."""
        tasks, chunks, groups = Tasks(self.token), self.source, range(len(self.groups))
        for group in groups:
            own = List(*(chunks[chunk] for chunk in self.groups.chunks(group)))
            tasks.add("take-source", group, join_group, own, self.axis.size_of(group))
        for bundle, asked in enumerate(self.requested):
            requests, replies = tasks.add("take-requests", bundle, make_requests, *asked), []
            for group in groups:
                shard = tasks.add("take-shard", (bundle, group), cut_offsets, requests, group)
                replies.append(tasks.add("take-reply", (bundle, group), reply, tasks.ref("take-source", group), shard))
            order = tasks.add("take-order", bundle, order_of, requests)
            tasks.add("take-fill", bundle, fill_from_replies, order, List(*replies), self.rows)
        return tasks

    @property
    def source(self) -> list[Any]:
        """References to the source's chunks."""
        return chunks_of(self.names[0], np.ndindex(self.groups.ends[-1]), len(self.rows.shape))

    @property
    def requested(self) -> Iterator[tuple[Any, ...]]:
        """The arguments of `make_requests` for each bundle."""
        declared = declared_chunks("the indices", self.index_dtype, self.index_chunks)
        for bundle in range(len(self.bundles)):
            said = [declared[chunk] for chunk in self.bundles.chunks(bundle)]
            yield List(*chunks_of(self.names[1], (one.index for one in said))), List(), self.axis, [said]

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the filled bundles to the output chunks."""
        tasks, behind = Tasks(self.token), (0,) * len(self.rows.shape)
        indices = list(np.ndindex(*map(len, self.index_chunks)))
        for bundle in range(len(self.bundles)):
            for number, chunk in enumerate(self.bundles.chunks(bundle)):
                tasks.put((name, *indices[chunk], *behind), getitem, tasks.ref("take-fill", bundle), number)
        return tasks


def write_group(chunks: Sequence[Any], shards: Iterable[Run], size: int) -> tuple[Any]:
    """Task: write all shards to a group of so many positions, in their order."""
    blocks = [checked_chunk(block, None) for block in chunks]
    ops = ops_for(blocks[0])
    whole = ops.concatenate_along(blocks, 0)
    if len(whole) != size:
        raise wrong_size(f"a group of chunks has {len(whole)} elements", size)
    for shard in shards:
        ops.put(whole, shard.keys, *shard.values)
    return (complete(whole),)


@dataclass(frozen=True)
class Put(ArrayRecipe):
    """Hold all that the tasks of one write by an exchange are made from."""

    names: tuple[str, ...]  # of the indices, of the values, and of the array
    axis: GroupedAxis  # of the array
    groups: Bundles  # of the array's chunks
    bundles: Bundles  # of the chunks of indices
    dtypes: tuple[np.dtype[Any], ...]  # of the indices and of the values
    sizes: tuple[Size, ...]  # indices, and values, in each chunk

    def before(self, group: int) -> List:
        """The chunks of a group before it is written."""
        return List(*chunks_of(self.names[-1], ((chunk,) for chunk in self.groups.chunks(group))))

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the chunks to the written groups."""
        tasks = Tasks(self.token)
        requests = [tasks.add("put-requests", bundle, make_requests, *own) for bundle, own in enumerate(self.requested)]
        for group in range(len(self.groups)):
            shards = [
                tasks.add("put-shard", (bundle, group), cut_shard, own, group) for bundle, own in enumerate(requests)
            ]
            tasks.add("put-merge", group, write_group, self.before(group), List(*shards), self.axis.size_of(group))
        return tasks

    @property
    def requested(self) -> Iterator[tuple[Any, ...]]:
        """The arguments of `make_requests` for each bundle."""
        arrays = zip(("the indices", "the values"), self.dtypes, strict=True)
        declared = [declared_chunks(what, dtype, (self.sizes,)) for what, dtype in arrays]
        for bundle in range(len(self.bundles)):
            chunks = self.bundles.chunks(bundle)
            own, moved = (List(*chunks_of(name, ((chunk,) for chunk in chunks))) for name in self.names[:2])
            said = [[array[chunk] for chunk in chunks] for array in declared]
            yield own, List(moved), self.axis, said

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the written groups to the chunks of one output."""
        tasks = Tasks(self.token)
        for group in range(len(self.groups)):
            own = self.groups.chunks(group)
            ends = pairwise(accumulate((int(chunks[0][chunk]) for chunk in own), initial=0))
            for chunk, part in zip(own, ends, strict=True):
                tasks.put((name, chunk), take_part, tasks.ref("put-merge", group), which, slice(*part))
        return tasks
