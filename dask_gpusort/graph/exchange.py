"""Stage 3: move every group's keys to where the group is finished. Tasks ``sort-scatter``, then ``sort-merge``.

Runs with exact cuts are exchanged in one of two ways::

    gather   all runs in one list; each group takes its views from it    one process: nothing is copied or moved
    p2p      the shuffle engine of distributed (see `p2p`)               clusters, NumPy chunks that exceed the memory

The exchange by tasks has its own stages, from the input chunks on: see `device_exchange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask._task_spec import List, Task, TaskRef
from dask.typing import Key

from ..chunk.run import Run
from ..order import Order
from ..plan import Plan, Runs
from ..table import Boundaries, Cuts
from .cut_runs import CutRun, cut_run, own_pieces
from .cuts import CutKeys
from .finish import Finish


def exchange(token: str, plan: Plan, runs: Sequence[Key], cuts: CutKeys, finish: Finish) -> dict[Key, Task]:
    """Graph of the exchange and the finish.

    Parameters
    ----------
    token : str
    plan : Plan
    runs : sequence of keys
    cuts : CutKeys
    finish : Finish

    Returns
    -------
    dict of key to Task
        The finished groups are ``("sort-merge-" + token, group)``.
    """
    if plan.exchange == "p2p":
        # Imported here, because it imports distributed.
        from .p2p import p2p_exchange

        return p2p_exchange(token, plan, runs, cuts, finish)
    return _gather(token, plan, runs, cuts, finish)


def list_runs(runs: list[Run], chunks: Runs, cuts: list[Cuts], boundaries: Boundaries, order: Order) -> list[CutRun]:
    """Task: all runs, each of some chunks, and their cuts."""
    cuts_of = [some for some in cuts for _ in some.first]
    numbered = enumerate(zip(runs, chunks, cuts_of, strict=True))
    return [cut_run(run, number, own, some, boundaries, order) for number, (run, own, some) in numbered]


def merge_from_list(runs: list[CutRun], boundaries: Boundaries, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: finish a group from views of all runs."""
    return finish(own_pieces([run.piece(group) for run in runs]), boundaries.kept(group))


def _gather(token: str, plan: Plan, runs: Sequence[Key], cuts: CutKeys, finish: Finish) -> dict[Key, Task]:
    boundaries = TaskRef(cuts.boundaries)
    all_runs, all_cuts = List(*map(TaskRef, runs)), List(*map(TaskRef, cuts.cuts))
    listed = Task(f"sort-scatter-{token}", list_runs, all_runs, plan.runs, all_cuts, boundaries, plan.order)
    merges = (
        Task((f"sort-merge-{token}", group), merge_from_list, listed.ref(), boundaries, group, finish)
        for group in range(len(plan.groups))
    )
    return {task.key: task for task in (listed, *merges)}
