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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..functions.program import Superstep
from ..graph._dask import List, Task, TaskRef
from ..graph.tasks import Tasks
from .turns import Store, list_turns, take_turn


def add_turns(tasks: Tasks, steps: Sequence[Superstep], blocks: Mapping[str, Sequence[Any]], on_workers: bool) -> None:
    """Add the tasks of all supersteps; `blocks` are those of each part and of each group."""
    # Imported here, because it imports distributed.
    kept = import_module(".on_workers", __package__) if on_workers else None
    store, keeps, lists = (kept.OnWorkers(), kept.RunTask, kept.ListTask) if kept else (Store(), Task, Task)
    listed: TaskRef | None = None
    owners: dict[str, list[Any]] = {side: [None] * len(own) for side, own in blocks.items()}
    for step in steps:
        kind = keeps if step.keeps or step.moves == "back" else Task
        given = enumerate(zip(owners[step.side], blocks[step.side], strict=True))
        turns = [
            tasks.add(step.stage, number, take_turn, step, number, store, part, own, listed, kind=kind)
            for number, (own, part) in given
        ]
        blocks = {**blocks, step.side: [None] * len(turns)}
        if step.keeps:
            owners[step.side] = turns
        if step.listing:
            senders = List(*({"out": owners[step.side], "back": turns, "": []}[step.moves]))
            kind = lists if step.moves else Task
            listed = tasks.add(step.listing, 0, list_turns, step, List(*turns), senders, store, listed, kind=kind)
