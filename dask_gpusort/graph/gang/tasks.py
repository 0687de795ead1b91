"""The graph of a gang, and what its members do. Tasks ``sort-gang`` and ``sort-joined``, or the output's own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...chunk import complete, library_of, ops_for
from ...chunk.run import Run
from ...config import setting
from ...plan import Plan, Runs
from ...table import Bounds
from .. import serialization
from .._dask import List, MarkedTask, Task
from .._distributed import context_meter
from ..collection import Output, new_arrays
from ..in_one_task import take_chunk
from ..input_checks import changed_run, only_chunk
from ..sort.by_tasks import (
    Bundle,
    NumberedSummaries,
    Sources,
    pieces_in_order,
    scan,
    sort_bundle,
    take_shard,
    take_summaries,
)
from ..sort.finish import Finish, GroupRef
from ..sort.local import LocalSort, RunSource, chunk_arrays
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunks_of
from .communicator import Shards
from .member import GangSpec, Start, Work, enlist


class GangTask(MarkedTask):
    """The task of a member. Its mark is the `GangSpec`."""

    __slots__ = ()


#: What the tasks of each member are made from: its chunks, and a function that can be pickled. It does what the member
#: does alone, and gives its work.
Members: TypeAlias = Sequence[tuple[List, "Job"]]


class Job(Protocol):
    """Make the work of a member from its chunks."""

    def __call__(self, arrays: list[Any], rank: int) -> Work:
        """Do what the member does before it meets the others."""


def gang_exchange(tasks: Tasks, members: Members, timeout: float, on_devices: bool = False) -> None:
    """Add a gang, from the input chunks to the outputs of its members (see `member_outputs`)."""
    for rank, (arrays, job) in enumerate(members):
        spec = GangSpec(tasks.token, rank, len(members), timeout, on_devices)
        member = tasks.add("sort-gang", rank, run_member, arrays, job, spec, kind=GangTask, mark=spec)
        tasks.add("sort-joined", rank, note_joined, member)


def member_chunks(chunks: Tasks, members: Members, timeout: float, on_devices: bool = False) -> Tasks:
    """Make the graph of a gang of which each member is a chunk of the only output: one step less than behind members.

    `chunks` are the same chunks as tasks behind members of another gang.
    """
    found = Tasks(chunks.token)
    for rank, ((key, task), (arrays, job)) in enumerate(zip(chunks.items(), members, strict=True)):
        spec = GangSpec(f"{key[0]}", rank, len(members), timeout, on_devices)  # type: ignore[index]
        found.put(key, run_as_chunk, arrays, job, spec, kind=GangTask, mark=replace(spec, instead=task))
    return found


def member_outputs(tasks: Tasks, size: int, alone: bool, small: bool = False) -> tuple[list[GroupRef], GroupRef]:
    """Name the outputs of each member, and what tasks must know of all, as arguments of tasks.

    Unless they are `alone`, all wanted and each member makes some, each of them must need every member, because members
    cannot run without each other: what they make, if that is `small`, is moved without a step more.
    """
    joined = [tasks.ref("sort-joined", rank) for rank in range(size)]
    made = [tasks.ref("sort-gang", rank) for rank in range(size)]
    behind = List(*(() if alone else made if small else joined))
    outputs: list[GroupRef] = [Task(None, take_outputs, one, behind) for one in made]
    return outputs, joined[0]


def take_outputs(made: tuple[tuple[Any, ...], Any], joined: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a member. `joined` makes the task need all members, and is not used."""
    return made[0]


def note_joined(made: tuple[tuple[Any, ...], Any]) -> Any:
    """Task: a member has finished. The result is `Work.joined`."""
    return made[1]


def run_member(arrays: list[Any], job: Job, spec: GangSpec) -> tuple[tuple[Any, ...], Any]:
    """Task: run one member of a gang, for its part of each output, and what is joined."""
    begin = time.monotonic()
    with context_meter.meter("sort"):
        work = job(arrays, spec.rank)
    with enlist(spec, work.on_devices, time.monotonic() - begin) as member:
        member.exchange(work)
    return work.arrays, work.joined


def run_as_chunk(arrays: list[Any], job: Job, spec: GangSpec) -> Any:
    """Task: one member of a gang, which makes one chunk of the only output array."""
    (chunk,), _ = run_member(arrays, job, spec)
    return only_chunk(chunk)


@dataclass(frozen=True)
class GangRecipe(ArrayRecipe):
    """Hold all that the tasks of a gang are made from whose members have some chunks each of some arrays."""

    job: Job  # of all members
    names: tuple[str, ...]  # of the inputs
    numblocks: tuple[tuple[int, ...], ...]  # of each input
    #: The chunks of each member, ascending, by their numbers in C order, in one input after the other.
    sources: Runs
    #: Whether each output has the chunks of the last input, perhaps with axes of one chunk beside its own. Of others
    #: the first members make a chunk each, by their ranks.
    divided: tuple[bool, ...]
    timeout: float
    on_devices: bool

    def stages(self, held: Any = NOTHING) -> Tasks:
        """Tasks from the input chunks to the members."""
        tasks = Tasks(self.token)
        gang_exchange(tasks, self._members, self.timeout, self.on_devices)
        return tasks

    @property
    def _first(self) -> int:
        """The number of the first chunk of the last input."""
        return sum(map(math.prod, self.numblocks[:-1]))

    @property
    def _members(self) -> Members:
        inputs = zip(self.names, map(np.ndindex, self.numblocks), strict=True)
        chunks = [chunk for name, indices in inputs for chunk in chunks_of(name, indices)]
        return [(List(*(chunks[one] for one in own)), self.job) for own in self.sources]

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the members to the chunks of one output array."""
        return self._output(name, which, chunks, alone=False)

    @property
    def whole_output(self) -> Callable[[str, int, Chunks], Tasks]:
        """Fewer tasks if all output chunks are computed."""
        return self._whole_output

    def _whole_output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        # A member without chunks of the last input makes none, so that nothing would need it.
        makes = all(own[-1] >= self._first for own in self.sources)
        alone = makes and math.prod(map(len, chunks)) >= len(self.sources)
        tasks = self._output(name, which, chunks, alone)
        if len(self.divided) == 1 and chunks and alone and len(tasks) == len(self.sources):
            return member_chunks(tasks, self._members, self.timeout, self.on_devices)
        return tasks

    def _output(self, name: str, which: int, chunks: Chunks, alone: bool) -> Tasks:
        tasks, indices, first = Tasks(self.token), list(np.ndindex(*map(len, chunks))), self._first
        small = len(self.divided) == len(indices) == 1
        members, _ = member_outputs(tasks, len(self.sources), alone, small)
        if not self.divided[which]:
            for member, index in zip(members, indices, strict=False):
                tasks.put((name, *index), getitem, member, which)
            return tasks
        for member, own in zip(members, self.sources, strict=True):
            for at, number in enumerate(one - first for one in own if one >= first):
                tasks.put((name, *indices[number]), take_chunk, member, which, at)
        return tasks


def gang_arrays(
    job: Job,
    inputs: Sequence[Any],
    sources: Runs,
    divided: tuple[bool, ...],
    outputs: Sequence[Output],
    prefix: str,
) -> tuple[Any, ...]:
    """Make arrays by a gang whose members have some chunks each of some arrays, as for `GangRecipe`."""
    names, numblocks = tuple(array.name for array in inputs), tuple(array.numblocks for array in inputs)
    on_devices = library_of(inputs[0]._meta) == "cupy"
    recipe = GangRecipe(job, names, numblocks, sources, divided, setting("gang_timeout"), on_devices)
    return new_arrays(recipe, inputs, outputs, prefix)


def sort_members(plan: Plan, sources: Sources, finish: Finish) -> Members:
    """What the members of a sort are made from."""
    serialization.register()
    runs, local, keys = sources
    own = [tuple(runs[number] for number in numbers) for numbers in plan.sources]
    return [
        (List(*(chunk_arrays(run, keys) for run in mine)), SortJob(numbers, mine, local, plan, finish))
        for numbers, mine in zip(plan.sources, own, strict=True)
    ]


@dataclass(frozen=True)
class SortJob:
    """Sort the chunks of a member, in runs, as for `sort_bundle`."""

    numbers: tuple[int, ...]
    sources: tuple[RunSource, ...]
    local: LocalSort
    plan: Plan
    finish: Finish

    def __call__(self, arrays: list[Any], rank: int) -> SortWork:
        plan = self.plan
        bundle = sort_bundle(arrays, self.numbers, self.sources, self.local, plan.samples, plan.radix_bits)
        return SortWork(bundle, rank, plan, self.finish)


class SortWork:
    """Work on a member's sorted bundle (see `member.Work`)."""

    bounds: Bounds  # of the last attempt, the same in all members
    received: list[Run]  # the shards of all members, by rank
    arrays: tuple[Any, ...]  # the member's part of each output, once merged

    def __init__(self, bundle: Bundle, rank: int, plan: Plan, finish: Finish):
        # The bundle is kept until all shards have arrived, because an exchange may be repeated.
        self.bundle, self.rank, self.plan, self.finish_group = bundle, rank, plan, finish
        self.on_devices = library_of(bundle.runs[0].keys) == "cupy"

    @property
    def summaries(self) -> NumberedSummaries:
        """Those of its runs, by their numbers."""
        return take_summaries(self.bundle)

    @property
    def joined(self) -> Bounds | None:
        """The bounds, if chunk sizes are unknown."""
        return None if self.plan.known else self.bounds

    def identity(self) -> bytes:
        """Fingerprints of the summaries. Pickles of equal Python objects may differ, so it is no pickle."""
        return np.array([one.checksum for one in self.bundle.summaries]).tobytes()

    def exchanges(self, start: Start) -> Generator[Shards, list[Run], None]:
        """Cut the shard for the group of each member, and count the keys that each sends."""
        plan = self.plan
        for rank in start.changed:
            raise changed_run(plan.runs[plan.sources[rank][0]], plan.order)
        self.bounds = scan(start.summaries, plan)
        sent = [take_shard(self.bundle, self.bounds, group, copy=False) for group in range(len(plan.sources))]
        lengths = self.bounds.lengths(self.rank)
        self.received = yield Shards(sent, [int(lengths[list(numbers)].sum()) for numbers in plan.sources])

    def finish(self) -> None:
        """Free the bundle, except what others still fetch, and merge the member's group."""
        received = self.received
        del self.bundle, self.received
        pieces = pieces_in_order(received, self.bounds, self.rank, self.plan)
        with ops_for(received[0].keys).exclusive():
            self.arrays = self.finish_group(pieces, self.bounds.kept(self.rank))
        complete(self.arrays[0])
