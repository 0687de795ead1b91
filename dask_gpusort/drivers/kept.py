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

from ..functions.program import Superstep
from ..graph._dask import List, Task, TaskRef
from ..graph.tasks import Tasks
from .notes import add_sums
from .turns import Store, list_turns, take_array, take_turn
from .wiring import Wired, wire


@dataclass(frozen=True)
class KeptRuns:
    """Make the tasks of a program whose runs are kept, on workers or in memory."""

    steps: Sequence[Superstep]
    on_workers: bool

    @cached_property
    def _kinds(self) -> tuple[Store, type[Task], type[Task]]:
        """The store of runs, and the kinds of tasks that keep and that list them."""
        # Imported here, because it imports distributed.
        kept = import_module(".on_workers", __package__) if self.on_workers else None
        return (kept.OnWorkers(), kept.RunTask, kept.ListTask) if kept else (Store(), Task, Task)

    def add(self, tasks: Tasks, blocks: Mapping[str, Sequence[Any]], alone: Collection[int]) -> None:
        """Add the tasks of all supersteps; `blocks` are those of each part and of each group.

        Groups that are `alone` have no task in the last superstep.
        """
        store, keeps, lists = self._kinds
        wired = wire(self.steps)
        for at, (step, _, decided, _, sender) in enumerate(wired):
            kind = keeps if step.keeps or step.moves == "back" else Task
            known, own = {one.step.side for one in wired[:at]}, blocks[step.side]
            for number, part in enumerate(own):
                if at + 1 < len(wired) or number not in alone:
                    part = None if step.side in known and not step.rereads else part
                    tasks.add(step.stage, number, *self._turn(tasks, wired[at], number, part), kind=kind)
            if not step.listing:
                continue
            turns = [tasks.ref(step.stage, number) for number in range(len(own))]
            senders = List(*(tasks.ref(sender, number) for number in range(len(own)) if sender))
            before = tasks.ref(decided, 0) if decided else None
            if step.sums:
                add_sums(tasks, step, turns, senders, store, before, keeps, lists)
            else:
                kind = lists if step.moves else Task
                tasks.add(step.listing, 0, list_turns, step, List(*turns), senders, store, before, kind=kind)

    def put_last(self, tasks: Tasks, key: Key, group: int, which: int) -> None:
        """Add the last superstep of a group, as the task of a chunk that is one of its arrays."""
        tasks.put(key, take_array, Task(None, *self._turn(tasks, wire(self.steps)[-1], group, None)), which, None)

    def made_by(self, tasks: Tasks, step: Superstep, number: int) -> TaskRef:
        """What a superstep has made of a part or a group."""
        return tasks.ref(step.stage, number)

    def _turn(self, tasks: Tasks, wired: Wired, number: int, part: Any) -> tuple[Callable[..., Any], *tuple[Any, ...]]:
        own = tasks.ref(wired.owner, number) if wired.owner else None
        listed = tasks.ref(wired.decided, 0) if wired.decided else None
        return take_turn, wired.step.lean, number, self._kinds[0], part, own, listed
