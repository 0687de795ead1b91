"""Stage 3: move every group's keys to where the group is finished. Tasks ``sort-scatter``, then ``sort-merge``.

The plan chooses one of three strategies for runs with exact cuts::

    gather   all runs in one list; each group takes its views from it          threads: nothing is copied or moved
    p2p      the shuffle engine of distributed (see `p2p`)                     clusters, NumPy chunks
    tasks    runs joined in bundles; one shard a (bundle, group)               clusters without the engine

    run r   run r+1 ...            bundle b
      |       |                      |
    sort-scatter b: for each group, the bundle's pieces end to end   -> shards (b, 0) ... (b, G-1)
    sort-merge g:   shards (0, g) ... (B-1, g), divided into pieces by the lengths sent with them -> finish

The fourth strategy, for CuPy chunks on a cluster, has its own stages: see `device_exchange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from dask._task_spec import List, Task, TaskRef
from dask.typing import Key
from tlz import concat

from ..chunk import complete
from ..chunk.free_memory import return_free_memory
from ..chunk.run import Run
from ..order import Order
from ..plan import Plan, Runs
from ..table import Boundaries, Cuts
from .cut_runs import CutRun, cut_run, own_pieces
from .cuts import CutKeys
from .finish import Finish
from .input_checks import changed_source

#: Bytes of runs whose memory is returned to the system when they are freed; for fewer it takes longer than it is worth.
RETURNED_BYTES = 64 << 20
#: Pieces of neighbouring runs for one group, end to end; each run's start in the input; the pieces' lengths.
BundleShard: TypeAlias = tuple[Run, tuple[int, ...], tuple[int, ...]]


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
    return (_by_tasks if plan.exchange == "tasks" else _by_list)(token, plan, runs, cuts, finish)


class RunList:
    """All runs and their cuts. With the list, their memory is returned to the system.

    Attributes
    ----------
    runs : list of CutRun
    """

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


def _by_list(token: str, plan: Plan, runs: Sequence[Key], cuts: CutKeys, finish: Finish) -> dict[Key, Task]:
    boundaries = TaskRef(cuts.boundaries)
    all_runs, all_cuts = List(*map(TaskRef, runs)), List(*map(TaskRef, cuts.cuts))
    listed = Task(f"sort-scatter-{token}", list_runs, all_runs, plan.runs, all_cuts, boundaries, plan.order)
    merges = (
        Task((f"sort-merge-{token}", group), merge_from_list, listed.ref(), boundaries, group, finish)
        for group in range(len(plan.groups))
    )
    return {task.key: task for task in (listed, *merges)}


def scatter_bundle(
    runs: list[Run], first: int, chunks: Runs, cuts: Cuts, boundaries: Boundaries, order: Order
) -> list[BundleShard]:
    """Task: a shard for each group, copied from consecutive runs; the first has number `first`, each some chunks."""
    numbered = enumerate(zip(runs, chunks, strict=True), first)
    bundle = [cut_run(run, number, own, cuts, boundaries, order) for number, (run, own) in numbered]
    shards = []
    for group in range(len(boundaries.ranks) - 1):
        starts, pieces = zip(*(run.piece(group) for run in bundle), strict=True)
        shards.append((Run.concat(pieces), starts, tuple(map(len, pieces))))
    complete(shards[0][0].keys)
    return shards


def take_shard(shards: list[BundleShard], group: int) -> BundleShard:
    """Task: the shard of one group."""
    return shards[group]


def merge_shards(shards: list[BundleShard], boundaries: Boundaries, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: finish a group from its shards."""
    whole = Run.concat([run for run, _, _ in shards])
    if len(whole) != boundaries.received(group):
        what = f"group {group} received {len(whole)} keys where the cuts say {boundaries.received(group)}"
        raise changed_source(what, finish.order)
    starts, lengths = (list(concat(column)) for column in zip(*((shard[1], shard[2]) for shard in shards), strict=True))
    ends = pairwise(accumulate(lengths, initial=0))
    pieces = [(start, whole[slice(*end)]) for start, length, end in zip(starts, lengths, ends, strict=True) if length]
    found = finish(pieces or [(0, whole)], boundaries.kept(group))
    complete(found[0])
    return found


def _by_tasks(token: str, plan: Plan, runs: Sequence[Key], cuts: CutKeys, finish: Finish) -> dict[Key, Task]:
    tasks: list[Task] = []
    groups = range(len(plan.groups))
    shards: dict[tuple[int, int], Task] = {}
    boundaries = TaskRef(cuts.boundaries)
    for number, (first, last) in enumerate(plan.bundles):
        arguments = (first, plan.runs[first:last], TaskRef(cuts.of(first)), boundaries, plan.order)
        bundle = List(*map(TaskRef, runs[first:last]))
        scatter = Task((f"sort-scatter-{token}", number), scatter_bundle, bundle, *arguments)
        for group in groups:
            shards[number, group] = Task((f"sort-shard-{token}", number, group), take_shard, scatter.ref(), group)
        tasks.append(scatter)
    for group in groups:
        mine = List(*(shards[number, group].ref() for number in range(len(plan.bundles))))
        tasks.append(Task((f"sort-merge-{token}", group), merge_shards, mine, boundaries, group, finish))
    return {task.key: task for task in (*tasks, *shards.values())}
