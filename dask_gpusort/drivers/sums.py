r"""Notes that no task may have all: some at a time are added up, and their senders' ends are kept as runs are.

::

    sort-count r, some of them      notes
       |             \
    sort-sum          |             their sum; then sums of sums
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
from typing import Any

import numpy as np
from tlz import partition_all

from ..chunk.run import Run
from ..functions.program import Ends, Superstep
from ..graph._dask import List, Task, TaskRef
from ..graph.tasks import Tasks
from ..plan import counting
from ..table import IntArray
from .turns import Listed, Store, Turn, list_senders


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


def add_notes(notes: list[Turn | IntArray]) -> IntArray:
    """Task: the sum of notes, or of sums."""
    return np.sum([one.note if isinstance(one, Turn) else one for one in notes], axis=0)


def decide_by_sum(step: Superstep, notes: list[Turn | IntArray], before: Listed) -> Listed:
    """Task: decide from the sum of all notes."""
    return Listed(step.decide_by_sum(add_notes(notes), before.decision), before.marks, [], None, None)


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


def add_sums(
    tasks: Tasks,
    step: Superstep,
    turns: Sequence[TaskRef],
    senders: List,
    store: Store,
    before: TaskRef | None,
    keeps: type[Task],
    lists: type[Task],
) -> None:
    """Add the tasks that decide and list, as `turns.list_turns` does, of notes that no task may have all."""
    prefix = step.listing.rpartition("-")[0]
    nodes = read = [List(*some) for some in partition_all(counting.FAN_IN, turns)]
    level = 0
    while len(read) > 1:
        sums = [tasks.add(f"{prefix}-sum", (level, node), add_notes, some) for node, some in enumerate(read)]
        read, level = [List(*some) for some in partition_all(counting.FAN_IN, sums)], level + 1
    decided = tasks.add(f"{prefix}-sums", 0, decide_by_sum, step, read[0], before)
    tables = []
    for number, some in enumerate(nodes):
        table = step.lean, some, number * counting.FAN_IN, decided, store
        tables.append(tasks.add(f"{prefix}-keep", number, keep_ends, *table, kind=keeps))
    tasks.add(step.listing, 0, list_kept, decided, List(*tables), senders, store, kind=lists)
