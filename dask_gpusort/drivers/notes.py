r"""Notes that no task may have all: some at a time are combined, and their senders' ends are kept as runs are.

::

    sort-count r, some of them      notes
       |             \
    sort-sum          |             one for all of them, here their sum; then some of these
       |              |
    sort-sums         |             one: decides from the sum of all
       |         \    |
       |      sort-keep             the ends of these senders, a row for each receiver
       |          |
    sort-list                       lists all runs, and these tables
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from tlz import partition_all

from ..chunk.run import Run
from ..functions.program import Ends, Superstep
from ..graph._dask import List, Task, TaskRef
from ..graph.tasks import Tasks
from .turns import Listed, Store, Turn, list_senders, turns_of


@dataclass(frozen=True)
class KeptEnds:
    """Read the ends of a receiver from tables that are kept, of some neighbouring senders each."""

    tables: tuple[Any, ...]
    store: Store

    def to(self, receiver: int) -> Ends:
        """As `Ends.to`."""
        rows = self.store.take([(0, table, receiver, receiver + 1) for table in self.tables])
        first, last = (np.concatenate([row.values[side][0] for row in rows])[:, None] for side in (0, 1))
        return Ends(first, last)


def combine_notes(step: Superstep, notes: Sequence[Any]) -> Any:
    """Task: the note that stands for some."""
    return step.combine(_notes_of(notes))


def conclude(step: Superstep, notes: Sequence[Any]) -> tuple[Any, ...]:
    """Task: the results, from notes that stand for all."""
    found: tuple[Any, ...] = step.decide(_notes_of(notes), None)
    return found


def _notes_of(made: Sequence[Any]) -> list[Any]:
    """The notes that turns have, or combined notes as they are."""
    return [one.note if isinstance(one, Turn) else one for one in turns_of(made)]


def decide_alone(step: Superstep, notes: Sequence[Any], before: Listed) -> Listed:
    """Task: decide from notes that stand for all."""
    return Listed(step.decide(_notes_of(notes), before.decision), before.marks, [], None, None)


def keep_ends(step: Superstep, turns: list[Turn], first: int, decided: Listed, store: Store) -> Any:
    """Task: keep the ends of some neighbouring senders, the first of them number `first`."""
    ends = step.ends(decided.decision, [turn.note for turn in turns], first)
    rows = [np.ascontiguousarray(side.T) for side in (ends.first, ends.last)]
    (kept,) = store.keep([Run(np.zeros(len(rows[0]), np.uint8), tuple(rows))])
    return kept


def list_kept(decided: Listed, tables: list[Any], senders: list[Turn], store: Store) -> Listed:
    """Task: list the runs of senders, and the tables of their ends."""
    ends: Any = KeptEnds(tuple(tables), store)
    return list_senders(senders, store, Listed(decided.decision, decided.marks, [], None, ends), tables)


class Kinds(NamedTuple):
    """The store of runs, and the kinds of tasks that keep runs, that list them, and that others wait for."""

    store: Store
    keeps: type[Task] = Task
    lists: type[Task] = Task
    others: type[Task] = Task


def add_combined(tasks: Tasks, step: Superstep, notes: Sequence[TaskRef], kind: type[Task] = Task) -> List:
    """Add the tasks that combine notes, and give so few that one task may have all."""
    level = 0
    while step.combining and len(notes) > step.fan_in:
        some = enumerate(partition_all(step.fan_in, notes))
        notes = [
            tasks.add(step.combining, (level, at), combine_notes, step.lean, List(*own), kind=kind) for at, own in some
        ]
        level += 1
    return List(*notes)


def add_sums(
    tasks: Tasks,
    step: Superstep,
    turns: Sequence[TaskRef],
    senders: List,
    kinds: Kinds,
    before: TaskRef | None,
) -> None:
    """Add the tasks that decide and list, as `turns.list_turns` does, of notes that no task may have all."""
    prefix = step.listing.rpartition("-")[0]
    few = add_combined(tasks, step, turns, kinds.others)
    decided = tasks.add(f"{prefix}-sums", 0, decide_alone, step, few, before, kind=kinds.others)
    tables = []
    for number, some in enumerate(partition_all(step.fan_in, turns)):
        table = step.lean, List(*some), number * step.fan_in, decided, kinds.store
        tables.append(tasks.add(f"{prefix}-keep", number, keep_ends, *table, kind=kinds.keeps))
    tasks.add(step.listing, 0, list_kept, decided, List(*tables), senders, kinds.store, kind=kinds.lists)
