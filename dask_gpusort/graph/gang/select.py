"""Order statistics in a gang: samples, brackets, and the keys inside them (see `graph.select.samples` for other tasks).

::

    chunks of member r
          |
    a sample of each lane                   its counts to all, with the summaries
          |
    1. samples to all                       brackets: all members find the same
          |
    keys inside, and counts of the others   drawn from again if they are too many: then counts and samples to all
          |
    2. the counts to all
    3. the keys inside the last brackets to member 0
          |
    the statistic, of member 0

The members have the chunks in memory, so that nothing is read twice. No result of an attempt is used in another one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
from tlz import concat, partition_all

from ...chunk import complete, library_of, ops_for
from ...chunk.checks import changed_source
from ...chunk.labels import on_host
from ...chunk.run import Run
from ...plan import Runs, Size
from ...plan.select import SelectPlan
from ...table.quantiles import Statistic
from .. import serialization
from ..collection import Output
from ..select.samples import Drawn, Extracted, draw, draw_chunk, extract, finish, scan, scan_again
from .communicator import Shards
from .member import Start
from .tasks import gang_arrays, one_each

#: Counts of what a chunk gives of a lane: keys sent, all keys, NaN and strata; then four for each bracket.
COUNTS = ENDS = 4


@dataclass(frozen=True)
class SelectJob:
    """Draw samples of a member's chunks, each of which has keys of all lanes."""

    statistic: Statistic
    axes: tuple[int, ...]  # the reduced dimensions
    keys_per_stratum: tuple[float, ...]  # of each round
    dtype: np.dtype[Any]  # of the source
    shapes: tuple[tuple[Size, ...], ...]  # of all chunks, in C order
    sources: Runs  # the chunks of each member
    shape: tuple[int, ...]  # of the result, without the dimensions of `q`
    sorts: int = 0  # passes that sort each lane of a chunk

    def __call__(self, arrays: list[Any], rank: int) -> SelectWork:
        serialization.register()
        about = self.axes, self.keys_per_stratum[0], self.sorts, self.dtype
        chunks = zip(arrays, self.sources[rank], strict=True)
        drawn = [draw_chunk(chunk, number, *about, self.shapes[number]) for chunk, number in chunks]
        return SelectWork(self, rank, arrays, drawn)


class SelectWork:
    """Work on the keys of a member's chunks (see `member.Work`)."""

    arrays: tuple[list[Any], ...] = ()  # none, but for member 0

    def __init__(self, job: SelectJob, rank: int, chunks: list[Any], drawn: list[list[Drawn]]):
        self.job, self.rank, self.chunks, self.drawn = job, rank, chunks, drawn
        self.on_devices = library_of(chunks[0]) == "cupy"
        self.ops = ops_for(chunks[0])

    @property
    def summaries(self) -> np.ndarray:
        """The counts of the samples."""
        return _counts_of(self.drawn)

    def identity(self) -> bytes:
        """The summaries."""
        return self.summaries.tobytes()

    def exchanges(self, start: Start) -> Generator[Shards, list[Run], None]:
        """All exchanges of one attempt: two for each round, and one."""
        job = self.job
        for rank in start.changed:
            raise changed_source(f"member {rank} has other chunks than when samples of them were taken")
        drawn = yield from self._share(self.drawn, start.summaries, [0] * len(self.drawn[0]))
        searches = scan(drawn, job.keys_per_stratum[0], job.statistic, job.dtype)
        inside = [extract(chunk, searches, job.axes, job.sorts) for chunk in self.chunks]
        for keys_per_stratum in job.keys_per_stratum[1:]:
            parts = zip(inside, job.sources[self.rank], strict=True)
            own = [draw(part, number, job.axes, keys_per_stratum, bool(job.sorts)) for part, number in parts]
            brackets = [len(search.low) for search in searches]
            counts = yield from self._counts_of_all(own, brackets)
            drawn = yield from self._share(own, counts, brackets)
            searches = scan_again(drawn, keys_per_stratum, searches)
            inside = [extract(part, searches, job.axes, job.sorts) for part in inside]
        own = [[Drawn(len(keys), 0, 0, keys, ends) for ends, keys in part] for part in inside]
        brackets = [len(search.low) for search in searches]
        counts = yield from self._counts_of_all(own, brackets)
        self.inside = yield from self._share(own, counts, brackets, everywhere=False)
        self.searches = searches

    def _counts_of_all(
        self, own: list[list[Drawn]], brackets: Sequence[int]
    ) -> Generator[Shards, list[Run], list[np.ndarray]]:
        """Exchange the counts of what the chunks of each member give."""
        counts, width = Run(self.ops.from_host(_counts_of(own))), sum(COUNTS + ENDS * count for count in brackets)
        found = yield Shards([counts for _ in self.job.sources], [width * len(chunks) for chunks in self.job.sources])
        return [on_host(run.keys) for run in found]

    def _share(
        self, own: list[list[Drawn]], counts: Sequence[np.ndarray], brackets: Sequence[int], everywhere: bool = True
    ) -> Generator[Shards, list[Run], list[list[Drawn]]]:
        """Exchange the keys that the chunks of each member give, of which all have the counts, or give them to one."""
        keys = Run(self.ops.concatenate([one.keys for one in concat(own)]))
        widths = [COUNTS + ENDS * count for count in brackets]
        rows = [
            np.split(one, np.cumsum(np.tile(widths, len(chunks)))[:-1])
            for one, chunks in zip(counts, self.job.sources, strict=True)
        ]
        takes = everywhere or self.rank == 0
        received = yield Shards(
            [keys if everywhere or rank == 0 else keys[:0] for rank in range(len(rows))],
            [int(takes) * sum(int(row[0]) for row in one) for one in rows],
        )
        found = []
        for run, one in zip(received, rows, strict=True):
            bounds = pairwise(accumulate((int(row[0]) for row in one), initial=0))
            for row, (low, high) in zip(one, bounds, strict=True):
                size, nans, strata = row[1:COUNTS].tolist()
                found.append(Drawn(size, nans, strata, run.keys[low:high], row[COUNTS:].reshape(ENDS, -1)))
        return list(map(list, partition_all(len(widths), found)))

    def finish(self) -> None:
        """Make the statistic, if this is member 0."""
        if self.rank == 0:
            job = self.job
            inside = [[Extracted(np.asarray(one.ends), one.keys) for one in part] for part in self.inside]
            self.arrays = ([complete(finish(inside, self.searches, job.statistic, job.shape))],)


def _counts_of(parts: Sequence[Sequence[Drawn]]) -> np.ndarray:
    """What the others must know of what the chunks of a member give, lane by lane, end to end."""
    return np.concatenate(
        [
            np.array([len(one.keys), one.size, one.nans, one.strata, *(() if one.ends is None else one.ends.flat)])
            for one in concat(parts)
        ]
    )


def select_in_gang(array: Any, statistic: Statistic, axes: tuple[int, ...], plan: SelectPlan, output: Output) -> Any:
    """Find an order statistic by a gang, whose members have some chunks each, into the only chunk of the output."""
    shape = tuple(int(size) for (size,) in output.chunks[len(statistic.shape) :])
    shapes = tuple(product(*array.chunks))
    job = SelectJob(statistic, axes, plan.keys_per_stratum, array.dtype, shapes, plan.sources, shape, plan.sorts)
    made = one_each(output, len(plan.sources))
    return gang_arrays(job, [array], plan.sources, [made], [output], "quantile")[0]
