"""The graph of a gang, and what its members do. Tasks ``sort-gang`` and ``sort-joined``, or the output's own."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...chunk import complete, library_of, ops_for
from ...chunk.run import Run
from ...plan import Plan
from .. import serialization
from .._dask import List, MarkedTask, Task
from .._distributed import context_meter
from ..input_checks import changed_run
from ..sort.by_tasks import Bundle, Sources, pieces_in_order, scan, sort_bundle, take_shard, take_summaries
from ..sort.finish import Finish, GroupRef
from ..sort.local import LocalSort, RunSource, chunk_arrays
from ..sort.scan import Bounds, fingerprint
from ..tasks import Tasks
from .communicator import ExchangePiece
from .coordinator import DIGEST_BYTES
from .member import GangSpec, Start, enlist


class Outputs:
    """Allocate once the part of each output array that a member makes, and merge its groups into it."""

    # A group is merged with the unresolved keys at its ends, which belong to its neighbours. So a merge writes over
    # both ends of its group: the end of the group before it is restored, and the next group overwrites the other end:
    #
    #     group g     ------------------|xx
    #     group g + 1                 xx|-----------------|xx
    #                                 ^ saved before the merge

    def __init__(self, plan: Plan, finish: Finish, bounds: Bounds, groups: range):
        self.plan, self.finish, self.bounds, self.groups = plan, finish, bounds, groups
        self.arrays: tuple[Any, ...] = ()
        self._memory: tuple[Any, ...] = ()
        self._front = max((-self._span(group)[0] for group in groups), default=0)

    def _span(self, group: int) -> tuple[int, int]:
        """Where the keys that a group receives begin and end in the outputs; the first ones before them if negative."""
        start = int(self.bounds.ranks[group] - self.bounds.ranks[self.groups.start]) - self.bounds.kept(group).start
        return start, start + int(self.bounds.lengths(group).sum())

    def add(self, group: int, shards: list[Run]) -> None:
        """Merge a group from the shards of all members; groups come in their order."""
        kept, pieces = self.bounds.kept(group), pieces_in_order(shards, self.bounds, group, self.plan)
        with ops_for(shards[0].keys).exclusive():
            if len(self.groups) == 1:
                self.arrays = self.finish(pieces, kept)
                return
            self._allocate(pieces[0][1])
            start, stop = (self._front + end for end in self._span(group))
            memory = tuple(array[start:stop] for array in self._memory)
            saved = [array[: kept.start].copy() for array in memory]
            self.finish(pieces, kept, memory)
            for array, end in zip(memory, saved, strict=True):
                array[: kept.start] = end

    def _allocate(self, like: Run) -> None:
        if self._memory:
            return
        stop = max(self._span(group)[1] for group in self.groups)
        length = int(self.bounds.ranks[self.groups.stop] - self.bounds.ranks[self.groups.start])
        self._memory = self.finish.allocate(like, self._front + stop)
        self.arrays = tuple(array[self._front : self._front + length] for array in self._memory)


class GangTask(MarkedTask):
    """The task of a member. Its mark is the `GangSpec`."""

    __slots__ = ()


def gang_exchange(
    tasks: Tasks, plan: Plan, sources: Sources, finish: Finish, timeout: float, on_devices: bool = False
) -> None:
    """Add a gang, from the input chunks to the outputs of its members (see `member_outputs`)."""
    for rank in range(len(plan.sources)):
        spec = GangSpec(tasks.token, rank, len(plan.sources), timeout, on_devices)
        arguments = _arguments(spec, plan, sources, finish)
        member = tasks.add("sort-gang", rank, sort_in_gang, *arguments, kind=GangTask, mark=spec)
        tasks.add("sort-joined", rank, note_joined, member)


def member_chunks(
    chunks: Tasks,
    plan: Plan,
    sources: Sources,
    finish: Finish,
    timeout: float,
    on_devices: bool = False,
) -> Tasks:
    """Make the graph of a gang of which each member is a chunk of the only output: one step less than behind members.

    `chunks` are the same chunks as tasks behind members of another gang.
    """
    found = Tasks(chunks.token)
    for rank, (key, task) in enumerate(chunks.items()):
        spec = GangSpec(f"{key[0]}", rank, len(plan.sources), timeout, on_devices)  # type: ignore[index]
        arguments = _arguments(spec, plan, sources, finish)
        found.put(key, sort_as_chunk, *arguments, kind=GangTask, mark=replace(spec, instead=task))
    return found


def _arguments(spec: GangSpec, plan: Plan, sources: Sources, finish: Finish) -> tuple[Any, ...]:
    """Arguments of `sort_in_gang`."""
    serialization.register()
    runs, local, keys = sources
    numbers = plan.sources[spec.rank]
    own = tuple(runs[number] for number in numbers)
    return List(*(chunk_arrays(source, keys) for source in own)), numbers, own, local, spec, plan, finish


def member_outputs(tasks: Tasks, plan: Plan, all_wanted: bool) -> tuple[list[GroupRef], GroupRef]:
    """Name the outputs of each member, and the bounds of the cuts, as arguments of tasks."""
    # Unless all output chunks are wanted and each member makes some, each of them must need every member, because
    # members cannot run without each other.
    ranks = range(len(plan.sources))
    joined = [tasks.ref("sort-joined", rank) for rank in ranks]
    alone = all_wanted and all(plan.member_chunks)
    behind = List(*(() if alone else joined))
    outputs: list[GroupRef] = [Task(None, take_outputs, tasks.ref("sort-gang", rank), behind) for rank in ranks]
    return outputs, joined[0]


def take_outputs(made: tuple[tuple[Any, ...], Bounds | None], joined: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a member. `joined` makes the task need all members, and is not used."""
    return made[0]


def note_joined(made: tuple[tuple[Any, ...], Bounds | None]) -> Bounds | None:
    """Task: a member has finished. If chunk sizes are unknown, the result is the bounds of the cuts."""
    return made[1]


def sort_in_gang(
    arrays: list[list[Any]],
    numbers: tuple[int, ...],
    sources: tuple[RunSource, ...],
    local: LocalSort,
    spec: GangSpec,
    plan: Plan,
    finish: Finish,
) -> tuple[tuple[Any, ...], Bounds | None]:
    """Task: run one member of a gang, for its part of each output, and the bounds if chunk sizes are unknown."""
    begin = time.monotonic()
    with context_meter.meter("sort"):
        bundle = sort_bundle(arrays, numbers, sources, local, plan.samples, plan.radix_bits)
    work = SortWork(bundle, spec.rank, plan, finish)
    del bundle
    on_devices = library_of(work.bundle.runs[0].keys) == "cupy"
    with enlist(spec, on_devices, time.monotonic() - begin) as member:
        member.exchange(take_summaries(work.bundle), work)
    if work.outputs.arrays:
        with context_meter.meter("merge"):
            complete(work.outputs.arrays[0])
    return work.outputs.arrays, None if plan.known else work.bounds


def sort_as_chunk(*arguments: Any) -> Any:
    """Task: one member of a gang, which makes one chunk of the only output array."""
    (chunk,), _ = sort_in_gang(*arguments)
    return chunk


class SortWork:
    """Work on a member's sorted bundle (see `member.Work`)."""

    bounds: Bounds  # known after `cut`, and the same in all members
    outputs: Outputs  # new for each attempt

    def __init__(self, bundle: Bundle, rank: int, plan: Plan, finish: Finish):
        # The bundle is kept until all shards have arrived, because an exchange may be repeated.
        self.bundle, self.plan, self.finish = bundle, plan, finish
        self.groups = plan.member_groups
        self.own = self.groups[rank]

    def digest(self) -> bytes:
        """Checksum of the summaries. Pickles of equal Python objects may differ, so it is not that of a pickle."""
        return zlib.crc32(np.array(list(map(fingerprint, self.bundle.summaries))).tobytes()).to_bytes(DIGEST_BYTES)

    def cut(self, start: Start) -> list[ExchangePiece]:
        """The shards for one group of each member after the other, and how many keys each sends."""
        for rank in start.changed:
            raise changed_run(self.plan.runs[self.plan.sources[rank][0]], self.plan.order)
        self.bounds = scan(start.summaries, self.plan)
        self.outputs = Outputs(self.plan, self.finish, self.bounds, self.own)
        pieces = [self._cut_piece(piece) for piece in range(max(map(len, self.groups)))]
        complete(pieces[0].shards[0].keys)
        return pieces

    def _cut_piece(self, piece: int) -> ExchangePiece:
        """For members with fewer groups than others, some shards are empty."""
        shards = [
            take_shard(self.bundle, self.bounds, groups[piece], copy=False)
            if piece < len(groups)
            else self.bundle.runs[0][:0]
            for groups in self.groups
        ]
        if piece >= len(self.own):
            return ExchangePiece(shards, [0] * len(shards))
        lengths = self.bounds.lengths(self.own[piece])
        return ExchangePiece(shards, [int(lengths[list(numbers)].sum()) for numbers in self.plan.sources])

    def merge(self, piece: int, shards: list[Run]) -> None:
        """Merge a group, if there is one."""
        if piece < len(self.own):
            self.outputs.add(self.own[piece], shards)

    def release(self) -> None:
        """Free the bundle, except what others still fetch."""
        del self.bundle
