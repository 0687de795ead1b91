"""Reads and writes at positions as programs.

The groups of an axis, and where they begin, are known before anything moves. So a stable sort of the indices by the
number of their group is all that must be known: those of a group lie side by side::

    indices 7 0 5 2 | 6 1 ...      bounds 0 3 6 8
    group   2 0 1 0   2 0
    order   1 3 5 | 2 | 0 4        positions in the part, which stay
    offsets 0 2 1 | 2 | 1 0        in the group: what travels, with the values if some are written

Parts have the indices, in C order, and groups the elements::

    group       Source      its chunks, joined
    part        Requests    offsets, in the order of their groups                    notes: exact cuts
                    |  out
    group       Read        the elements at them
                    |  back
    part        Fill        elements at the positions that stayed
                or
    group       Write       values to a copy of its chunks; rows for a group keep their order, so the last one stays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..chunk import complete, ops_for
from ..chunk.grid import chunk_starts, in_shapes, join_chunks
from ..chunk.numpy_positions import positions_of
from ..chunk.run import Run
from ..order import Order
from ..table import IntArray
from .program import Ends, Given, Made, Superstep, ends_of_cuts


class Asked(NamedTuple):
    """Say whose requests are where."""

    ends: Ends


@dataclass(frozen=True)
class Requests(Superstep):
    """Sort the indices of a part by the groups that they name."""

    stage = "take-requests"
    listing = "take-asked"
    shards = "take-shard"
    moves = "out"
    keeps = True
    writes: ClassVar[bool] = False  # whether a part has values, too, which travel with the indices

    bounds: tuple[int, ...]  # first position of each group, and the end of the last
    axis: int  # its number, for errors
    mode: str = "raise"  # as for `numpy.take`

    def work(self, given: Given) -> Made:
        arrays = len(given.blocks) // (1 + self.writes)
        indices, values = given.blocks[:arrays], given.blocks[arrays:]
        ops, size, groups = ops_for(indices[0]), self.bounds[-1], len(self.bounds) - 1
        positions = ops.concatenate([positions_of(block, size, self.axis, self.mode).reshape(-1) for block in indices])
        named = np.searchsorted(ops.moved_here(np.array(self.bounds[1:-1], np.int64)), positions, "right")
        named = named.astype(np.min_scalar_type(groups))
        order = ops.argsort_rows(named, Order(named.dtype, stable=True), 0)
        starts = ops.moved_here(np.array(self.bounds[:-1], np.int64))
        offsets = positions[order] - starts[named[order]]
        counts = np.bincount(named, minlength=groups).tolist()
        moved = (ops.concatenate(values)[order],) if self.writes else ()
        narrow = np.uint32 if len(order) <= np.iinfo(np.uint32).max else np.int64
        stays = None if self.writes else Run(order.astype(narrow))
        shapes = [block.shape for block in indices]
        return Made(np.array([0, *accumulate(counts)], np.int64), Run(offsets, moved), shapes, stays)

    def decide(self, notes: Sequence[IntArray], decision: Any) -> Asked:
        return Asked(ends_of_cuts(np.stack(notes)))


class Writes(Requests):
    """Sort the indices of a part, and the values for them."""

    stage = "put-requests"
    listing = "put-asked"
    shards = "put-shard"
    writes = True


class Source(Superstep):
    """Join the chunks of a group along the first axis."""

    stage = "take-source"
    side = "group"
    keeps = True

    def work(self, given: Given) -> Made:
        blocks = given.blocks
        return Made(stays=_as_run(ops_for(blocks[0]).concatenate(blocks) if len(blocks) > 1 else blocks[0]))


def _as_run(rows: Any) -> Run:
    """Rows as a run, whose last array they are: its keys have one dimension."""
    return Run(rows) if rows.ndim == 1 else Run(np.zeros_like(rows, np.uint8, shape=(len(rows),)), (rows,))


class Read(Superstep):
    """Read the elements of a group that are requested."""

    stage = "take-reply"
    listing = "take-replied"
    side = "group"
    moves = "back"
    portions = True

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        rows = given.stays().arrays[-1]
        ops = ops_for(rows)
        replies: Any = (_as_run(ops.take(rows, run.keys, 0)) for _, run in given.pieces)
        return Made(run=replies)


@dataclass(frozen=True)
class Fill(Superstep):
    """Fill each chunk of a part with what it requested."""

    stage = "take-fill"
    portions = True

    dtype: np.dtype[Any]

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        order, start = given.stays().keys, 0
        whole: Any = None
        for _, run in given.pieces:
            found = run.arrays[-1]
            if whole is None:
                shape = (len(order), *found.shape[1:])
                whole = np.empty_like(found, shape=shape, dtype=self.dtype, order="C")
            whole[order[start : start + len(found)]] = found
            start += len(found)
        return Made(arrays=(in_shapes(whole, given.memo),))


class Write(Superstep):
    """Write the values for a group to a copy of its chunks."""

    stage = "put-merge"
    side = "group"
    portions = True

    def work(self, given: Given) -> Made:
        ops = ops_for(given.blocks[0])
        whole = ops.concatenate_along(given.blocks, 0)
        for _, run in given.pieces:
            ops.put(whole, run.keys, *run.values)
        ends = pairwise(accumulate(map(len, given.blocks), initial=0))
        # Several chunks are copied: a view would keep all of them.
        parts = [whole[slice(*end)] for end in ends]
        return Made(arrays=([part.copy() for part in parts] if len(parts) > 1 else parts,))


@dataclass(frozen=True)
class Elements:
    """Read elements where all of them are in one memory (see `whole.Read`)."""

    chunks: tuple[tuple[float, ...], ...]  # one along all axes but the one along which is read
    axis: int
    mode: str  # as for `numpy.take`

    def __call__(self, chunks: Sequence[Any], indices: Sequence[Any]) -> list[Any]:
        whole = join_chunks(chunks, chunk_starts([chunk.shape for chunk in chunks], self.chunks))
        return [complete(ops_for(whole).take(whole, block, self.axis, self.mode)) for block in indices]
