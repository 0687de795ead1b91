"""Stage 3: move every group's keys to where the group is finished. Tasks ``sort-scatter``, then ``sort-merge``.

In one process all runs are in one list, and each group takes its views from it: nothing is copied or moved. On a
cluster exchanges have their own stages, from the input chunks on: see `runs`, `task_exchange` and `gang`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..chunk.free_memory import return_free_memory
from ..chunk.run import Run
from ..order import Order
from ..plan import Plan, Runs
from ..table import Boundaries, Cuts
from ._dask import List, TaskRef
from .cut_runs import CutRun, cut_run, own_pieces
from .cuts import CutRefs
from .finish import Finish
from .tasks import Tasks

#: Bytes of runs whose memory is returned to the system when they are freed; for fewer it takes longer than it is worth.
RETURNED_BYTES = 64 << 20


def exchange(tasks: Tasks, plan: Plan, runs: Sequence[TaskRef], found: CutRefs, finish: Finish) -> None:
    """Add the exchange and the finish; each finished group is a task ``sort-merge``."""
    cuts, boundaries = List(*found.cuts), found.boundaries
    listed = tasks.add("sort-scatter", 0, list_runs, List(*runs), plan.runs, cuts, boundaries, plan.order)
    for group in range(len(plan.groups)):
        tasks.add("sort-merge", group, merge_from_list, listed, boundaries, group, finish)


class RunList:
    """Hold all runs and their cuts, whose memory returns to the system with the list."""

    def __init__(self, runs: list[CutRun]):
        self.runs = runs

    def __del__(self) -> None:
        large = sum(cut.run.nbytes for cut in self.runs) >= RETURNED_BYTES
        self.runs.clear()
        if large:
            return_free_memory()


def list_runs(runs: list[Run], chunks: Runs, cuts: list[Cuts], boundaries: Boundaries, order: Order) -> RunList:
    """Task: all runs, each of some chunks, and their cuts."""
    cuts_of = [some for some in cuts for _ in some.first]
    numbered = enumerate(zip(runs, chunks, cuts_of, strict=True))
    return RunList([cut_run(run, number, own, some, boundaries, order) for number, (run, own, some) in numbered])


def merge_from_list(listed: RunList, boundaries: Boundaries, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: finish a group from views of all runs."""
    return finish(own_pieces([run.piece(group) for run in listed.runs]), boundaries.kept(group))
