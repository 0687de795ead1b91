r"""Reads from all elements of an array in a gang: of elements at positions, or of ranks among sorted keys.

::

    chunks of member r, of the array that is gathered    and of the one that is read for: indices, or needles
          |                                                    |
    joined, end to end                                         |
          |                                                    |
    how many elements each chunk has, to all                   |
          |                                                    |
    the elements, the same to all members                      |
          |                                                    |
    all chunks, joined  ------------------------------->  results for each chunk

A member may have chunks of one array alone. Without any to read for, it joins nothing.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np

from ...chunk import library_of, ops_for
from ...chunk.labels import on_host
from ...chunk.run import Run
from ...plan import Runs
from .. import serialization
from ..collection import Output
from .communicator import Shards
from .member import Start
from .tasks import chunks_of_last, gang_arrays

#: Elements of a member's checksum: a source that is computed again, and changes, changes more or less everywhere.
SAMPLES = 64
#: Kinds of dtypes whose elements are in the array itself.
BYTES_KINDS = "biufcmMSU"


class Reading(Protocol):
    """Say what is read, as a value that can be pickled; chunks of each array are numbered in C order."""

    def check(self, chunk: Any, number: int) -> None:
        """Refuse a chunk of the array that is gathered if it has another dtype than its array."""

    def join(self, chunks: list[Any]) -> Any:
        """Join all chunks of the array that is gathered, if they have the sizes that it says."""

    def read(self, whole: Any, chunk: Any, number: int) -> Any:
        """Make the complete result for a chunk of the other array, which is checked, from the joined ones."""


@dataclass(frozen=True)
class GatherJob:
    """Join the chunks of a member that are gathered."""

    reading: Reading
    dtype: np.dtype[Any]  # of the array that is gathered
    gathered: int  # its chunks, which have the first numbers
    sources: Runs  # the chunks of each member

    def __call__(self, arrays: list[Any], rank: int) -> GatherWork:
        serialization.register()
        chunks, ops = dict(zip(self.sources[rank], arrays, strict=True)), ops_for(arrays[0])
        own = {number: chunks.pop(number) for number in self.sources[rank] if number < self.gathered}
        for number, chunk in own.items():
            self.reading.check(chunk, number)
        flat = [chunk.reshape(-1) for chunk in own.values()] or [ops.empty(self.dtype, (0,))]
        run = Run(flat[0] if len(flat) == 1 else ops.concatenate(flat))
        return GatherWork(self, run, [chunk.shape for chunk in own.values()], chunks)


class GatherWork:
    """Work on a member's part of what is gathered (see `member.Work`)."""

    arrays: tuple[list[Any], ...]

    def __init__(self, job: GatherJob, run: Run, shapes: list[tuple[int, ...]], others: dict[int, Any]):
        self.job, self.run, self.summaries = job, run, shapes
        self.others = others  # the chunks of the other array
        self.on_devices = library_of(run.keys) == "cupy"

    def identity(self) -> bytes:
        """The shapes of the chunks, and some elements whose bytes are the same in any process."""
        keys, known = self.run.keys, repr(self.summaries).encode()
        if keys.dtype.kind in BYTES_KINDS:
            known += on_host(keys[:: max(len(keys) // SAMPLES, 1)]).tobytes()
        return known

    def exchanges(self, start: Start) -> Generator[Shards, list[Run], None]:
        """The only exchange of one attempt."""
        start.check_unchanged()
        self.shapes = start.summaries
        lengths = [sum(map(math.prod, shapes)) for shapes in self.shapes]
        self.received = yield Shards([self.run] * len(lengths), lengths)

    def finish(self) -> None:
        """Read for the chunks of the other array."""
        reading, read = self.job.reading, []
        if self.others:
            whole = reading.join(self._take_chunks())
            read = [reading.read(whole, chunk, number - self.job.gathered) for number, chunk in self.others.items()]
        self.arrays = (read,)

    def _take_chunks(self) -> list[Any]:
        """All gathered chunks in C order, which are kept here no longer."""
        chunks: dict[int, Any] = {}
        for run, numbers, shapes in zip(self.received, self.job.sources, self.shapes, strict=True):
            bounds = pairwise(accumulate(map(math.prod, shapes), initial=0))
            for number, (low, high), shape in zip(numbers, bounds, shapes, strict=False):
                chunks[number] = run.keys[low:high].reshape(shape)
        del self.run, self.received
        return [chunks[number] for number in sorted(chunks)]


def read_gathered(reading: Reading, array: Any, other: Any, sources: Runs, output: Output, prefix: str) -> Any:
    """Make an array of what is read from all of an array for each chunk of another one.

    `sources` are the chunks of each member, by their numbers in the first array, and then in the other one.
    """
    job = GatherJob(reading, array.dtype, math.prod(array.numblocks), sources)
    made = chunks_of_last([array, other], sources)
    return gang_arrays(job, [array, other], sources, [made], [output], prefix)[0]
