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
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from tlz import concat

from ..chunk import complete, library_of, ops_for
from ..chunk.checks import Blocks, DeclaredChunk
from ..chunk.grid import cut_part
from ..chunk.labels import on_host
from ..chunk.run import Run
from ..config import setting
from ..functions.program import Ends, Shared, Superstep
from ..graph import serialization
from ..graph.collection import Output, new_arrays
from ..graph.gang.communicator import Shards
from ..graph.gang.member import Exchanges
from ..graph.gang.tasks import GangRecipe
from ..plan import Runs, Size
from .recipe import Contents, Input
from .turns import Listed, Store, Turn, work_on


@dataclass(frozen=True)
class ProgramJob:
    """Run a program on the chunks of a member."""

    steps: tuple[Superstep, ...]
    results: tuple[tuple[int, int], ...]  # of each output: the superstep that makes it, and which of its arrays
    declared: tuple[DeclaredChunk, ...]  # all chunks of the inputs, by their numbers, one input after another
    sources: Runs  # the numbers of each member's chunks, ascending
    members: Runs  # the parts of each member
    parts: Runs  # the numbers of the chunks of each part
    groups: Runs  # the numbers of the chunks of each member's group
    #: Of each group, if it is divided: the numbers and the sizes of output chunks, nan where unknown.
    contents: tuple[tuple[range, tuple[Size, ...]], ...] = ()

    def __call__(self, arrays: list[Any], rank: int) -> ProgramWork:
        serialization.register()
        chunks = dict(zip(self.sources[rank], arrays, strict=True))
        # A part without chunks has an empty one: what it sends must have the dtypes of the others.
        shape, dtype = (0,) * len(self.declared[0].shape), np.dtype(self.declared[0].dtype)
        nothing = Blocks([np.empty_like(arrays[0], shape=shape, dtype=dtype)], [replace(self.declared[0], shape=shape)])

        def blocks_of(own: Sequence[int]) -> Blocks:
            return Blocks([chunks[chunk] for chunk in own], [self.declared[chunk] for chunk in own])

        numbers = self.members[rank]
        blocks = {"part": [blocks_of(self.parts[number]) if self.parts[number] else nothing for number in numbers]}
        blocks["group"] = [blocks_of(self.groups[rank])]
        pairs = zip(numbers, blocks["part"], strict=True)
        made = [work_on(self.steps[0], number, Store(), own, None, None, [], None) for number, own in pairs]
        return ProgramWork(self, rank, made, blocks, arrays[0])


class ProgramWork:
    """Work on the parts and the group of a member (see `member.Work`)."""

    def __init__(self, job: ProgramJob, rank: int, made: list[Turn], blocks: dict[str, list[Blocks]], like: Any):
        self.job, self.rank, self.made = job, rank, made
        self.blocks = blocks  # the chunks of the member's parts, and of its group
        self.ops, self.on_devices = ops_for(like), library_of(like) == "cupy"
        self.members = range(len(job.members))
        self.numbers: dict[str, Runs] = {"part": job.members, "group": tuple((member,) for member in self.members)}

    @property
    def summaries(self) -> list[Any]:
        """The notes of the member's parts, or the counts of what is shared."""
        return [_counts_of(one.note) for one in self.made]

    def checksum(self) -> int:
        """One checksum of all notes."""
        return zlib.crc32(repr([self.job.steps[0].mark(one.note) for one in self.made]).encode())

    def exchanges(self, summaries: list[Any]) -> Exchanges:
        """All exchanges."""
        made = self.made
        del self.made  # nothing refers to them any more before the last superstep, but what it needs
        own = {"part": made, "group": [Turn(None)]}
        results: dict[int, list[Turn]] = {}
        listed, unread = Listed(None, {}, [], None, None), {"group"}
        pieces: dict[int, list[tuple[int, Run]]] = {}
        for at, step in enumerate(self.job.steps):
            side = step.side
            if at:
                given = at, own[side], step.rereads or side in unread, listed, pieces
                if at + 1 == len(self.job.steps):
                    break
                unread.discard(side)
                results[at] = made = self._turns(*given)
            if step.keeps:
                own[side] = made
            decision, out, pieces = listed.decision, listed.out, {}
            if (notes := [one.note for one in made])[0] is not None:
                counts = (yield from self._share(side, notes)) if at else summaries
                if isinstance(notes[0], Shared):
                    counts = yield from self._share_rows(notes, counts)
                decision = step.decide(self._in_order(side, counts), decision)
            if step.moves:
                out = decision.ends if out is None else out.back
                senders = own[side] if step.moves == "out" else made
                pieces = yield from self._move(side, [one.runs[0] for one in senders if one.runs], out)
            listed = Listed(decision, {}, [], out if step.moves else None, out)
        return partial(self.finish, results, given)

    def _turns(
        self, at: int, own: Sequence[Turn], reads: bool, listed: Listed, pieces: dict[int, list[tuple[int, Run]]]
    ) -> list[Turn]:
        """One superstep of the member's parts, or of its group; `reads` says whether they read their chunks."""
        step = self.job.steps[at]
        numbers, blocks = self.numbers[step.side][self.rank], self.blocks[step.side]
        made = []
        for number, chunks, kept in zip(numbers, blocks, own, strict=True):
            # The chunks are those that it has noted, so it need not look whether they are.
            known = chunks if reads else None, replace(kept, note=None), listed, pieces.get(number, [])
            ends = listed.ends.to(number) if listed.ends is not None else None
            made.append(work_on(step, number, Store(), *known, ends))
        return made

    def _in_order(self, side: str, found: Sequence[Sequence[Any]]) -> list[Any]:
        """What each member has of its parts, or its group, in the order of the parts or groups."""
        pairs = zip(self.numbers[side], found, strict=True)
        by_number = {number: one for numbers, own in pairs for number, one in zip(numbers, own, strict=True)}
        return [by_number[number] for number in sorted(by_number)]

    def _share(self, side: str, notes: Sequence[np.ndarray]) -> Generator[Shards, list[Run], list[Any]]:
        """Exchange notes, each an array of int64 of the same length, or the counts of what is shared."""
        counts = np.stack([_counts_of(note) for note in notes])
        lengths = [counts.shape[1] * len(numbers) for numbers in self.numbers[side]]
        found = yield Shards([Run(self.ops.moved_here(counts.ravel())) for _ in self.members], lengths)
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

    def finish(self, results: dict[int, list[Turn]], given: tuple[Any, ...]) -> tuple[list[Any], ...]:
        """Run the last superstep, and make the results of all."""
        results[len(self.job.steps) - 1] = self._turns(*given)
        found = tuple(self._chunks(results[step], which) for step, which in self.job.results)
        complete(next((own[0] for own in found if own), None))
        return found

    def _chunks(self, made: Sequence[Turn], which: int) -> list[Any]:
        """The member's chunks of a result."""
        arrays = [one.arrays[which] for one in made if one.arrays]  # a group may make nothing
        if all(isinstance(own, list) for own in arrays):
            return list(concat(arrays))
        if not self.job.contents:
            return arrays
        numbers, sizes = self.job.contents[self.rank]
        memo = made[0].memo
        if memo is not None:
            sizes = tuple(memo[numbers.start + 1 : numbers.stop + 1] - memo[numbers.start : numbers.stop])
        return [cut_part(arrays[0], slice(*end)) for end in pairwise(accumulate(map(int, sizes), initial=0))]


def _counts_of(note: Any) -> Any:
    """A note, or the counts of what is shared, the number of rows first."""
    return np.array([len(note.rows), *note.counts], np.int64) if isinstance(note, Shared) else note


def run_in_gang(
    inputs: Sequence[Any],
    own: Sequence[Input],
    steps: Sequence[Superstep],
    results: Sequence[tuple[int, int]],
    members: Runs,
    outputs: Sequence[Output],
    prefix: str,
    contents: Contents = (),
) -> tuple[Any, ...]:
    """Make arrays by a program in a gang, whose members have some parts each, by their numbers, and a group."""
    serialization.register()
    firsts = list(accumulate((math.prod(array.numblocks) for array in inputs), initial=0))

    def chunks_of(side: str, count: int) -> Runs:
        pairs = [(first, one.owned) for first, one in zip(firsts, own, strict=False) if one.side == side]
        return tuple(tuple(first + chunk for first, owned in pairs for chunk in owned[at]) for at in range(count))

    parts, groups = chunks_of("part", len(own[0].owned)), chunks_of("group", len(members))
    sources = tuple(
        tuple(sorted(concat([group, *(parts[part] for part in numbers)])))
        for group, numbers in zip(groups, members, strict=True)
    )
    declared = tuple(concat(one.declared for one in own))
    sizes = outputs[0].chunks[0] if contents else ()
    divided = tuple((range(first, last), sizes[first:last]) for first, last, *_ in contents)
    job = ProgramJob(tuple(steps), tuple(results), declared, sources, members, parts, groups, divided)
    made: list[Runs] = []
    for (at, _), output in zip(results, outputs, strict=True):
        side = steps[at].side
        owned = [one.owned for one in own if one.side == side]
        if contents:
            made.append(tuple(tuple(numbers) for numbers, _ in divided))
        elif owned:
            numbers = members if side == "part" else [(member,) for member in range(len(members))]
            made.append(tuple(tuple(concat(owned[-1][number] for number in one)) for one in numbers))
        else:  # of each of the first members
            chunks = range(math.prod(map(len, output.chunks)))
            made.append(tuple(tuple(chunks[member : member + 1]) for member in range(len(members))))
    names, numblocks = tuple(array.name for array in inputs), tuple(array.numblocks for array in inputs)
    on_devices = library_of(inputs[0]._meta) == "cupy"
    recipe = GangRecipe(job, names, numblocks, sources, tuple(made), setting("gang_timeout"), on_devices)
    return new_arrays(recipe, inputs, outputs, prefix)
