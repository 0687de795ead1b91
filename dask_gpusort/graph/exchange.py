"""Stage 3: move every group's keys to where the group is finished. Tasks ``sort-scatter``, then ``sort-merge``.

Three ways, chosen in the plan, for runs that were cut exactly::

    gather   all runs in one list; each group takes its views from it          threads: nothing is copied or moved
    p2p      the shuffle engine of distributed (see `p2p`)                     clusters, NumPy chunks
    tasks    runs joined in bundles; one slab a (bundle, group)                clusters without the engine

    run c   run c+1 ...            bundle b
      |       |                      |
    sort-scatter b: for each group, the bundle's pieces end to end  -> slabs (b, 0) ... (b, G-1)
    sort-merge g:   slabs (0, g) ... (B-1, g), cut into pieces again by the lengths in the cuts -> finish

A fourth, for CuPy chunks on a cluster, has stages of its own: `slabs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from dask._task_spec import List, Task, TaskRef
from dask.typing import Key

from ..chunk import complete, ops_for
from ..chunk.run import Run
from ..order import Order
from ..plan import Plan
from ..table import Cuts
from .finish import Finish


def exchange(token: str, plan: Plan, runs: Sequence[Key], cuts: Key, finish: Finish) -> dict[Key, Task]:
    """Graph of the exchange and the finish.

    Parameters
    ----------
    token : str
    plan : Plan
    runs : sequence of keys, one a chunk
    cuts : key
    finish : Finish

    Returns
    -------
    dict of key to Task
        The finished groups are ``("sort-merge-" + token, group)``.
    """
    if plan.exchange == "p2p":
        # distributed is only imported by those who use it.
        from .p2p import p2p_exchange

        return p2p_exchange(token, runs, cuts, len(plan.groups), finish, partial(check_run, order=plan.order))
    return (_by_tasks if plan.exchange == "tasks" else _by_list)(token, plan, runs, cuts, finish)


def check_run(run: Run, cuts: Cuts, chunk: int, order: Order) -> None:
    """Refuse a run that is not what it was when it was counted.

    A chunk that was lost is computed again. Where its input is not the same each time, the cuts do not fit it any
    more: its length is another, or a cut is not between the keys that belong before and behind it.
    """
    ends = cuts.offsets[chunk, cuts.boundary]
    keys = ops_for(run.keys).sorted_keys(run, order)
    fits = len(run) == cuts.offsets[chunk, -1]
    if not (
        fits and (keys.search(cuts.keys, "left") <= ends).all() and (ends <= keys.search(cuts.keys, "right")).all()
    ):
        less = "" if order.less is None else ". If it does not change, less= is no strict weak order"
        raise RuntimeError(
            f"chunk {chunk} is not what it was when it was counted: the input changes when it is computed again; "
            f"persist it, or give its random numbers a seed{less}"
        )


def _cut_piece(run: Run, cuts: Cuts, chunk: int, group: int) -> Run:
    start, stop = cuts.offsets[chunk, group : group + 2]
    return run[int(start) : int(stop)]


def list_runs(runs: list[Run], cuts: Cuts, order: Order) -> list[Run]:
    """Task: the list of all runs, checked."""
    for chunk, run in enumerate(runs):
        check_run(run, cuts, chunk, order)
    return runs


def merge_from_list(runs: list[Run], cuts: Cuts, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: finish a group from views of all runs."""
    pieces = [_cut_piece(run, cuts, chunk, group) for chunk, run in enumerate(runs)]
    held = [piece for piece in pieces if len(piece)] or pieces[:1]
    # The finish may write to its pieces; of several it makes a copy anyway.
    return finish([held[0].copy()] if len(held) == 1 else held, cuts, group)


def _by_list(token: str, plan: Plan, runs: Sequence[Key], cuts: Key, finish: Finish) -> dict[Key, Task]:
    listed = Task(f"sort-scatter-{token}", list_runs, List(*map(TaskRef, runs)), TaskRef(cuts), plan.order)
    merges = (
        Task((f"sort-merge-{token}", group), merge_from_list, listed.ref(), TaskRef(cuts), group, finish)
        for group in range(len(plan.groups))
    )
    return {task.key: task for task in (listed, *merges)}


def scatter_bundle(runs: list[Run], cuts: Cuts, first_chunk: int, order: Order) -> list[Run]:
    """Task: one contiguous slab for each group, from consecutive runs."""
    for number, run in enumerate(runs):
        check_run(run, cuts, first_chunk + number, order)
    slabs = [
        Run.concat([_cut_piece(run, cuts, first_chunk + number, group) for number, run in enumerate(runs)])
        for group in range(cuts.offsets.shape[1] - 1)
    ]
    complete(slabs[0].keys)
    return slabs


def take_slab(slabs: list[Run], group: int) -> Run:
    """Task: the slab of one group."""
    return slabs[group]


def merge_slabs(slabs: list[Run], cuts: Cuts, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: finish a group from its slabs."""
    whole = Run.concat(slabs)
    lengths = cuts.offsets[:, group + 1] - cuts.offsets[:, group]
    if len(whole) != lengths.sum():
        raise RuntimeError(f"group {group} received {len(whole)} keys where the cuts say {lengths.sum()}")
    pieces, start = [], 0
    for length in lengths[lengths > 0]:
        pieces.append(whole[start : start + int(length)])
        start += int(length)
    found = finish(pieces or [whole], cuts, group)
    complete(found[0])
    return found


def _by_tasks(token: str, plan: Plan, runs: Sequence[Key], cuts: Key, finish: Finish) -> dict[Key, Task]:
    tasks: list[Task] = []
    groups = range(len(plan.groups))
    slabs: dict[tuple[int, int], Task] = {}
    for number, (first, last) in enumerate(plan.bundles):
        bundle = List(*map(TaskRef, runs[first:last]))
        scatter = Task((f"sort-scatter-{token}", number), scatter_bundle, bundle, TaskRef(cuts), first, plan.order)
        for group in groups:
            slabs[number, group] = Task((f"sort-slab-{token}", number, group), take_slab, scatter.ref(), group)
        tasks.append(scatter)
    for group in groups:
        mine = List(*(slabs[number, group].ref() for number in range(len(plan.bundles))))
        tasks.append(Task((f"sort-merge-{token}", group), merge_slabs, mine, TaskRef(cuts), group, finish))
    return {task.key: task for task in (*tasks, *slabs.values())}
