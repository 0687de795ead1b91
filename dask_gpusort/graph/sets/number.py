"""Numbers and totals of tie groups in sorted chunks. Tasks ``unique-edges``, ``unique-scan`` and ``unique-number``.

A tie group may span any number of sorted chunks. Each chunk gives a summary of its first and its last group, one scan
adds up what belongs together, and each chunk then knows its groups as if it had all their keys::

    sorted chunks       1 1 2 | 2 2 | 2 3
    begins here         1   2 |     |   3         a group is a result of the chunk in which it begins
    count               2   4 | 4   | 4 1         but all chunks know its totals
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any

import numpy as np

from ...chunk import complete, ops_for
from ...chunk.tie_groups import TieGroups, are_nan
from .._dask import List, TaskRef
from ..input_checks import changed_source
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks


@dataclass(frozen=True)
class Totals:
    """Hold what is known of a tie group, or of a part of it."""

    counts: tuple[int, ...] = ()  # keys of each side
    firsts: tuple[int, ...] = ()  # the first position on each side, -1 if there is none

    def __add__(self, later: Totals) -> Totals:
        """The totals of this part and a later one."""
        return Totals(
            tuple(a + b for a, b in zip(self.counts, later.counts, strict=True)),
            tuple(b if a < 0 else a for a, b in zip(self.firsts, later.firsts, strict=True)),
        )


@dataclass(frozen=True)
class Edge:
    """Describe the ends of one sorted chunk."""

    groups: int  # its tie groups
    first: Any  # its first key, shape (1,)
    last: Any  # its last key, shape (1,)
    head: Totals  # of its keys in the first group
    tail: Totals  # of its keys in the last group
    keys: int  # of the input that it stands for


@dataclass(frozen=True)
class Offset:
    """Say where one chunk's groups are in the whole."""

    continued: bool  # whether the first group begins in an earlier chunk
    number: int  # of the first group
    before: int  # keys of the input in earlier groups
    passed: int  # keys of the input in earlier chunks
    head: Totals  # of the whole first group
    tail: Totals  # of the whole last group


@dataclass(frozen=True)
class Scan:
    """Hold what all chunks know of each other."""

    offsets: tuple[Offset | None, ...]  # of each chunk; None if it is empty
    keys: int  # of the input
    nans: int  # keys of the last group, if these are NaN
    groups: int  # of all chunks


@dataclass(frozen=True)
class Numbered:
    """Hold the tie groups of one sorted chunk, with their totals in the whole."""

    groups: TieGroups
    offset: Offset
    scan: Scan
    chunks: Any  # shape (n,): number of the chunk from which each key of the chunk comes, if it is known
    amounts: Any  # shape (n,): keys of the input that each key of the chunk stands for
    counts: list[Any]  # shape (groups,) each: the totals of each side
    firsts: list[Any]  # shape (groups,) each

    @property
    def numbers(self) -> Any:
        """Number of each group in the whole."""
        first = self.offset.number
        return np.arange(first, first + self.groups.count, like=self.groups.bounds)

    @property
    def before(self) -> Any:
        """Keys of the input in earlier groups, for each group."""
        ends: Any = np.cumsum(self.counts[0])
        return ends - self.counts[0] + self.offset.before

    @property
    def nans(self) -> Any:
        """Whether each key of the chunk is NaN."""
        return are_nan(self.groups.keys)

    @property
    def passed(self) -> Any:
        """Keys of the input that precede those that each key of the chunk stands for."""
        return np.cumsum(self.amounts, dtype=np.int64) - self.amounts + self.offset.passed


@dataclass(frozen=True)
class Numbering(ArrayRecipe):
    """Hold all that the tasks of this stage are made from."""

    names: tuple[str, ...]  # of the sorted keys and of the companions, in the same chunks of unknown sizes
    columns: tuple[str, ...]  # what they are: "values", then any of "chunks", "counts" and "firsts"
    num_chunks: int
    equal_nan: bool  # whether all NaN are one group
    #: Functions that make the chunk of an output array, and that can be pickled.
    outputs: tuple[Callable[[Numbered], Any], ...]
    counted: bool = False  # whether counts are wanted; without a column of them each key counts once
    #: The first chunk of the second side; None if there is one side. Sides need the column "chunks".
    second: int | None = None

    def stages(self, held: Any = NOTHING) -> Tasks:
        """Tasks from the sorted chunks to the results of each."""
        tasks, blocks = Tasks(self.token), self.blocks
        edges = [tasks.add("unique-edges", chunk, edge_of, block, self) for chunk, block in enumerate(blocks)]
        scan = tasks.add("unique-scan", 0, scan_edges, List(*edges), self.equal_nan)
        for chunk, block in enumerate(blocks):
            tasks.add("unique-number", chunk, number_chunk, block, scan, chunk, self)
        return tasks

    @property
    def blocks(self) -> list[List]:
        """The arrays of each sorted chunk."""
        return [List(*(TaskRef((name, chunk)) for name in self.names)) for chunk in range(self.num_chunks)]

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the results to the chunks of one output array."""
        tasks = Tasks(self.token)
        for chunk in range(self.num_chunks):
            tasks.put((name, chunk), getitem, tasks.ref("unique-number", chunk), which)
        return tasks

    def sides(self, column: dict[str, Any]) -> list[Any]:
        """For each side, whether each key belongs to it."""
        if self.second is None:
            return [np.ones_like(column["values"], dtype=bool)]
        return [column["chunks"] < self.second, column["chunks"] >= self.second]

    def amounts(self, column: dict[str, Any]) -> Any:
        """Keys of the input that each key stands for."""
        return column["counts"] if "counts" in column else np.ones_like(column["values"], dtype=np.int64)


def edge_of(arrays: list[Any], numbering: Numbering) -> Edge | None:
    """Task: the ends of one sorted chunk; None if it is empty."""
    column = _columns(arrays, numbering)
    keys = column["values"]
    if not len(keys):
        return None
    groups = ops_for(keys).tie_groups(keys, numbering.equal_nan)
    head, tail = (_totals(column, part, numbering) for part in groups.outer)
    total = int(column["counts"].sum()) if "counts" in column else len(keys)
    return Edge(groups.count, keys[:1].copy(), keys[-1:].copy(), head, tail, total)


def _columns(arrays: list[Any], numbering: Numbering) -> dict[str, Any]:
    """Name the arrays of a sorted chunk, whose sizes differ if some were computed again from a changed input."""
    sizes = {len(array) for array in arrays}
    if len(sizes) > 1:
        raise changed_source(f"arrays of a sorted chunk have {sorted(sizes)} elements")
    return dict(zip(numbering.columns, arrays, strict=True))


def _totals(column: dict[str, Any], part: slice, numbering: Numbering) -> Totals:
    """The totals of one group, a part of the sorted keys."""
    own = {name: array[part] for name, array in column.items()}
    sides = numbering.sides(own)
    counts = [int(numbering.amounts(own)[side].sum()) for side in sides] if numbering.counted else []
    firsts = [[*own["firsts"][side][:1].tolist(), -1][0] for side in sides] if "firsts" in own else []
    return Totals(tuple(counts), tuple(firsts))


def scan_edges(edges: list[Edge | None], equal_nan: bool) -> Scan:
    """Task: the offset of each chunk's groups, in one pass over the ends of all chunks."""
    offsets: list[Offset | None] = []
    totals: list[Totals] = []  # of each group that is the first or the last of a chunk
    ends: list[tuple[int, int]] = []  # of each chunk, its first and its last group there
    groups = keys = before = number = 0
    previous: Edge | None = None
    for edge in edges:
        offsets.append(None)
        ends.append((-1, -1))
        if edge is None:
            continue
        continued = previous is not None and _are_equal(previous.last, edge.first, equal_nan)
        if continued:
            totals[-1] += edge.head
        else:
            totals.append(edge.head)
            number, before = groups, keys
        offsets[-1] = Offset(continued, number, before, keys, edge.head, edge.tail)
        head = len(totals) - 1
        groups += edge.groups - continued
        if edge.groups > 1:
            totals.append(edge.tail)
            number = groups - 1
            before = keys + edge.keys - sum(edge.tail.counts)
        ends[-1] = (head, len(totals) - 1)
        keys += edge.keys
        previous = edge
    found = (
        offset and replace(offset, head=totals[head], tail=totals[tail])
        for offset, (head, tail) in zip(offsets, ends, strict=True)
    )
    nans = bool(previous is not None and are_nan(previous.last)[0])
    return Scan(tuple(found), keys, sum(totals[-1].counts) if nans else 0, groups)


def _are_equal(last: Any, first: Any, equal_nan: bool) -> bool:
    """Whether the last key of a chunk and the first one of a later chunk, each of shape (1,), are one tie group."""
    groups: TieGroups = ops_for(first).tie_groups(np.concatenate([last, first]), equal_nan)
    return groups.count == 1


def number_chunk(arrays: list[Any], scan: Scan, chunk: int, numbering: Numbering) -> tuple[Any, ...]:
    """Task: the results of one sorted chunk, one array for each output."""
    column = _columns(arrays, numbering)
    numbered = _number(column, scan, chunk, numbering)
    found = tuple(output(numbered) for output in numbering.outputs)
    complete(found[0])
    return found


def _number(column: dict[str, Any], scan: Scan, chunk: int, numbering: Numbering) -> Numbered:
    found = number_groups(column, numbering)
    offset = scan.offsets[chunk] or found.offset
    for arrays, whole in ((found.counts, "counts"), (found.firsts, "firsts")):
        heads, tails = getattr(offset.head, whole), getattr(offset.tail, whole)
        for array, head, tail in zip(arrays, heads, tails, strict=len(found.groups.keys) > 0):
            array[0], array[-1] = head, tail
    return replace(found, offset=offset, scan=scan)


def number_groups(column: dict[str, Any], numbering: Numbering) -> Numbered:
    """The tie groups of sorted distinct keys, as if there were no others."""
    groups = ops_for(column["values"]).tie_groups(column["values"], numbering.equal_nan)
    sides, amounts = numbering.sides(column), numbering.amounts(column)
    alone = numbering.second is None
    counts = [groups.sums(amounts if alone else amounts * side) for side in sides] if numbering.counted else []
    firsts = [groups.first_where(side, column["firsts"]) for side in sides] if "firsts" in column else []
    offset, scan = Offset(False, 0, 0, 0, Totals(), Totals()), Scan((), 0, 0, 0)
    return Numbered(groups, offset, scan, column.get("chunks"), amounts, counts, firsts)
