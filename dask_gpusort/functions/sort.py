"""Sorts as programs: runs are sorted, and cut at the ranks where groups begin; groups merge their pieces.

::

    part        SortRuns    a sorted run, which stays                notes: samples; decision: bounds of all cuts
                    |  out
    group       Merge       the pieces of all runs, merged; both ends are trimmed exactly

Bounds by samples of each run are enough where runs and groups are few: a group receives a few keys too many, and drops
them (see `table.bounds`). Where no task could hold samples enough, cuts are at keys that all runs have drawn::

    part        DrawKeys    a sorted run, which stays                notes: random keys; decision: the candidates
                    |
                Count       the run's keys before each candidate     notes: counts; decision: from their sum
                    |  out
    group       Merge

References
----------
Satish, Harris, Garland, IPDPS 2009: the sums of digit counts, or the ranks of regular samples, say where each run goes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..chunk import numpy_ops, ops_for
from ..chunk.run import Run, is_fixed_width
from ..chunk.steps import DrawnKeys, check_key_shapes, count_before, draw_keys, summarize_run
from ..order import Order
from ..table import Candidates, IntArray, RankSummary, bounds, bounds_at_ranks, exclusive_scan
from .program import Ends, Given, Made, Superstep

#: How many times its bytes a merge takes at most, as `Superstep.copies`: of int64 with positions, and 4 of int32 with
#: such. But 8 GiB on four workers of 1 GiB and four threads took `argsort` 31 s with 4, and 22 with 3; none spilled.
MERGE_COPIES = 3

# ---------------------------------------------------------------------------------------------------------- local work


@dataclass(frozen=True)
class LocalSort:
    """Say how a run is made from its chunks."""

    order: Order
    positions: bool  # whether the keys' positions in the run travel with them
    staged: bool = False  # whether NumPy chunks are sorted on a GPU
    #: Dtypes of several arrays of keys, most significant first, which are packed into one; else empty.
    packed: tuple[np.dtype[Any], ...] = ()
    directions: tuple[bool, ...] = ()  # whether each of them descends
    arrays: int = 1  # of the input: the keys and the companions, or several arrays of keys
    presorted: bool = False  # whether each chunk is sorted already
    companion_bytes: int = 0  # of each key's companions

    def run(self, blocks: Sequence[Any], names: Sequence[str]) -> Run:
        """A sorted run of chunks, those of one array after another; on a device it may still be in progress."""
        columns = self.columns(blocks)
        if self.presorted:
            named = zip(zip(*columns, strict=True), names, strict=False)
            runs = [check_presorted(*own, order=self.order, name=name) for own, name in named]
            merged: Run = runs[0] if len(runs) == 1 else ops_for(blocks[0]).merge(runs, self.order)
            return merged
        keys, *values = (own[0] if len(own) == 1 else ops_for(own[0]).concatenate(own) for own in columns)
        if self.packed:
            keys, values = ops_for(keys).pack([keys, *values], self.directions), []
        ops = ops_for(keys, staged=self.staged)
        run: Run = ops.local_sort(keys, values, self.order, positions=self.positions)
        return run

    @property
    def copies(self) -> float:
        """How many times the bytes of some keys it takes to sort them, or to merge them, as `Superstep.copies`."""
        # Bytes for each row beside the rows themselves, measured for 2^21 and 2^22 of them with `tracemalloc`: int64
        # alone 8, with positions 13, with a companion of 1 / 4 / 8 / 32 bytes 18 / 21 / 25 / 49; int32 with positions
        # 16, with such companions 16 / 17 / 21 / 45; S3 / S5 / S8 / S20 / S64 18 / 20 / 20 / 28 / 72; int32 and float64
        # in a record 30; several arrays, packed, 3.7 times their bytes.
        width = self.order.transit_dtype.itemsize
        row = max(width + self.companion_bytes, 1)
        if self.packed:
            return 4
        if not self.order.coded:
            # Keys are read where they are, or as columns of their own.
            made = 0 if self.order.dtype.kind in "SUV" and self.order.dtype.names is None else width
            return 1 + max(20 + made, 12 + row) / row
        alone = not self.order.has_ties and not self.positions and self.arrays == 1
        return 2.3 if alone and width > 2 else 2 + 10 / row  # narrow keys alone are counted

    def columns(self, blocks: Sequence[Any]) -> list[Sequence[Any]]:
        """The chunks of each array, which must fit each other."""
        chunks = len(blocks) // self.arrays
        columns = [blocks[first : first + chunks] for first in range(0, len(blocks), chunks)]
        for own in zip(*columns, strict=True):
            if self.packed:
                check_key_shapes(own)
            else:
                ops_for(own[0]).check_lengths(own[0], own[1:])
        return columns


def check_presorted(block: Any, *values: Any, order: Order, name: str) -> Run:
    """Make a run of a presorted chunk and its companions, or refuse one that is not sorted."""
    ops = ops_for(block)
    keys = ops.encode(block, order)
    descent = ops.first_descent(keys, order)
    if descent is not None:
        raise ValueError(
            f"{name} is not sorted: element {descent} comes before element {descent - 1}; "
            "sort the array first, or give the order in which it is sorted"
        )
    return Run(keys, values)


@dataclass(frozen=True)
class Groups:
    """Say which output chunks each group has."""

    chunks: tuple[float, ...]  # keys in each output chunk, nan where unknown
    #: (first output chunk, last + 1, part, parts): some output chunks, or one of several equal parts of one.
    contents: tuple[tuple[int, int, int, int], ...]

    def ranks(self, sizes: IntArray) -> IntArray:
        """Global rank of each boundary between groups, shape (groups - 1,), from the true sizes of the runs."""
        # Where a size is unknown, each chunk is a run, and each output chunk has the size of one.
        chunks = sizes if math.isnan(sum(self.chunks)) else np.array(self.chunks, np.int64)
        starts = exclusive_scan(chunks)
        inner = self.contents[1:]
        parts = ((starts[first], chunks[first] * part // count if part else 0) for first, _, part, count in inner)
        return np.array([start + before for start, before in parts], np.int64)


# ---------------------------------------------------------------------------------------------------------- supersteps


class Cuts(NamedTuple):
    """Say how the runs are cut."""

    ends: Ends
    ranks: IntArray  # as in `table.Bounds`
    starts: IntArray  # as in `table.Bounds`


@dataclass(frozen=True)
class SortRuns(Superstep):
    """Sort the chunks of a part, or look whether they are sorted, and sample them."""

    noting = "sort-count"
    listing = "sort-scan"
    shards = "sort-scatter"
    moves = "out"
    keeps = True

    local: LocalSort
    samples: int
    radix_bits: int
    groups: Groups | None  # None if the step is lean
    stage: str = "sort-local"

    @property
    def lean(self) -> SortRuns:
        return replace(self, groups=None)

    @property
    def copies(self) -> float:
        return self.local.copies

    def work(self, given: Given) -> Made:
        run = self.local.run(given.blocks, given.names)
        summary = summarize_run(run, self.local.order, samples=self.samples, radix_bits=self.radix_bits)
        return Made(summary, run)

    def decide(self, notes: Sequence[RankSummary], decision: Any) -> Cuts:
        assert self.groups is not None
        ranks = self.groups.ranks(np.array([summary.size for summary in notes], np.int64))
        found = bounds_at_ranks(notes, ranks, numpy_ops.key_order(self.local.order), self.radix_bits)
        return Cuts(Ends(found.first[:, :-1], found.last[:, 1:]), found.ranks, found.starts)

    def mark(self, note: RankSummary) -> int:
        return note.checksum


@dataclass(frozen=True)
class DrawKeys(Superstep):
    """The same, and draw random keys."""

    listing = "sort-scan"
    keeps = True

    local: LocalSort
    candidates: int  # of all runs
    keys: float  # of all runs, nan if unknown
    runs: int
    stage: str = "sort-local"

    @property
    def copies(self) -> float:
        return self.local.copies

    def work(self, given: Given) -> Made:
        run = self.local.run(given.blocks, given.names)
        share = 1 / self.runs if math.isnan(self.keys) else len(run) / max(self.keys, 1)
        samples = math.ceil(self.candidates * share)
        return Made(draw_keys(run, self.local.order, samples=samples, seed=given.number), run)

    def decide(self, notes: Sequence[DrawnKeys], decision: Any) -> Candidates:
        return bounds.choose_candidates(notes, numpy_ops.key_order(self.local.order), self.candidates)

    def mark(self, note: DrawnKeys) -> int:
        size, keys, positions = note
        return zlib.crc32(
            positions.tobytes() + (keys.tobytes() if is_fixed_width(keys.dtype) else b""), size & 0xFFFFFFFF
        )


class Chosen(NamedTuple):
    """Say between which candidates each boundary is."""

    low: IntArray  # shape (groups - 1,): numbers of candidates, as in `bounds.candidates_at_ranks`
    high: IntArray
    ranks: IntArray  # as in `table.Bounds`
    starts: IntArray  # as in `table.Bounds`


@dataclass(frozen=True)
class Count(Superstep):
    """Count the keys of a run before each candidate."""

    stage = "sort-count"
    combining = "sort-sum"
    listing = "sort-list"
    moves = "out"
    sums = True

    order: Order
    groups: Groups | None  # None if the step is lean
    fan_in: int

    @property
    def lean(self) -> Count:
        return replace(self, groups=None)

    def work(self, given: Given) -> Made:
        assert given.run is not None
        return Made(count_before(given.run(), given.number, given.decision, self.order))

    def combine(self, notes: Sequence[IntArray]) -> IntArray:
        return np.sum(notes, axis=0)

    def decide(self, notes: Sequence[IntArray], decision: Candidates) -> Chosen:
        assert self.groups is not None
        ranks = self.groups.ranks(decision.sizes)
        low, high = bounds.candidates_at_ranks(self.combine(notes), ranks)
        return Chosen(low, high, bounds.with_first_and_last(ranks, decision.starts), decision.starts)

    def ends(self, decision: Chosen, notes: Sequence[IntArray], first: int) -> Ends:
        sizes = np.diff(decision.starts[first : first + len(notes) + 1])
        low, high = bounds.cut_between(np.array(notes), sizes, decision.low, decision.high)
        return Ends(low[:, :-1], high[:, 1:])


@dataclass(frozen=True)
class Merge(Superstep):
    """Merge the pieces of a group."""

    stage = "sort-merge"
    side = "group"

    finish: Finish
    cuts: bool  # whether output chunks have sizes that only the decision tells
    copies: float = MERGE_COPIES

    def work(self, given: Given) -> Made:
        ranks, starts = given.decision.ranks, given.decision.starts
        begin, end = (int(ranks[given.number + one]) - given.before for one in (0, 1))
        pieces = [(int(starts[part]), run) for part, run in given.pieces]
        # The finish may write to a piece, which another group may have, too; several are copied anyway.
        pieces = pieces if len(pieces) > 1 else [(start, run.copy()) for start, run in pieces]
        return Made(arrays=self.finish(pieces, slice(begin, end)), memo=starts if self.cuts else None)


@dataclass(frozen=True)
class Finish:
    """Make a group's part of the outputs from its pieces."""

    order: Order
    with_keys: bool  # whether the sorted keys are wanted
    with_positions: bool  # whether the last value is a position in its run, to be made global
    staged: bool = False  # whether pieces of the host are merged on a GPU

    def __call__(self, pieces: Sequence[tuple[int, Run]], kept: slice) -> tuple[Any, ...]:
        """Merge the pieces of a group, in the order of runs, into keys if wanted, then values; positions are global.

        Each piece has the start of its run in the input. The pieces may be overwritten; the result is their range
        `kept`, because the ends belong to the neighbours.
        """
        if self.staged:
            return self._on_device(pieces, kept)
        runs = with_global_positions(pieces) if self.with_positions else [run for _, run in pieces]
        ops = ops_for(runs[0].keys)
        merged = ops.merge(runs, self.order, self.with_keys)
        if kept != slice(0, len(merged)):
            _check_trim(kept, len(merged))
            merged = merged[kept]
        return ((ops.decode(merged.keys, self.order),) if self.with_keys else ()) + merged.values

    def _on_device(self, pieces: Sequence[tuple[int, Run]], kept: slice) -> tuple[Any, ...]:
        starts, runs = zip(*pieces, strict=True)

        def merge(moved: Sequence[Run], order: Order) -> tuple[Any, ...]:
            return replace(self, order=order, staged=False)(list(zip(starts, moved, strict=True)), kept)

        outputs = {"with_keys": self.with_keys, "with_positions": self.with_positions}
        found: tuple[Any, ...] = ops_for(runs[0].keys, staged=True).run_on_device(runs, self.order, merge, **outputs)
        return found


def with_global_positions(pieces: Sequence[tuple[int, Run]]) -> list[Run]:
    """Pieces whose last values, positions in their runs, are made global."""
    starts, runs = zip(*pieces, strict=True)
    ends = list(accumulate(map(len, runs), initial=0))
    positions = ops_for(runs[0].keys).add_starts([run.values[-1] for run in runs], starts)
    parts = (positions[slice(*end)] for end in pairwise(ends))
    return [Run(run.keys, (*run.values[:-1], part)) for run, part in zip(runs, parts, strict=True)]


def _check_trim(kept: slice, received: int) -> None:
    """Refuse cuts that no order of the keys could have."""
    if not 0 <= kept.start <= kept.stop <= received:
        raise ValueError(
            "the keys' comparison contradicts itself: no cuts between chunks fit it; "
            "less= must be a strict weak order, and so must the comparison of Python objects"
        )
