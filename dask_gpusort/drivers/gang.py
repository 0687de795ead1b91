r"""Programs in a gang: each member has some parts, and one group (see `functions.program`).

::

    chunks of member r
          |
    the first superstep of each of its parts       notes to all, through the coordinator
          |
    the next superstep, of each part or of the group
          |
    an exchange                                    notes, arrays of int64 of known length, to all
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
from ..chunk.labels import on_host
from ..chunk.run import Run
from ..functions.program import Ends, Given, Made, Superstep
from ..graph import serialization
from ..graph.collection import Output
from ..graph.gang.communicator import Shards
from ..graph.gang.member import Start
from ..graph.gang.tasks import chunks_of_last, gang_arrays, one_each
from ..graph.in_one_task import cut_part
from ..graph.input_checks import Blocks, DeclaredChunk
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
        made = []
        with ops_for(arrays[0]).exclusive():
            for number, part in zip(self.numbers[rank], self.parts[rank], strict=True):
                blocks = Blocks([chunks.pop(chunk) for chunk in part], [self.declared[chunk] for chunk in part])
                made.append(self.steps[0].work(Given(number, None, blocks.checked(), names=blocks.names)))
        return ProgramWork(self, rank, made, arrays[0])

    @property
    def numbers(self) -> list[list[int]]:
        """The numbers of each member's parts, in the order of the first chunks of all."""
        first = sorted(part[0] for own in self.parts for part in own)
        number_of = {chunk: number for number, chunk in enumerate(first)}
        return [[number_of[part[0]] for part in own] for own in self.parts]


class ProgramWork:
    """Work on the parts and the group of a member (see `member.Work`)."""

    arrays: tuple[list[Any], ...]

    def __init__(self, job: ProgramJob, rank: int, made: list[Made], like: Any):
        self.job, self.rank, self.made = job, rank, made
        self.ops, self.on_devices = ops_for(like), library_of(like) == "cupy"
        self.members = range(len(job.parts))
        self.numbers = {"part": job.numbers, "group": [[member] for member in self.members]}

    @property
    def summaries(self) -> list[Any]:
        """The notes of the member's parts."""
        return [one.note for one in self.made]

    def identity(self) -> bytes:
        """Checksums of the notes."""
        return repr([self.job.steps[0].mark(note) for note in self.summaries]).encode()

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
                given = [
                    _given(number, decision, pieces.get(number, ()), one, moved)
                    for number, one in zip(numbers, own[side], strict=True)
                ]
                self.last = at, given
                if at + 1 == len(self.job.steps):
                    return
                made = self.results[at] = self._turns(at, given)
            else:
                made = self.made
            if step.keeps:
                own[side] = made
            if at == 0:
                decision = step.decide(self._in_order(side, start.summaries), decision)
            elif made[0].note is not None:
                decision = step.decide((yield from self._share(side, [one.note for one in made])), decision)
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
        """Exchange notes, each an array of int64 of the same length."""
        width, own = len(notes[0]), Run(self.ops.from_host(np.concatenate(notes)))
        lengths = [width * len(numbers) for numbers in self.numbers[side]]
        found = yield Shards([own for _ in self.members], lengths)
        return self._in_order(side, [on_host(run.keys).reshape(-1, width) for run in found])

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
            del self.made
        self.results[at] = self._turns(at, given)
        found = [self._chunks(step, which) for step, which in job.results]
        del self.last, self.results
        complete(next((own[0] for own in found if own), None))
        self.arrays = tuple(found)

    def _chunks(self, step: int, which: int) -> list[Any]:
        """The member's chunks of a result."""
        arrays, made = [one.arrays[which] for one in self.results[step]], self.results[step][0]
        if self.job.steps[step].side == "part":
            return list(concat(arrays))
        if not self.job.contents:
            return arrays
        numbers, sizes = self.job.contents[self.rank]
        if made.memo is not None:
            sizes = tuple(made.memo[numbers.start + 1 : numbers.stop + 1] - made.memo[numbers.start : numbers.stop])
        return [cut_part(arrays[0], slice(*end)) for end in pairwise(accumulate(map(int, sizes), initial=0))]


def _given(number: int, decision: Any, pieces: Sequence[tuple[int, Run]], own: Made, ends: Ends | None) -> Given:
    """What a part or a group gets, of which `own` has made what it keeps."""
    run, stays = (None if one is None else _give(one) for one in (own.run, own.stays))
    return Given(number, decision, (), pieces, run, own.memo, stays, ends.to(number).before if ends else 0)


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
