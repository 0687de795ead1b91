"""The recipe of one sort: all that its tasks are made from, for either of Dask's array classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from dask.tokenize import tokenize
from dask.typing import Key

from ..plan import Plan
from ._dask import Task, TaskRef
from .cuts import find_cuts
from .exchange import exchange
from .finish import Finish, output_chunks
from .local_sort import NOTHING, LocalSort, local_sorts, run_sources
from .task_exchange import Sources, direct_outputs, exchange_by_tasks

Chunks = tuple[tuple[float, ...], ...]


class ArrayRecipe:
    """Say what Dask arrays are made from: a subclass is a frozen dataclass whose fields determine all tasks."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    names: tuple[str, ...]  # of the input arrays, a field

    @cached_property
    def token(self) -> str:
        """What the names of the tasks contain: equal recipes have equal tasks."""
        return tokenize(*(getattr(self, field.name) for field in fields(self)))

    @property
    def takes_held_chunks(self) -> bool:
        """Whether chunks that the input's graph contains become part of the tasks."""
        return False

    @property
    def is_gang(self) -> bool:
        """Whether a gang exchanges. It needs fewer tasks if all output chunks are wanted."""
        return False

    @property
    def first_tasks(self) -> int:
        """Number of the tasks that read input chunks, if every output chunk needs all of them; else 0."""
        return 0

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> dict[Key, Task]:
        """Tasks that all outputs share; chunks in `held` become part of them."""
        return {}

    def output(self, name: str, which: int, chunks: Chunks, *, all_wanted: bool = False) -> dict[Key, Task]:
        """Tasks from the shared ones to the chunks of one output array, of which all may be wanted."""
        raise NotImplementedError


@dataclass(frozen=True)
class Recipe(ArrayRecipe):
    """Hold all that the tasks of one sort are made from."""

    plan: Plan
    with_keys: bool  # whether the finished groups hold keys besides the companions
    with_positions: bool  # and whether they hold positions
    #: Of the input arrays, keys first; all with the same chunks along the first dimension, and one along others.
    names: tuple[str, ...]
    extra_dims: tuple[int, ...]  # dimensions of each input after the first
    #: For presorted chunks, (number, chunks): how many come from each of the user's arrays; else empty.
    presorted: tuple[tuple[int, int], ...] = ()
    #: Dtypes of several arrays of keys, most significant first, which are packed into one; else empty.
    packed: tuple[np.dtype[Any], ...] = ()
    directions: tuple[bool, ...] = ()  # whether each of them descends
    gang_timeout: float = 60  # the setting where the sort is built, read here because tasks are made on a scheduler
    on_devices: bool = False  # whether the chunks are on GPUs

    @cached_property
    def token(self) -> str:
        fields = self.plan, self.with_keys, self.with_positions, self.names, self.presorted
        return tokenize(*fields, self.packed, self.directions)

    @property
    def takes_held_chunks(self) -> bool:
        """Whether held chunks become part of the tasks: all run in one process."""
        return self.plan.exchange == "gather"

    @property
    def is_gang(self) -> bool:
        return self.plan.exchange == "gang"

    @property
    def first_tasks(self) -> int:
        return len(self.plan.runs)

    @property
    def local_sort(self) -> LocalSort:
        """How runs are made from chunks."""
        return LocalSort(self.plan.order, self.with_positions, self.plan.staged, self.packed, self.directions)

    @property
    def finish(self) -> Finish:
        """The function that finishes a group."""
        return Finish(self.plan.order, self.with_keys, self.with_positions, self.plan.staged)

    @property
    def direct(self) -> dict[int, int]:
        """Groups that are one chunk of the only output, and the number of that chunk."""
        return self.plan.whole_chunks if self._one_output else {}

    @property
    def _one_output(self) -> bool:
        values = len(self.names) - max(1, len(self.packed))
        return self.with_keys + self.with_positions + values == 1

    @property
    def _sources(self) -> Sources:
        """How runs are made, and from which chunks."""
        keys = [
            [(name, chunk) + (0,) * extra for name, extra in zip(self.names, self.extra_dims, strict=True)]
            for chunk in range(len(self.plan.sizes))
        ]
        return run_sources(self.plan, self.presorted), self.local_sort, keys

    @property
    def _gang(self) -> Any:
        # Imported here, because it imports distributed.
        return import_module("dask_gpusort.graph.gang.tasks")

    @property
    def _runs(self) -> Any:
        return import_module("dask_gpusort.graph.runs.tasks")  # as above

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> dict[Key, Task]:
        """Tasks from the input chunks to the finished groups; chunks in `held` become part of them."""
        plan, token = self.plan, self.token
        if self.is_gang:
            own = self.finish, self.gang_timeout, self.on_devices
            return self._gang.gang_exchange(token, plan, self._sources, *own)
        if plan.exchange == "runs":
            return self._runs.exchange_runs(token, plan, self._sources, self.finish, self.direct)
        if plan.by_tasks:
            return exchange_by_tasks(token, plan, self._sources, self.finish, self.direct)
        sources, local, keys = self._sources
        sorts = local_sorts(token, local, sources, keys, held)
        runs = list(sorts)
        counts, cuts = find_cuts(token, plan, list(map(TaskRef, runs)))
        return {**sorts, **counts, **exchange(token, plan, runs, cuts, self.finish)}

    def output(self, name: str, which: int, chunks: Chunks, *, all_wanted: bool = False) -> dict[Key, Task]:
        """Tasks from the finished groups to the chunks of one output array."""
        if self.is_gang:
            members, cuts = self._gang.member_outputs(self.token, self.plan, all_wanted)
            made = [(own.start, own.stop, 0, 1) for own in self.plan.member_chunks]
            tasks = output_chunks(name, self.plan, made, members, cuts, which, len(chunks) - 1)
            if all_wanted and self._one_output and self.plan.members_are_chunks:
                own = self.finish, self.gang_timeout, self.on_devices
                return self._gang.member_chunks(tasks, self.plan, self._sources, *own)
            return tasks
        groups = [TaskRef((f"sort-merge-{self.token}", group)) for group in range(len(self.plan.groups))]
        keeps = self.plan.exchange == "runs"
        cuts = TaskRef((f"sort-list-{self.token}", 0) if keeps else (f"sort-scan-{self.token}", self.plan.rounds))
        tasks = output_chunks(name, self.plan, self.plan.groups, groups, cuts, which, len(chunks) - 1)
        keys: dict[int, Key] = {group: (name, chunk) for group, chunk in self.direct.items()}
        if keeps:
            return {**tasks, **self._runs.direct_outputs(keys, self.token, self.plan, self.finish)}
        return {**tasks, **direct_outputs(keys, self.token, self.plan, self.finish)}


def output_name(prefix: str, token: str, which: int, chunks: Chunks) -> str:
    """Name of one output array of a recipe; several sorts may share their stages and differ in the output's chunks."""
    return f"{prefix}-{tokenize(token, which, chunks)}"
