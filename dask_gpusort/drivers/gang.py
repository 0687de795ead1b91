r"""Programs in a gang: each member has some parts, and one group (see `functions.program`).

::

    chunks of member r
          |
    the first superstep of each of its parts       notes to all, through the coordinator
          |
    the next superstep, of each part or of the group
          |
    an exchange                                    notes, arrays of int64 of known length, to all; perhaps another
          |                                            one of their rows, whose number the notes say
          |
    an exchange                                    rows, to the members of their receivers
          |
         ...
          |
    the last superstep

All members decide from the same notes, so each knows how many rows arrive from whom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from tlz import concat

from ..chunk import complete, library_of, ops_for
from ..chunk.checks import Blocks, DeclaredChunk
from ..chunk.grid import cut_part
from ..chunk.labels import on_host
from ..chunk.run import Run
from ..functions.program import Ends, Given, Made, Shared, Superstep
from ..graph import serialization
from ..graph.collection import Output
from ..graph.gang.communicator import Shards
from ..graph.gang.member import Start
from ..graph.gang.tasks import chunks_of_last, gang_arrays, one_each
from ..plan import Runs, Size
from .recipe import Contents, Input


@dataclass(frozen=True)
class ProgramJob:
    """Run a program on the chunks of a member."""

    steps: tuple[Superstep, ...]
    results: tuple[tuple[int, int], ...]  # of each output: the superstep that makes it, and which of its arrays
    declared: tuple[DeclaredChunk, ...]  # all chunks of the inputs, by their numbers, one input after another
    sources: Runs  # the numbers of each member's chunks, ascending
    parts: tuple[Runs, ...]  # of each member: the numbers of the chunks of each part
    #: Of each group, if it is divided: the numbers and the sizes of output chunks, nan where unknown.
    contents: tuple[tuple[range, tuple[Size, ...]], ...] = ()

    def __call__(self, arrays: list[Any], rank: int) -> ProgramWork:
        serialization.register()
        chunks = dict(zip(self.sources[rank], arrays, strict=True))
        made, kept = [], []
        with ops_for(arrays[0]).exclusive():
            for number, part in zip(self.numbers[rank], self.parts[rank], strict=True):
                blocks = Blocks([chunks.pop(chunk) for chunk in part], [self.declared[chunk] for chunk in part])
                checked = blocks.checked()
                made.append(self.steps[0].work(Given(number, None, checked, names=blocks.names)))
                kept.append(checked if any(step.rereads for step in self.steps) else [])
        return ProgramWork(self, rank, made, kept, arrays[0])

    @property
    def numbers(self) -> list[list[int]]:
        """The numbers of each member's parts, in the order of the first chunks of all."""
        first = sorted(part[0] for own in self.parts for part in own)
        number_of = {chunk: number for number, chunk in enumerate(first)}
        return [[number_of[part[0]] for part in own] for own in self.parts]


class ProgramWork:
    """Work on the parts and the group of a member (see `member.Work`)."""

    arrays: tuple[list[Any], ...]

    def __init__(self, job: ProgramJob, rank: int, made: list[Made], blocks: list[list[Any]], like: Any):
        self.job, self.rank, self.made, self.blocks = job, rank, made, blocks
        self.ops, self.on_devices = ops_for(like), library_of(like) == "cupy"
        self.members = range(len(job.parts))
        self.numbers = {"part": job.numbers, "group": [[member] for member in self.members]}

    @property
    def summaries(self) -> list[Any]:
        """The notes of the member's parts, or the counts of what is shared."""
        return [_counts_of(one.note) for one in self.made]

    def identity(self) -> bytes:
        """Checksums of the notes."""
        return repr([self.job.steps[0].mark(one.note) for one in self.made]).encode()

    def exchanges(self, start: Start) -> Generator[Shards, list[Run], None]:
        """All exchanges of one attempt."""
        start.check_unchanged()
        own: dict[str, list[Made]] = {"part": self.made, "group": [Made()]}
        self.results: dict[int, list[Made]] = {}
        decision: Any = None
        pieces: dict[int, list[tuple[int, Run]]] = {}
        moved: Ends | None = None
        for at, step in enumerate(self.job.steps):
            side = step.side
            if at:
                numbers = self.numbers[side][self.rank]
                blocks = self.blocks if step.rereads else [()] * len(numbers)
                given = [
                    _given(number, decision, chunks, pieces.get(number, ()), one, moved)
                    for number, chunks, one in zip(numbers, blocks, own[side], strict=True)
                ]
                self.last = at, given
                if at + 1 == len(self.job.steps):
                    return
                made = self.results[at] = self._turns(at, given)
            else:
                made = self.made
            if step.keeps:
                own[side] = made
            if (notes := [one.note for one in made])[0] is not None:
                counts = (yield from self._share(side, notes)) if at else start.summaries
                if isinstance(notes[0], Shared):
                    counts = yield from self._share_rows(notes, counts)
                decision = step.decide(self._in_order(side, counts), decision)
            if step.moves:
                moved = decision.ends if moved is None else moved.back
                senders = own[side] if step.moves == "out" else made
                pieces = yield from self._move(side, [one.run for one in senders if one.run is not None], moved)

    def _turns(self, at: int, given: Sequence[Given]) -> list[Made]:
        """One superstep of the member's parts, or of its group."""
        with self.ops.exclusive():
            return [self.job.steps[at].work(one) for one in given]

    def _in_order(self, side: str, found: Sequence[Sequence[Any]]) -> list[Any]:
        """What each member has of its parts, or its group, in the order of the parts or groups."""
        pairs = zip(self.numbers[side], found, strict=True)
        by_number = {number: one for numbers, own in pairs for number, one in zip(numbers, own, strict=True)}
        return [by_number[number] for number in sorted(by_number)]

    def _share(self, side: str, notes: Sequence[np.ndarray]) -> Generator[Shards, list[Run], list[Any]]:
        """Exchange notes, each an array of int64 of the same length, or the counts of what is shared."""
        counts = np.stack([_counts_of(note) for note in notes])
        lengths = [counts.shape[1] * len(numbers) for numbers in self.numbers[side]]
        found = yield Shards([Run(self.ops.from_host(counts.ravel())) for _ in self.members], lengths)
        return [on_host(run.keys).reshape(-1, counts.shape[1]) for run in found]

    def _share_rows(
        self, notes: Sequence[Shared], counts: Sequence[Sequence[Any]]
    ) -> Generator[Shards, list[Run], list[Any]]:
        """Exchange the rows of notes, of which all have the counts."""
        mine = Run(self.ops.concatenate([note.rows for note in notes]))
        lengths = [[int(own[0]) for own in one] for one in counts]
        received = yield Shards([mine for _ in self.members], list(map(sum, lengths)))
        found = []
        for run, one, sizes in zip(received, counts, lengths, strict=True):
            ends = pairwise(accumulate(sizes, initial=0))
            found.append([Shared(own[1:], run.keys[slice(*end)]) for own, end in zip(one, ends, strict=True)])
        return found

    def _move(
        self, side: str, runs: Sequence[Run], ends: Ends
    ) -> Generator[Shards, list[Run], dict[int, list[tuple[int, Run]]]]:
        """Exchange the rows of runs, from a side to the other one."""
        senders, receivers = self.numbers[side], self.numbers["group" if side == "part" else "part"]
        sent = [ends.cut(senders[self.rank], runs, own) for own in receivers]
        mine = receivers[self.rank]
        parts = [[ends.part(sender, receiver) for receiver in mine for sender in own] for own in senders]
        received = yield Shards(sent, [sum(part.stop - part.start for part in own) for own in parts])
        return ends.split(senders, received, mine)

    def finish(self) -> None:
        """Run the last superstep, and make the results."""
        job, (at, given) = self.job, self.last
        if job.steps[at].side == "group":
            del self.made, self.blocks
        self.results[at] = self._turns(at, given)
        found = [self._chunks(step, which) for step, which in job.results]
        del self.last, self.results
        complete(next((own[0] for own in found if own), None))
        self.arrays = tuple(found)

    def _chunks(self, step: int, which: int) -> list[Any]:
        """The member's chunks of a result."""
        arrays = [one.arrays[which] for one in self.results[step] if one.arrays]  # a group may make nothing
        made = self.results[step][0]
        if self.job.steps[step].side == "part":
            return list(concat(arrays))
        if not self.job.contents:
            return arrays
        numbers, sizes = self.job.contents[self.rank]
        if made.memo is not None:
            sizes = tuple(made.memo[numbers.start + 1 : numbers.stop + 1] - made.memo[numbers.start : numbers.stop])
        return [cut_part(arrays[0], slice(*end)) for end in pairwise(accumulate(map(int, sizes), initial=0))]


def _counts_of(note: Any) -> Any:
    """A note, or the counts of what is shared, the number of rows first."""
    return np.array([len(note.rows), *note.counts], np.int64) if isinstance(note, Shared) else note


def _given(
    number: int, decision: Any, blocks: Sequence[Any], pieces: Sequence[tuple[int, Run]], own: Made, ends: Ends | None
) -> Given:
    """What a part or a group gets, of which `own` has made what it keeps."""
    run, stays = (None if one is None else _give(one) for one in (own.run, own.stays))
    return Given(number, decision, blocks, pieces, run, own.memo, stays, ends.to(number).before if ends else 0)


def _give(run: Run) -> Callable[[], Run]:
    return lambda: run


def run_in_gang(
    inputs: Sequence[Any],
    own: Sequence[Input],
    steps: Sequence[Superstep],
    results: Sequence[tuple[int, int]],
    parts: tuple[Runs, ...],
    outputs: Sequence[Output],
    prefix: str,
    contents: Contents = (),
) -> tuple[Any, ...]:
    """Make arrays by a program in a gang, whose members have some `parts` each: the chunks of each of their inputs."""
    serialization.register()
    firsts = list(accumulate((math.prod(array.numblocks) for array in inputs), initial=0))[:-1]
    numbered = tuple(
        tuple(tuple(first + chunk for first in firsts for chunk in part) for part in member) for member in parts
    )
    sources = tuple(tuple(sorted(concat(member))) for member in numbered)
    declared = tuple(concat(one.declared for one in own))
    sizes = outputs[0].chunks[0] if contents else ()
    divided = tuple((range(first, last), sizes[first:last]) for first, last, *_ in contents)
    job = ProgramJob(tuple(steps), tuple(results), declared, sources, numbered, divided)
    made = []
    for (at, _), output in zip(results, outputs, strict=True):
        if contents:
            made.append(tuple(tuple(numbers) for numbers, _ in divided))
        else:
            of_parts = steps[at].side == "part"
            made.append(chunks_of_last(inputs, sources) if of_parts else one_each(output, len(parts)))
    return gang_arrays(job, inputs, sources, made, outputs, prefix)
