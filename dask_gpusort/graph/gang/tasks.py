"""The graph of a gang, and what its members do. Tasks ``sort-gang`` and ``sort-joined``, or the output's own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...chunk import library_of
from ...config import setting
from ...plan import Runs
from .._dask import List, MarkedTask, Task
from .._distributed import context_meter
from ..collection import Output, new_arrays
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunks_of, take_chunk
from .member import GangSpec, Work, enlist


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


def member_outputs(tasks: Tasks, size: int, alone: bool, small: bool) -> list[Task]:
    """Name the outputs of each member, as arguments of tasks.

    Unless they are `alone`, all wanted and each member makes some, each of them must need every member, because members
    cannot run without each other: what they make, if that is `small`, is moved without a step more.
    """
    joined = [tasks.ref("sort-joined", rank) for rank in range(size)]
    made = [tasks.ref("sort-gang", rank) for rank in range(size)]
    behind = List(*(() if alone else made if small else joined))
    return [Task(None, take_outputs, one, behind) for one in made]


def take_outputs(made: tuple[list[Any], ...], joined: Sequence[Any]) -> tuple[list[Any], ...]:
    """The outputs of a member. `joined` makes the task need all members, and is not used."""
    return made


def note_joined(_: Any) -> None:
    """Task: a member has finished."""


def run_member(arrays: list[Any], job: Job, spec: GangSpec) -> tuple[list[Any], ...]:
    """Task: run one member of a gang, for its chunks of each output."""
    begin = time.monotonic()
    with context_meter.meter("sort"):
        work = job(arrays, spec.rank)
    with enlist(spec, work.on_devices, time.monotonic() - begin) as member:
        member.exchange(work)
    return work.arrays


def run_as_chunk(arrays: list[Any], job: Job, spec: GangSpec) -> Any:
    """Task: one member of a gang, which makes one chunk of the only output array."""
    ((chunk,),) = run_member(arrays, job, spec)
    return chunk


@dataclass(frozen=True)
class GangRecipe(ArrayRecipe):
    """Hold all that the tasks of a gang are made from whose members have some chunks each of some arrays."""

    job: Job  # of all members
    names: tuple[str, ...]  # of the inputs
    numblocks: tuple[tuple[int, ...], ...]  # of each input
    #: The chunks of each member, ascending, by their numbers in C order, in one input after the other.
    sources: Runs
    #: The chunks of each output, by their numbers in C order, that each member makes.
    made: tuple[Runs, ...]
    timeout: float
    on_devices: bool

    def stages(self, held: Any = NOTHING) -> Tasks:
        """Tasks from the input chunks to the members."""
        tasks = Tasks(self.token)
        gang_exchange(tasks, self._members, self.timeout, self.on_devices)
        return tasks

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
        # Nothing would need a member that makes no chunk.
        alone = all(self.made[which])
        tasks = self._output(name, which, chunks, alone)
        if len(self.made) == 1 and chunks and alone and len(tasks) == len(self.sources):
            return member_chunks(tasks, self._members, self.timeout, self.on_devices)
        return tasks

    def _output(self, name: str, which: int, chunks: Chunks, alone: bool) -> Tasks:
        tasks, indices = Tasks(self.token), list(np.ndindex(*map(len, chunks)))
        small = len(self.made) == len(indices) == 1
        members = member_outputs(tasks, len(self.sources), alone, small)
        for member, own in zip(members, self.made[which], strict=True):
            for at, number in enumerate(own):
                tasks.put((name, *indices[number]), take_chunk, member, which, at)
        return tasks


def gang_arrays(
    job: Job,
    inputs: Sequence[Any],
    sources: Runs,
    made: Sequence[Runs],
    outputs: Sequence[Output],
    prefix: str,
) -> tuple[Any, ...]:
    """Make arrays by a gang whose members have some chunks each of some arrays, as for `GangRecipe`."""
    names, numblocks = tuple(array.name for array in inputs), tuple(array.numblocks for array in inputs)
    on_devices = library_of(inputs[0]._meta) == "cupy"
    recipe = GangRecipe(job, names, numblocks, sources, tuple(made), setting("gang_timeout"), on_devices)
    return new_arrays(recipe, inputs, outputs, prefix)


def chunks_of_last(inputs: Sequence[Any], sources: Runs) -> Runs:
    """The chunks of the last input that each member has, by their numbers in C order."""
    first = sum(math.prod(array.numblocks) for array in inputs[:-1])
    return tuple(tuple(chunk - first for chunk in own if chunk >= first) for own in sources)


def one_each(outputs: Output, members: int) -> Runs:
    """A chunk of an output of each of the first members."""
    chunks = math.prod(map(len, outputs.chunks))
    return tuple((member,) if member < chunks else () for member in range(members))
