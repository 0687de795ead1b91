r"""Reads from a whole array as a program: all of it goes to each group that reads.

::

    part        Whole       its chunks, end to end                                   notes: their shapes
                    |  out, all rows to each group
    group       ReadWhole   what is read for its chunks

Parts have the chunks of the array that is read, groups those of what says where: indices, or needles.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..chunk import ops_for
from ..chunk.grid import in_shapes
from ..chunk.labels import on_host
from ..chunk.run import Run
from .program import Ends, Given, Made, Superstep

#: Elements of a part's checksum: a source that is computed again, and changes, changes more or less everywhere.
SAMPLES = 64
#: Kinds of dtypes whose elements are in the array itself.
BYTES_KINDS = "biufcmMSU"

#: A function that can be pickled, of all chunks of one array, in C order, and some of another one: makes a complete
#: result for each of these.
Read: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


class Wholes(NamedTuple):
    """Say whose rows are where, and the shapes of the chunks of each part."""

    ends: Ends
    shapes: list[list[tuple[int, ...]]]


@dataclass(frozen=True)
class Whole(Superstep):
    """Join the chunks of a part end to end."""

    stage = "whole"
    moves = "out"
    keeps = True

    reads: tuple[bool, ...]  # whether each group has chunks to read for

    def work(self, given: Given) -> Made:
        rows = [block.reshape(-1) for block in given.blocks]
        keys = rows[0] if len(rows) == 1 else ops_for(rows[0]).concatenate(rows)
        fixed = keys.dtype.kind in BYTES_KINDS
        sample = on_host(keys[:: max(len(keys) // SAMPLES, 1)]).tobytes() if fixed else b""
        return Made(([block.shape for block in given.blocks], zlib.crc32(sample)), Run(keys))

    def decide(self, notes: Sequence[tuple[list[tuple[int, ...]], int]], decision: Any) -> Wholes:
        shapes = [own for own, _ in notes]
        last = np.outer([sum(map(math.prod, own)) for own in shapes], self.reads)
        return Wholes(Ends(np.zeros_like(last), last), shapes)

    def mark(self, note: tuple[list[tuple[int, ...]], int]) -> int:
        return zlib.crc32(repr(note).encode())


@dataclass(frozen=True)
class ReadWhole(Superstep):
    """Read from the chunks of all parts for those of a group."""

    stage = "whole-read"
    side = "group"

    read: Read
    parts: tuple[tuple[int, ...], ...]  # the chunks of each part, by their numbers in C order

    def work(self, given: Given) -> Made:
        if not given.blocks:
            return Made(arrays=([],))
        pieces, nothing, chunks = dict(given.pieces), given.pieces[0][1][:0], dict[int, Any]()
        for part, (own, shapes) in enumerate(zip(self.parts, given.decision.shapes, strict=True)):
            # A part without chunks may have the shape of an empty one.
            chunks.update(zip(own, in_shapes(pieces.get(part, nothing).keys, shapes), strict=False))
        return Made(arrays=(self.read([chunks[number] for number in sorted(chunks)], given.blocks),))
