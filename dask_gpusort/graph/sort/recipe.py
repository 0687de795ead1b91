"""What the tasks of a sort are made from: by an exchange, stage by stage, or all chunks in one task, the join.

A join keeps equal keys in the order of their chunks, so the result has the same bits as every exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from dask.tokenize import tokenize
from dask.typing import Key
from tlz import partition

from ...chunk import complete, ops_for
from ...plan import Plan
from ..in_one_task import assemble, chunk_starts
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks
from .by_tasks import Sources, exchange_by_tasks, finish_one
from .finish import Finish, merge_from_list, output_chunks
from .local import LocalSort, check_presorted, checked_block, chunk_origins, local_sorts, run_sources
from .scatter import own_pieces, scatter
from .sort_last import chunks_of_groups, sort_last


@dataclass(frozen=True)
class JoinedSort:
    """Sort chunks that are joined: a function that can be pickled."""

    local: LocalSort
    finish: Finish
    axis: int
    arrays: int  # of each chunk: the keys and the companions, or several arrays of keys
    presorted: tuple[tuple[int, int], ...] = ()  # as in `SortRecipe`

    def __call__(self, chunks: list[Any], sizes: Chunks) -> tuple[Any, ...]:
        """Task: concatenate all chunks and sort them, into whole arrays and the chunks' starts in each dimension."""
        ops, order = ops_for(chunks[0]), self.local.order
        blocks = [
            checked_block(block, order, self.local.packed, f"chunk {number} of the input", len(sizes))
            for number, block in enumerate(partition(self.arrays, chunks))
        ]
        starts = chunk_starts([block[0].shape for block in blocks], sizes)
        with ops.exclusive():
            if self.presorted:
                found = self._merge(blocks, starts[0])
            elif len(sizes) == 1:
                found = self._sort_array(list(zip(*blocks, strict=True)))
            else:
                found = self._sort_rows(list(zip(*blocks, strict=True)), starts)
        complete(found[0])
        return (*found, starts)

    def _merge(self, blocks: Sequence[Sequence[Any]], starts: np.ndarray) -> tuple[Any, ...]:
        sources = zip(blocks, chunk_origins(self.presorted), strict=True)
        runs = [check_presorted(*block, order=self.local.order, origin=origin) for block, origin in sources]
        return self.finish(own_pieces(list(zip(map(int, starts), runs, strict=False))), slice(0, int(starts[-1])))

    def _sort_array(self, columns: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        ops, order = ops_for(columns[0][0]), self.local.order
        keys, *values = columns
        if self.local.packed:
            keys, values = [ops.pack(list(map(ops.concatenate, columns)), self.local.directions)], []
        if self.local.positions:
            return (ops.argsort_chunks(keys, order),)
        if not values:
            return (ops.sort_chunks(keys, order),)
        found: tuple[Any, ...] = ops.sort_chunks_by_key(keys, values, order, with_keys=self.finish.with_keys)
        return found

    def _sort_rows(self, columns: Sequence[Sequence[Any]], starts: Sequence[np.ndarray]) -> tuple[Any, ...]:
        ops, order, axis = ops_for(columns[0][0]), self.local.order, self.axis
        keys, *values = (assemble(column, starts, axis) for column in columns)
        if self.local.packed:
            keys, values = ops.pack([keys, *values], self.local.directions), []
        if self.finish.with_keys and not values:
            return (ops.sort_rows(keys, order, axis, overwrite=len(columns[0]) > 1),)
        positions = ops.argsort_rows(keys, order, axis)
        if self.local.positions:
            return (positions,)
        arrays = (keys, *values) if self.finish.with_keys else values
        return tuple(ops.take_rows(array, positions, axis) for array in arrays)


@dataclass(frozen=True)
class SortRecipe(ArrayRecipe):
    """Hold all that the tasks of one sort are made from."""

    plan: Plan
    local: LocalSort  # how runs are made from chunks
    finish: Finish  # the function that finishes a group
    #: Of the input arrays, keys first; all with the same chunks along the first dimension, and one along others.
    names: tuple[str, ...]
    extra_dims: tuple[int, ...]  # dimensions of each input after the first
    #: For presorted chunks, (number, chunks): how many come from each of the user's arrays; else empty.
    presorted: tuple[tuple[int, int], ...] = ()
    gang_timeout: float = 60  # the setting where the sort is built, read here because tasks are made on a scheduler
    on_devices: bool = False  # whether the chunks are on GPUs

    @cached_property
    def token(self) -> str:
        return tokenize(self.plan, self.local, self.finish, self.names, self.presorted)

    @property
    def takes_held_chunks(self) -> bool:
        """Whether held chunks become part of the tasks: all run in one process."""
        return self.plan.exchange == "gather"

    @property
    def first_tasks(self) -> int:
        return len(self.plan.runs)

    @property
    def direct(self) -> dict[int, int]:
        """Groups that are one chunk of the only output, and the number of that chunk."""
        return self.plan.whole_chunks if self._one_output else {}

    @property
    def _one_output(self) -> bool:
        values = len(self.names) - max(1, len(self.local.packed))
        return self.finish.with_keys + self.finish.with_positions + values == 1

    @property
    def _sources(self) -> Sources:
        """How runs are made, and from which chunks."""
        keys = [
            [(name, chunk) + (0,) * extra for name, extra in zip(self.names, self.extra_dims, strict=True)]
            for chunk in range(len(self.plan.sizes))
        ]
        return run_sources(self.plan, self.presorted), self.local, keys

    @property
    def _gang(self) -> Any:
        # Imported here, because it imports distributed.
        return import_module("dask_gpusort.graph.gang.tasks")

    @property
    def _runs(self) -> Any:
        return import_module("dask_gpusort.graph.runs.tasks")  # as above

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the input chunks to the finished groups; chunks in `held` become part of them."""
        plan, tasks = self.plan, Tasks(self.token)
        if plan.exchange == "gang":
            self._gang.gang_exchange(tasks, *self._member)
        elif plan.exchange == "runs":
            self._runs.exchange_runs(tasks, plan, self._sources, self.finish, self.direct)
        elif plan.by_tasks:
            exchange_by_tasks(tasks, plan, self._sources, self.finish, self.direct)
        elif plan.sorts_last:
            sort_last(tasks, plan, *self._sources, held)
        else:
            listed = scatter(tasks, plan, local_sorts(tasks, plan, *self._sources, held))
            for group in range(len(plan.groups)):
                tasks.add("sort-merge", group, merge_from_list, listed, group, self.finish)
        return tasks

    @property
    def _member(self) -> tuple[Any, ...]:
        """What the tasks of the members of a gang are made from."""
        members = self._gang.sort_members(self.plan, self._sources, self.finish)
        return members, self.gang_timeout, self.on_devices

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the finished groups to the chunks of one output array."""
        plan, tasks, extra = self.plan, Tasks(self.token), len(chunks) - 1
        if plan.exchange == "gang":
            return self._of_members(tasks, name, which, extra, all_wanted=False)
        if plan.sorts_last:
            chunks_of_groups(tasks, name, plan)
            return tasks
        keeps = plan.exchange == "runs"
        groups = [tasks.ref("sort-merge", group) for group in range(len(plan.groups))]
        cuts = tasks.ref("sort-list", 0) if keeps else tasks.ref("sort-scan", 0)
        output_chunks(tasks, name, plan, plan.groups, groups, cuts, which, extra)
        for group, chunk in self.direct.items():
            key = (name, chunk) + (0,) * extra
            if keeps:
                self._runs.finish_alone(tasks, key, group, self.finish)
            else:
                finish_one(tasks, key, plan, group, self.finish, alone=True)
        return tasks

    @property
    def whole_output(self) -> Callable[[str, int, Chunks], Tasks] | None:
        """For a gang, which needs fewer tasks if all output chunks are computed."""
        return self._whole_output if self.plan.exchange == "gang" else None

    def _whole_output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        tasks = self._of_members(Tasks(self.token), name, which, len(chunks) - 1, all_wanted=True)
        if self._one_output and self.plan.groups_are_chunks:
            return self._gang.member_chunks(tasks, *self._member)
        return tasks

    def _of_members(self, tasks: Tasks, name: str, which: int, extra: int, all_wanted: bool) -> Tasks:
        alone = all_wanted and self.plan.all_have_chunks
        members, cuts = self._gang.member_outputs(tasks, len(self.plan.sources), alone)
        output_chunks(tasks, name, self.plan, self.plan.groups, members, cuts, which, extra)
        return tasks
