"""The exchange by groups through the P2P shuffle engine of distributed.

Data flow, for R runs, G groups and W workers::

    run 0   run 1   ...  run R-1       on any worker
      |       |            |    .----- cuts: of each run, G pieces
    sort-scatter  (R tasks)            cut a run; one batch of records a (run, worker)
      |       |            |
    ~~~~~~~~ the engine ~~~~~~~~       R x W messages, batched; R x G records appended to G files
      |       |            |
    shuffle-barrier  (1 task)          all records have arrived
      |       |            |    .----- how many keys each group receives, and which of them it keeps
    sort-merge    (G tasks)            read the group's file into run order, check that all is there, finish

The graph has R + G + 1 tasks and nothing of size R x G; the pieces never become tasks or keys. A worker's groups are
neighbours, so its batch is one slice of the run. `p2p_records` defines the form of the pieces, `p2p_engine` the classes
for the engine.

If a worker is lost before the last group is read, the engine restarts the exchange: lost runs are computed again, and
every run is sent again. A run that changed would no longer fit the cuts; that is checked when a run is cut. When a
group is read, its completeness is checked.

Import this module only where a client of distributed is in use: it imports distributed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from dask.typing import Key

from ..chunk.run import Run
from ..order import Order
from ..plan import Plan
from ..table import Boundaries, Cuts
from ._dask import Task, TaskRef
from .cut_runs import cut_run
from .cuts import CutKeys
from .finish import Finish
from .p2p_records import read_group

# Another version of distributed may lack something: then this exchange is unavailable, and everything else works.
engine: Any = None
_mismatch: str | None
try:
    from ..graph import p2p_engine as engine
except (ImportError, AttributeError, TypeError) as error:
    _mismatch = f"{type(error).__name__}: {error}"
else:
    _mismatch = engine.mismatch()


def unavailable() -> str | None:
    """Why the installed version of distributed cannot run this exchange; None if it can."""
    return _mismatch or _failure()


@functools.cache
def _failure() -> str | None:
    """What a trial found, once in a process."""
    from .p2p_check import try_engine

    return try_engine()


def p2p_exchange(token: str, plan: Plan, runs: Sequence[Key], cuts: CutKeys, finish: Finish) -> dict[Key, Task]:
    """Build the graph of the exchange.

    Parameters
    ----------
    token : str
        Identifies the exchange: two graphs with one token on one cluster share it.
    plan : Plan
    runs : sequence of keys
        Tasks that give a `Run` of NumPy arrays each.
    cuts : CutKeys
    finish : Finish
        It may write to its pieces. They are end to end in memory, so that concatenating them copies nothing. Its
        errors pass unchanged.

    Returns
    -------
    dict of key to Task
        Outputs are ``("sort-merge-" + token, group)``.

    Raises
    ------
    RuntimeError
        If the installed version of distributed does not fit (see `unavailable`).
    """
    if reason := unavailable():
        raise RuntimeError(f"the P2P exchange does not work here ({reason}): choose exchange='tasks'")
    shuffle_id = engine.ShuffleId(f"sort-{token}")
    boundaries, num_groups = TaskRef(cuts.boundaries), len(plan.groups)
    scatters = []
    for number, (run, chunks) in enumerate(zip(runs, plan.runs, strict=True)):
        arguments = (shuffle_id, number, chunks, TaskRef(run), TaskRef(cuts.of(number)), boundaries, plan.order)
        scatters.append(Task((f"sort-scatter-{token}", number), scatter_run, *arguments))
    barrier = engine.P2PBarrierTask(
        engine.barrier_key(shuffle_id),  # the scheduler finds the spec by this name
        engine.p2p_barrier,
        shuffle_id,
        *(task.ref() for task in scatters),
        spec=engine.SortSpec(id=shuffle_id, disk=True, num_groups=num_groups),
    )
    merges = [
        Task((f"sort-merge-{token}", group), merge_group, shuffle_id, group, barrier.ref(), boundaries, finish)
        for group in range(num_groups)
    ]
    return {task.key: task for task in (*scatters, barrier, *merges)}


def scatter_run(
    shuffle_id: str,
    number: int,
    chunks: tuple[int, ...],
    run: Run,
    cuts: Cuts,
    boundaries: Boundaries,
    order: Order,
) -> int:
    """Task: cut a run, made from some chunks, and send its pieces.

    Returns
    -------
    int
        Number of the exchange attempt that received the pieces; the barrier compares these numbers.

    Raises
    ------
    RuntimeError
        If the run changed since the cuts were made.
    """
    run_id: int = engine.send_run(shuffle_id, number, cut_run(run, number, chunks, cuts, boundaries, order))
    return run_id


def merge_group(shuffle_id: str, group: int, run_id: int, boundaries: Boundaries, finish: Finish) -> tuple[Any, ...]:
    """Task: read the pieces of one group, check that all are there, and finish the group."""
    file = engine.receive_group(shuffle_id, group, run_id)
    try:
        pieces = read_group(file, group, boundaries.received(group))
    finally:
        if file is not None:
            file.close()
    return finish(pieces, boundaries.kept(group))
