"""The plan of distinct keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tlz import concat

from ..chunk.distinct import Columns
from ..chunk.tie_groups import may_be_nan
from ..order import Order
from . import counting
from .choose import Lanes, Where, choose
from .division import bundle_chunks, fits_gang, gang_bundles, join_small_chunks
from .make import choose_groups
from .memory import arrived_bytes, distinct_bytes, host_bytes, key_bytes
from .plan import Plan, StepBytes
from .terms import (
    BY_TASKS,
    Exchange,
    InputChunks,
    Runs,
    Size,
    Workers,
    format_chunks,
    format_count,
    format_number,
    format_size,
)

#: Bytes of a count, if it may be large, of a first position, and of the number of a tie group.
COUNT_BYTES = 8
#: Bytes of a key's place among the distinct keys of its chunk.
INVERSE_BYTES = 4
#: What the peak of distinct keys that move is of.
ALL_DIFFER = "the peak is that if all elements are distinct: how many are is unknown"
#: Most pairs of a part and a group: one task lists where the rows of each begin and end, in 16 bytes.
MOST_PAIRS = 1 << 24
#: Samples of each part of a gang. A member's share differs by one in so many parts of all keys.
MEMBER_SAMPLES = 512
#: Kinds of dtypes whose equal keys have equal bits, so that each may stand for the others.
SAME_BITS_KINDS = "biumMSU"
#: Kinds of dtypes whose distinct keys no gang finds: Python objects, and records, of which NumPy compares each field.
NO_GANG_KINDS = "OV"


@dataclass(frozen=True)
class DistinctPlan:
    """Say how the distinct keys of an array are found."""

    where: Where
    why: str
    chunks: int  # of the input
    keys: Size  # of the input, nan if unknown
    largest: Size  # keys of the largest chunk whose distinct keys are found at once, nan if unknown
    itemsize: int  # bytes of a key
    columns: Columns  # what is found of each distinct key of a chunk
    key_bytes: float  # bytes for each key that the task takes which finds the distinct keys of a chunk
    sources: Runs = ()  # the chunks of each member of a gang
    division: Division | None = None  # of "sort" and "gang", and of sets of two arrays in one chunk
    sides: bool = False  # whether it is of two arrays

    @property
    def count_dtype(self) -> np.dtype[Any]:
        """The dtype of the counts that move: the narrowest one that holds the keys of a part."""
        return np.dtype(np.uint32 if self.largest <= np.iinfo(np.uint32).max else np.int64)

    @property
    def row_bytes(self) -> int:
        """Bytes of a distinct key and of what is sorted with it."""
        return self.itemsize + self.count_dtype.itemsize * self.columns.counts + COUNT_BYTES * self.columns.firsts

    @property
    def reply_dtype(self) -> np.dtype[Any]:
        """The dtype of the replies: the narrowest one that holds twice the number of keys."""
        return np.dtype(np.uint32 if 2 * self.keys <= np.iinfo(np.uint32).max else np.int64)

    @property
    def back_bytes(self) -> int:
        """Bytes that go back to a chunk for each of its distinct keys."""
        return self.reply_dtype.itemsize if self.where == "exchange" and self.columns.inverse else 0

    @property
    def stated(self) -> Plan:
        """What is decided, and what it takes."""
        most = self.keys * self.row_bytes
        steps = [StepBytes("unique-local", self.largest, self.itemsize, 0, self.key_bytes)]
        back = f"; {self.back_bytes} bytes for each go back to its chunk" if self.back_bytes else ""
        moves = f"only distinct keys, {self.row_bytes} bytes each: at most {format_size(most)}, if all differ{back}"
        spread = self.division if self.where == "exchange" else None
        notes: tuple[str, ...] = ()
        if spread is not None:
            instead = f"exchange {spread.exchange} in place of {spread.instead_of}"
            notes = (ALL_DIFFER, *[instead] * bool(spread.instead_of))
            rows, kept = self.keys / spread.groups, spread.exchange == "runs"
            if self.columns == Columns():
                taken = rows * host_bytes("merged sides" if self.sides else "merged", self.itemsize)
            else:
                taken = arrived_bytes(rows, self.itemsize, self.count_dtype.itemsize, self.columns, kept)
            steps.append(StepBytes("unique-merge", rows, self.row_bytes, 0, 0, taken))
        return Plan(
            where=self.where,
            why=self.why,
            given={"keys": f"{format_number(self.keys)} in {format_chunks(self.chunks)}"},
            more={"groups": spread.text if spread else "", "moves": moves if spread else "nothing"},
            driver=spread.exchange if spread else "",
            steps=tuple(steps),
            scope="process" if self.where == "join" or self.sources else "thread",
            stages=(("distinct of chunks", self.keys * self.itemsize), ("sort, at most", most)),
            notes=notes,
        )


@dataclass(frozen=True)
class Division:
    """Say how chunks are divided into parts, and their distinct keys into groups."""

    exchange: Exchange
    parts: Runs  # the chunks of each part
    groups: int
    samples: int  # of each part
    members: Runs = ()  # the parts of each member of a gang
    instead_of: str = ""  # as in `SortPlan`

    @property
    def text(self) -> str:
        """How distinct keys move, on one line."""
        if self.members:
            return f"{len(self.members):,} members find distinct keys, exchange and number them, in one task each"
        parts, groups = format_count(len(self.parts), "part"), format_count(self.groups, "group")
        return f"exchange {self.exchange}, {parts}, {groups}, sizes unknown"


def divide_distinct(
    order: Order,
    given: InputChunks,
    columns: Columns,
    exchange: Exchange,
    workers: Workers,
    groups: int | None,
    second: int | None,
) -> Division:
    """Divide chunks and their distinct keys, into `groups` if asked; `second` is the first chunk of another side."""
    # Positions take as many bytes as answers do.
    of_rows = columns.counts + columns.firsts + columns.inverse
    row_bytes = order.transit_dtype.itemsize + COUNT_BYTES * of_rows
    joined = (
        bundle_chunks(given, row_bytes, workers)
        if exchange in BY_TASKS
        else join_small_chunks(given, row_bytes, workers)
    )
    ordered = keeps_order(order, columns)
    parts = tuple(sorted(part for bundle in joined for part in parts_of(bundle, second, ordered)))
    if groups is None:
        groups = choose_groups(order, exchange, row_bytes, given, len(parts), given.sizes, workers)
    groups = max(1, min(groups, MOST_PAIRS // len(parts)))
    return Division(exchange, parts, groups, counting.choose_samples(len(parts), groups))


def divide_members(order: Order, sources: Runs, columns: Columns, second: int | None) -> Division:
    """Divide the chunks of each member of a gang, as `divide_distinct`: each member has a group."""
    ordered = keeps_order(order, columns)
    own = [parts_of(chunks, second, ordered) for chunks in sources]
    parts = tuple(sorted(concat(own)))
    members = tuple(tuple(map(parts.index, one)) for one in own)
    return Division("gang", parts, len(members), MEMBER_SAMPLES, members)


def keeps_order(order: Order, columns: Columns) -> bool:
    """Whether it matters which of equal keys is the first."""
    return columns.firsts or columns.repeats or order.dtype.kind not in SAME_BITS_KINDS


def parts_of(chunks: Sequence[int], second: int | None, ordered: bool) -> Runs:
    """The parts of some chunks: of both sides, and if the order of equal keys matters, of neighbours."""
    parts: list[list[int]] = []
    for chunk in chunks:
        last = parts[-1][-1] if parts else None
        sides = second is not None and last is not None and last < second <= chunk
        if last is None or sides or (ordered and chunk > last + 1):
            parts.append([chunk])
        else:
            parts[-1].append(chunk)
    return tuple(map(tuple, parts))


def gang_of_distinct(
    order: Order, given: InputChunks, workers: Workers, asked: str, columns: Columns, equal_nan: bool
) -> Runs:
    """The chunks of each member of a gang that finds distinct keys; empty if other tasks should find them."""
    if order.dtype.kind in NO_GANG_KINDS or len(given.sizes) < 2 or asked not in ("auto", "gang"):
        return ()
    sources = gang_bundles(given, workers)
    # Distinct keys arrive with what is wanted of them, and a number goes back for each. All NaN are on one member.
    each = COUNT_BYTES * (columns.counts + columns.firsts) + (COUNT_BYTES + INVERSE_BYTES) * columns.inverse
    most = 1 if equal_nan or not may_be_nan(order.dtype) else len(sources)
    share = replace(given, sizes=[most * size for size in given.sizes], companion_bytes=each)
    return sources if asked == "gang" or fits_gang(order, share, workers) else ()


def make_distinct_plan(
    sizes: Sequence[Size],
    itemsize: int,
    columns: Columns,
    joins: bool,
    device_order: Order | None = None,
    sources: Runs = (),
    division: Division | None = None,
    sides: bool = False,
) -> DistinctPlan:
    """Plan distinct keys, of which `columns` are wanted besides the values.

    `joins` if one GPU has memory for all; `sources` are the chunks of each member of a gang, if it finds them, and the
    division is that of other tasks.
    """
    keys = sum(sizes)
    where, why = choose(Lanes(1, keys, 1, len(sizes), 1, itemsize, math.inf, True), "distinct", joins=joins)
    # Of several sizes of which one is unknown, the largest is unknown too.
    largest = keys
    if not math.isnan(keys) and where == "exchange":
        parts = sources or (division.parts if division else zip(range(len(sizes))))
        largest = max(sum(sizes[chunk] for chunk in own) for own in parts)
    on_host = host_bytes("values" if columns == Columns() else "columns", itemsize)
    a_key = key_bytes(device_order, distinct_bytes(itemsize, columns), on_host)
    return DistinctPlan(where, why, len(sizes), keys, largest, itemsize, columns, a_key, sources, division, sides)
