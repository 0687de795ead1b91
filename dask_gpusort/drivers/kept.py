r"""The driver that keeps runs: each receiver takes its rows from where they are, once it is its turn.

On threads a run is in memory, and its rows are views. On a cluster the worker that made it keeps it (see `graph.runs`).
One task lists the runs of all senders, and receivers depend on it alone, so a graph does not grow with senders times
receivers::

    unique-local r        part r keeps its run
         |     \
         |    unique-scan          decides from the notes of all
         |     /
    unique-cut r
         |
    unique-list                    lists all runs, and whose rows are where
         |
    unique-merge g        group g takes its rows of all runs

Notes that no task may have all are combined, some at a time, and what each sender's note says of its ends is kept as
runs are (see `notes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from dask.typing import Key
from tlz import concat, partition_all

from ..functions.program import Superstep
from ..graph._dask import List, Task, TaskRef
from ..graph.tasks import Tasks
from .notes import Kinds, add_sums
from .turns import Store, list_turns, take_array, take_turn
from .wiring import Wired, decides_alone, wire

#: Results that one task gathers. With 16 or 32 Dask keeps more chunks in memory.
GATHERED = 8


@dataclass(frozen=True)
class KeptRuns:
    """Make the tasks of a program whose runs are kept, on workers or in memory."""

    steps: Sequence[Superstep]
    on_workers: bool
    counts: Mapping[str, int]  # of the parts and of the groups
    turns: range  # the supersteps that it makes the tasks of
    gathers: bool  # whether what many parts make is gathered a few at a time

    @cached_property
    def _kinds(self) -> Kinds:
        # Imported here, because it imports distributed.
        return import_module(".on_workers", __package__).KINDS if self.on_workers else Kinds(Store())

    @cached_property
    def _wired(self) -> list[Wired]:
        return wire(self.steps)

    def add(self, tasks: Tasks, blocks: Mapping[str, Sequence[Any]], alone: Collection[int]) -> None:
        """Add the tasks of the supersteps; `blocks` are those of each part and of each group.

        Groups that are `alone` have no task in the last superstep.
        """
        kinds = self._kinds
        for at in self.turns:
            step, _, decided, _, sender = self._wired[at]
            kind = kinds.keeps if step.keeps or step.moves == "back" else Task
            known = {one.side for one in self.steps[:at]}
            for number, part in enumerate(blocks[step.side] if step.stage else []):
                if at + 1 < len(self.steps) or number not in alone:
                    part = None if step.side in known and not step.rereads else part
                    tasks.add(step.stage, number, *self._turn(tasks, at, number, part), kind=kind)
            if step.sums:
                before = tasks.ref(decided, 0) if decided else None
                made, senders = (self._refs(tasks, stage, step.side) for stage in (step.stage, sender))
                add_sums(tasks, step, made, List(*senders), kinds, before)
            elif step.listing:
                tasks.add(step.listing, 0, *self._listing(tasks, at), kind=kinds.lists if step.moves else kinds.others)

    def put_last(self, tasks: Tasks, key: Key, group: int, which: int) -> None:
        """Add the last superstep of a group, as the task of a chunk that is one of its arrays."""
        tasks.put(key, take_array, Task(None, *self._turn(tasks, len(self.steps) - 1, group, None)), which, None)

    def made_by(self, tasks: Tasks, step: Superstep, number: int) -> TaskRef:
        """What a superstep has made of a part or a group."""
        return tasks.ref(step.stage, number)

    def _turn(self, tasks: Tasks, at: int, number: int, part: Any) -> tuple[Callable[..., Any], *tuple[Any, ...]]:
        """One superstep of a part or a group: a task's function and arguments."""
        step, owner, decided, *_ = self._wired[at]
        own = tasks.ref(owner, number) if owner else None
        listed: Any = tasks.ref(decided, 0) if decided else None
        if at and decides_alone(self.steps[at - 1]):
            listed = Task(None, *self._listing(tasks, at - 1))
        return take_turn, step.lean, number, self._kinds.store, part, own, listed

    def _listing(self, tasks: Tasks, at: int) -> tuple[Callable[..., Any], *tuple[Any, ...]]:
        """The decision behind a superstep: a task's function and arguments."""
        step, _, decided, _, sender = self._wired[at]
        made = self._gathered(tasks, step.stage, step.side)
        senders = made if sender == step.stage else List(*self._refs(tasks, sender, step.side))
        return list_turns, step, made, senders, self._kinds.store, tasks.ref(decided, 0) if decided else None

    def _refs(self, tasks: Tasks, stage: str, side: str) -> list[TaskRef]:
        return [tasks.ref(stage, number) for number in range(self.counts[side] if stage else 0)]

    def _gathered(self, tasks: Tasks, stage: str, side: str) -> Any:
        """What a superstep has made of all parts or groups; adds the tasks that gather it, if there are some."""
        lists: list[Any] = self._refs(tasks, stage, side)
        if not self.gathers or len(lists) <= GATHERED:
            return List(*lists)
        lists, first = [List(one) for one in lists], 0
        while len(lists) > GATHERED:
            some = enumerate(partition_all(GATHERED, lists), first)
            name = stage.replace("-", "-gather-", 1)
            lists = [tasks.add(name, number, gather, List(*own), kind=self._kinds.others) for number, own in some]
            first += len(lists)
        return Task(None, gather, List(*lists))


def gather(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Task: one list of what several lists have."""
    return list(concat(lists))
