"""Stage 3: move every group's keys to where the group is finished. Tasks ``sort-scatter``, then ``sort-merge``.

In one process all runs are in one list, and each group takes its views from it: nothing is copied or moved. On a
cluster exchanges have their own stages, from the input chunks on: see `runs`, `task_exchange` and `gang`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask.typing import Key

from ..chunk.free_memory import return_free_memory
from ..chunk.run import Run
from ..order import Order
from ..plan import Plan, Runs
from ..table import Boundaries, Cuts
from ._dask import List, Task, TaskRef
from .cut_runs import CutRun, cut_run, own_pieces
from .cuts import CutKeys
from .finish import Finish

#: Bytes of runs whose memory is returned to the system when they are freed; for fewer it takes longer than it is worth.
RETURNED_BYTES = 64 << 20


def exchange(token: str, plan: Plan, runs: Sequence[Key], cuts: CutKeys, finish: Finish) -> dict[Key, Task]:
    """Make the graph of the exchange and the finish; finished groups are ``("sort-merge-" + token, group)``."""
    boundaries = TaskRef(cuts.boundaries)
    all_runs, all_cuts = List(*map(TaskRef, runs)), List(*map(TaskRef, cuts.cuts))
    listed = Task(f"sort-scatter-{token}", list_runs, all_runs, plan.runs, all_cuts, boundaries, plan.order)
    merges = (
        Task((f"sort-merge-{token}", group), merge_from_list, listed.ref(), boundaries, group, finish)
        for group in range(len(plan.groups))
    )
    return {task.key: task for task in (listed, *merges)}


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
