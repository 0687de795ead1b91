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

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from tlz import concat

from ...chunk import complete, library_of, ops_for
from ...chunk.labels import on_host
from ...chunk.run import Run
from ...functions.program import Ends, Given, Made, Superstep
from ...plan import Runs, Size
from .. import serialization
from ..collection import Output
from ..input_checks import checked_shape
from .communicator import Shards
from .member import Start
from .tasks import gang_arrays

#: Rows that have arrived, by their senders, for each part or group of this member.
Pieces = dict[int, list[tuple[int, Run]]]


@dataclass(frozen=True)
class ProgramJob:
    """Run a program on the chunks of a member."""

    steps: tuple[Superstep, ...]
    results: tuple[tuple[int, int], ...]  # of each output: the superstep that makes it, and which of its arrays
    dtype: np.dtype[Any]
    shapes: tuple[tuple[Size, ...], ...]  # of all chunks, in C order
    parts: tuple[Runs, ...]  # of each member: the chunks of each part

    def __call__(self, arrays: list[Any], rank: int) -> ProgramWork:
        serialization.register()
        ops, given = ops_for(arrays[0]), iter(arrays)
        made = []
        with ops.exclusive():
            for number, part in zip(self.numbers[rank], self.parts[rank], strict=True):
                blocks = [checked_shape(next(given), chunk, self.dtype, self.shapes[chunk]) for chunk in part]
                made.append(self.steps[0].work(Given(number, None, blocks)))
        return ProgramWork(self, rank, made, arrays[0])

    @property
    def numbers(self) -> list[list[int]]:
        """The numbers of each member's parts, in the order of the first chunks of all."""
        number_of = {
            chunk: number for number, chunk in enumerate(sorted(part[0] for own in self.parts for part in own))
        }
        return [[number_of[part[0]] for part in own] for own in self.parts]


class ProgramWork:
    """Work on the parts and the group of a member (see `member.Work`)."""

    arrays: tuple[Any, ...]
    joined = None

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
        first, *steps = self.job.steps
        decision = first.decide(self._in_order("part", start.summaries))
        own: dict[str, list[Made]] = {"part": self.made, "group": [Made()]}
        self.results: dict[int, list[Made]] = {}
        pieces: Pieces = {}
        moved: Ends | None = None
        for at, step in enumerate(steps, 1):
            self.last = (
                at,
                [
                    Given(
                        number,
                        decision,
                        (),
                        pieces.get(number, ()),
                        None if one.run is None else _give(one.run),
                        one.memo,
                        None if one.stays is None else _give(one.stays),
                    )
                    for number, one in zip(self.numbers[step.side][self.rank], own[step.side], strict=True)
                ],
            )
            if at == len(steps):
                return
            made = self.results[at] = self._turns(*self.last)
            if step.keeps:
                own[step.side] = made
            if made[0].note is not None:
                decision = step.decide((yield from self._share(step.side, [one.note for one in made])))
            if step.moves:
                moved = decision.ends if moved is None else moved.back
                senders = own[step.side] if step.moves == "out" else made
                pieces = yield from self._move(step.side, [one.run for one in senders if one.run is not None], moved)

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

    def _move(self, side: str, runs: Sequence[Run], ends: Ends) -> Generator[Shards, list[Run], Pieces]:
        """Exchange the rows of runs, from a side to the other one."""
        senders, receivers = self.numbers[side], self.numbers["group" if side == "part" else "part"]

        def rows(sender: int, receiver: int) -> slice:
            return slice(int(ends.first[sender, receiver]), int(ends.last[sender, receiver]))

        sent = [
            [
                run[rows(sender, receiver)]
                for receiver in own
                for sender, run in zip(senders[self.rank], runs, strict=True)
            ]
            for own in receivers
        ]
        mine = [[(to, one, rows(one, to)) for to in receivers[self.rank] for one in own] for own in senders]
        lengths = [sum(part.stop - part.start for *_, part in own) for own in mine]
        received = yield Shards([Run.concat(own, copy=None) for own in sent], lengths)
        pieces: dict[int, dict[int, Run]] = {receiver: {} for receiver in receivers[self.rank]}
        for shard, own in zip(received, mine, strict=True):
            at = 0
            for receiver, sender, part in own:
                pieces[receiver][sender] = shard[at : at + part.stop - part.start]
                at += part.stop - part.start
        found = {receiver: sorted(own.items(), key=lambda one: one[0]) for receiver, own in pieces.items()}
        return {to: [one for one in own if len(one[1])] or own[:1] for to, own in found.items()}

    def finish(self) -> None:
        """Run the last superstep, and make the results."""
        job, (at, given) = self.job, self.last
        if job.steps[at].side == "group":
            del self.made
        self.results[at] = self._turns(at, given)
        found: list[Any] = []
        for step, which in job.results:
            arrays = [one.arrays[which] for one in self.results[step]]
            found.append(list(concat(arrays)) if job.steps[step].side == "part" else arrays[0])
        del self.last, self.results
        complete(found[0][0] if isinstance(found[0], list) else found[0])
        self.arrays = tuple(found)


def _give(run: Run) -> Callable[[], Run]:
    return lambda: run


def run_in_gang(
    array: Any,
    steps: Sequence[Superstep],
    results: Sequence[tuple[int, int]],
    sources: Runs,
    parts: tuple[Runs, ...],
    outputs: Sequence[Output],
    prefix: str,
) -> tuple[Any, ...]:
    """Make arrays by a program in a gang, whose members have some chunks of an array each, in parts."""
    job = ProgramJob(tuple(steps), tuple(results), array.dtype, tuple(product(*array.chunks)), parts)
    divided = tuple(steps[at].side == "part" for at, _ in results)
    return gang_arrays(job, [array], sources, divided, outputs, prefix)
