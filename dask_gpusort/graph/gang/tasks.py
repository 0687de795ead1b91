"""The graph of a gang, and what its members do. Tasks ``sort-gang`` and ``sort-joined``, or the output's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ...plan import Runs
from .._dask import List, MarkedTask, Task
from .._distributed import context_meter
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunks_of, take_chunk
from .member import GangSpec, Work, enlist


class GangTask(MarkedTask):
    """The task of a member. Its mark is the `GangSpec`."""

    __slots__ = ()

    def substitute(self, subs: Any, key: Any = None) -> Task:
        """As of other tasks; in a graph whose keys get a suffix, the gang is another one."""
        # Dask hides a task with a suffix in another one, in which it later substitutes only what the task depends on.
        found = super().substitute(subs, key)
        names = [(_name_of(one), _name_of(subs[one])) for one in (self.key, *self.dependencies) if one in subs]
        suffixes = {new[len(old) :] if new.startswith(old) else "" for old, new in names}
        if len(suffixes) != 1:
            return found
        (suffix,) = suffixes
        specs = [replace(one, token=one.token + suffix) if isinstance(one, GangSpec) else one for one in found.args]
        instead = self.mark.instead and self.mark.instead.substitute(subs, subs.get(self.mark.instead.key))
        mark = replace(self.mark, token=self.mark.token + suffix, instead=instead)
        return GangTask(found.key, found.func, *specs, **found.kwargs, mark=mark)


def _name_of(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)


#: A function that can be pickled, of the chunks of a member and its rank: does what the member does before it meets the
#: others, and gives its work.
Job: TypeAlias = Callable[[list[Any], int], Work]


def take_outputs(made: tuple[list[Any], ...], joined: Sequence[Any]) -> tuple[list[Any], ...]:
    """The outputs of a member. `joined` makes the task need all members, and is not used."""
    return made


def note_joined(_: Any) -> None:
    """Task: a member has finished."""


def run_member(arrays: list[Any], job: Job, spec: GangSpec) -> tuple[list[Any], ...]:
    """Task: run one member of a gang, for its chunks of each output."""
    with context_meter.meter("sort"):
        work = job(arrays, spec.rank)
    with enlist(spec, work.on_devices) as member:
        return member.run(work)


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
        for rank, arrays in enumerate(self._arrays):
            spec = self._spec(tasks.token, rank)
            member = tasks.add("sort-gang", rank, run_member, arrays, self.job, spec, kind=GangTask, mark=spec)
            tasks.add("sort-joined", rank, note_joined, member)
        return tasks

    @property
    def _arrays(self) -> list[List]:
        """The chunks of each member."""
        inputs = zip(self.names, map(np.ndindex, self.numblocks), strict=True)
        chunks = [chunk for name, indices in inputs for chunk in chunks_of(name, indices)]
        return [List(*(chunks[one] for one in own)) for own in self.sources]

    def _spec(self, token: str, rank: int) -> GangSpec:
        return GangSpec(token, rank, len(self.sources), self.timeout, self.on_devices)

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
        if not (len(self.made) == 1 and chunks and alone and len(tasks) == len(self.sources)):
            return tasks
        # Each member is a chunk: one step less than behind members.
        found = Tasks(self.token)
        for rank, ((key, task), arrays) in enumerate(zip(tasks.items(), self._arrays, strict=True)):
            spec = self._spec(name, rank)
            found.put(key, run_as_chunk, arrays, self.job, spec, kind=GangTask, mark=replace(spec, instead=task))
        return found

    def _output(self, name: str, which: int, chunks: Chunks, alone: bool) -> Tasks:
        """The chunks of an output; `alone` says that all are wanted, and each member makes some."""
        tasks, indices, ranks = Tasks(self.token), list(np.ndindex(*map(len, chunks))), range(len(self.sources))
        # Else each of them must need every member, because members cannot run without each other: what they make, if
        # that is small, is moved without a step more.
        small = len(self.made) == len(indices) == 1
        behind = List() if alone else tasks.refs("sort-gang" if small else "sort-joined", ranks)
        for rank, own in zip(ranks, self.made[which], strict=True):
            member = Task(None, take_outputs, tasks.ref("sort-gang", rank), behind)
            for at, number in enumerate(own):
                tasks.put((name, *indices[number]), take_chunk, member, which, at)
        return tasks
