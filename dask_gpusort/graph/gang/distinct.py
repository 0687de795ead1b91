r"""Distinct keys in a gang: results for each of them, or for each key of the input (see `functions.distinct`).

::

    chunks of member r
          |
    distinct keys of each part, sorted      a part: neighbouring chunks, or all chunks of one array
          |
    samples to all, and those of all back   splitters: keys that divide all distinct keys into equal parts
          |
    1. how many keys each member sends to each
    2. distinct keys, with their counts and first positions, to the member of their range
          |
    tie groups                              all equal keys are on one member: values, counts, first positions
          |
    3. how many groups and keys each member has, to all
    4. the number, or the rank, of each key, back to the member from which it came
          |
    results of the member's chunks          by the inverse of each part

A gang whose results are those of tie groups ends with the second exchange, one that counts all groups with the third.
Pieces of equal keys are merged in the order of their parts, so the first of them is the first one in the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from tlz import concat

from ...chunk import complete, library_of, ops_for
from ...chunk.distinct import Columns, find_distinct
from ...chunk.labels import on_host
from ...chunk.run import Run
from ...functions.distinct import Numbered, Tally, cuts_at, find_splitters, sent, spread
from ...order import Order
from ...plan import Runs, Size
from ...plan.sets import keeps_order, parts_of
from ...table import RankSummary
from .. import serialization
from ..collection import Output
from ..input_checks import checked_shape
from ..sort.finish import cut_part
from ..sort.scan import fingerprint
from .communicator import Shards
from .member import Start
from .tasks import gang_arrays

#: Samples of each part. A member's share differs by one in so many parts of all keys.
SAMPLES = 512


class Result(NamedTuple):
    """An output array of a gang of distinct keys."""

    make: Callable[[Numbered], Any]  # a function that can be pickled
    dtype: np.dtype[Any]
    #: Whether it has an element for each tie group, for each key of the input, or is one number, of any member.
    of: str = "groups"


@dataclass(frozen=True)
class DistinctJob:
    """Find the distinct keys of a member's chunks."""

    order: Order  # stable
    columns: Columns
    tally: Tally  # what is counted of tie groups
    shapes: tuple[tuple[Size, ...], ...]  # of all chunks, in C order
    parts: tuple[Runs, ...]  # of each member: the chunks of each part
    results: tuple[Result, ...]
    divisor: Callable[[Numbered], Any] | None = None  # makes what the results of keys are divided by

    def __call__(self, arrays: list[Any], rank: int) -> DistinctWork:
        serialization.register()
        ops, blocks = ops_for(arrays[0]), {}
        for number, block in zip(concat(self.parts[rank]), arrays, strict=True):
            blocks[number] = checked_shape(block, number, self.order.dtype, self.shapes[number])
        with ops.exclusive():
            parts = [self._find([blocks[number] for number in part]) for part in self.parts[rank]]
        return DistinctWork(self, rank, parts)

    def _find(self, blocks: Sequence[Any]) -> Part:
        ops = ops_for(blocks[0])
        flat = [block.reshape(-1) for block in blocks]
        keys = flat[0] if len(flat) == 1 else ops.concatenate(flat)
        found = find_distinct(keys, self.order, self.columns, self.tally.equal_nan)
        run = Run(ops.encode(found.values, self.order), tuple(getattr(found, name) for name in sent(self.columns)))
        summary = ops.summarize_run(run, self.order, samples=SAMPLES)
        return Part(run, summary, [block.shape for block in blocks], found.inverse, found.repeats)

    @property
    def of_keys(self) -> Result | None:
        """The only result that has an element for each key of the input."""
        return next((result for result in self.results if result.of == "keys"), None)


@dataclass(frozen=True)
class Part:
    """Hold what is known of the chunks of one part."""

    run: Run  # the sorted distinct keys, in transit, with the columns that travel
    summary: RankSummary
    shapes: list[tuple[int, ...]]  # of the chunks
    inverse: Any  # flat; None if it is not wanted
    repeats: Any

    @property
    def sizes(self) -> list[int]:
        """Keys in each chunk."""
        return list(map(math.prod, self.shapes))


class DistinctWork:
    """Work on the distinct keys of a member's chunks (see `member.Work`)."""

    arrays: tuple[Any, ...]
    joined = None

    def __init__(self, job: DistinctJob, rank: int, parts: list[Part]):
        self.job, self.rank, self.parts = job, rank, parts
        self.on_devices = library_of(parts[0].run.keys) == "cupy"
        self.ops = ops_for(parts[0].run.keys)

    @property
    def summaries(self) -> list[tuple[RankSummary, list[int]]]:
        """The samples of each part, and the sizes of its chunks."""
        return [(part.summary, part.sizes) for part in self.parts]

    def identity(self) -> bytes:
        """Fingerprints of the summaries, and the sizes of the chunks."""
        return repr([(fingerprint(part.summary), part.sizes) for part in self.parts]).encode()

    def exchanges(self, start: Start) -> Generator[Shards, list[Run], None]:
        """All exchanges of one attempt, as many as the results need."""
        job, ops, members = self.job, self.ops, range(len(self.job.parts))
        start.check_unchanged()
        found = [part for one in start.summaries for part in one]
        cuts = self._cut([summary for summary, _ in found])
        # Where no key occurs twice in a part, all counts are 1 and none travels.
        repeated = any(summary.size < sum(sizes) for summary, sizes in found)
        self.sent = [name for name in sent(job.columns) if repeated or name != "counts"]
        runs = [Run(part.run.keys, part.run.values[len(sent(job.columns)) - len(self.sent) :]) for part in self.parts]
        lengths = np.diff(cuts, axis=1)  # of each part for each member
        own = [Run(ops.from_host(lengths[:, member].copy())) for member in members]
        counted = yield Shards(own, [len(parts) for parts in job.parts])
        arriving = [on_host(run.keys).tolist() for run in counted]
        own_cuts = [zip(runs, cuts[:, member : member + 2], strict=True) for member in members]
        shards = [Run.concat([run[low:high] for run, (low, high) in one], copy=None) for one in own_cuts]
        self.received = yield Shards(shards, [sum(each) for each in arriving])
        self.arriving = arriving
        self.starts = _starts_of_parts(job.parts, start.summaries)
        if all(result.of == "groups" for result in job.results):
            return
        numbered, positions = self._merge()
        header = Run(ops.from_host(numbered.header))
        headers = yield Shards([header for _ in members], [len(header) for _ in members])
        self.numbered = numbered.placed(np.array([on_host(run.keys) for run in headers]), self.rank)
        if job.of_keys is not None:
            with ops.exclusive():
                back = Run(ops.scatter(job.of_keys.make(self.numbered), positions))
            ends = list(accumulate(map(sum, arriving), initial=0))
            own = [back[low:high] for low, high in pairwise(ends)]
            known = yield Shards(own, lengths.sum(axis=0).tolist())
            self.known = [run.keys for run in known]
            self.lengths = lengths

    def _cut(self, summaries: Sequence[RankSummary]) -> np.ndarray:
        """Where the keys of each member begin in each part: shape (parts, members + 1)."""
        members, order = len(self.job.parts), self.job.order
        splitters = find_splitters(summaries, members, order)
        return np.array([cuts_at(part.run, splitters, members, order) for part in self.parts])

    def _merge(self) -> tuple[Numbered, Any]:
        """The tie groups of the keys that have arrived, and their positions as they arrived."""
        job, pieces, start = self.job, {}, 0
        for shard, parts, lengths in zip(self.received, job.parts, self.arriving, strict=True):
            for part, (low, high) in zip(parts, pairwise(accumulate(lengths, initial=0)), strict=True):
                pieces[part[0]] = self._piece(shard[low:high], part[0], start + low)
            start += len(shard)
        # The merge may write to its pieces, unless it copies them to join those of several shards.
        alone = sum(len(shard) > 0 for shard in self.received) == 1
        filled = [pieces[first] for first in sorted(pieces) if len(pieces[first])] or [pieces[min(pieces)]]
        with self.ops.exclusive():
            merged = self.ops.merge([piece.copy() for piece in filled] if alone else filled, job.order)
            column = dict(zip(self.columns, merged.values, strict=True))
            positions = column.pop("positions", None)
            column["values"] = self.ops.decode(merged.keys, job.order)
            return job.tally.number(column), positions

    def _piece(self, piece: Run, first: int, start: int) -> Run:
        """A piece of a part that begins with some chunk, with the columns that are known where it arrives."""
        job, columns = self.job, dict(zip(self.sent, piece.values, strict=True))
        if "firsts" in columns:
            columns["firsts"] = columns["firsts"] + self.starts[first]
        if job.tally.second is not None:
            columns["second"] = np.full_like(piece.keys, first >= job.tally.second, dtype=bool, shape=len(piece))
        if job.of_keys is not None:
            columns["positions"] = np.arange(start, start + len(piece), dtype=np.int64, like=piece.keys)
        self.columns = list(columns)
        return Run(piece.keys, tuple(columns.values()))

    def finish(self) -> None:
        """Make the results."""
        job = self.job
        if job.of_keys is None:
            del self.parts
        if all(result.of == "groups" for result in job.results):
            self.numbered, _ = self._merge()
        self.received = []
        with self.ops.exclusive():
            made = [self._spread() if result.of == "keys" else result.make(self.numbered) for result in job.results]
        del self.numbered
        complete(made[0][0] if job.results[0].of == "keys" else made[0])
        self.arrays = tuple(made)

    def _spread(self) -> list[Any]:
        """The results of each chunk's keys, from those of the distinct keys of its part."""
        found: list[Any] = []
        stops = np.cumsum(self.lengths, axis=0)
        for part, lows, highs in zip(self.parts, stops - self.lengths, stops, strict=True):
            known = [one[low:high] for one, low, high in zip(self.known, lows, highs, strict=True)]
            keys = spread(self.ops.concatenate(known), part.inverse, part.repeats)
            if self.job.divisor is not None:
                keys = keys / self.job.divisor(self.numbered)
            bounds = pairwise(accumulate(part.sizes, initial=0))
            chunks = zip(bounds, part.shapes, strict=True)
            found += [cut_part(keys, slice(*ends)).reshape(shape) for ends, shape in chunks]
        return found


def _starts_of_parts(parts: Sequence[Runs], summaries: Sequence[Any]) -> dict[int, int]:
    """The position of the first key of each part, by its first chunk, if its chunks are neighbours."""
    numbers, sizes = concat(concat(parts)), concat(sizes for one in summaries for _, sizes in one)
    size_of = dict(zip(numbers, sizes, strict=True))
    return dict(enumerate(accumulate((size_of[number] for number in range(len(size_of))), initial=0)))


def distinct_in_gang(
    array: Any,
    order: Order,
    sources: Runs,
    columns: Columns,
    tally: Tally,
    results: Sequence[Result],
    divisor: Callable[[Numbered], Any] | None = None,
) -> tuple[Any, ...]:
    """Make the results of the distinct keys of an array by a gang, whose members have some chunks each."""
    ordered = keeps_order(order, columns)
    parts = tuple(parts_of(numbers, tally.second, ordered) for numbers in sources)
    shapes = tuple(product(*array.chunks))
    job = DistinctJob(order, columns, tally, shapes, parts, tuple(results), divisor)
    chunks = {"groups": ((math.nan,) * len(sources),), "keys": array.chunks, "all": ()}
    outputs = [
        Output(np.empty_like(array._meta, shape=(0,) * len(chunks[of]), dtype=dtype), chunks[of])
        for _, dtype, of in results
    ]
    return gang_arrays(job, [array], sources, tuple(result.of == "keys" for result in results), outputs, "unique")
