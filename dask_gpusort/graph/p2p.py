"""The exchange by groups through the P2P shuffle engine of distributed.

Data flow, for C chunks, G groups and W workers::

    run 0   run 1   ...  run C-1       sorted chunks, on any worker
      |       |            |    .----- cuts: offsets (C, G + 1)
    sort-scatter  (C tasks)            cut a run where the cuts say; one slab of records a (chunk, worker)
      |       |            |
    ~~~~~~~~ the engine ~~~~~~~~       C x W messages, batched; C x G records appended to G files
      |       |            |
    shuffle-barrier  (1 task)          all records have arrived
      |       |            |    .----- cuts
    sort-merge    (G tasks)            read the group's file into chunk order, check it against the cuts, finish

The graph has C + G + 1 tasks and nothing of size C x G; the pieces never become tasks or keys. A worker's groups are
neighbours, so the slab for it is one slice of the run. What the pieces look like is in `p2p_records`, the classes that
the engine wants are in `p2p_engine`.

If a worker is lost at any time before the last group is read, the engine starts the exchange again: runs that are lost
are computed again, and every chunk is sent again. Chunks that are then not what they were would no longer fit the cuts;
lengths are checked when a run is cut and when it arrives.

Import this module only where a client of distributed is in use: it imports distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from dask._task_spec import Task, TaskRef
from dask.typing import Key
from numpy.typing import NDArray

from ..chunk.run import Run
from .p2p_records import read_group

# What is missing from another version of distributed decides whether this exchange can be used, no more than that.
engine: Any = None
_mismatch: str | None
try:
    from . import p2p_engine as engine
except (ImportError, AttributeError, TypeError) as error:
    _mismatch = f"{type(error).__name__}: {error}"
else:
    _mismatch = engine.mismatch()


class Cuts(Protocol):
    """Where each sorted chunk is cut between groups."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Shape (num_chunks, num_groups + 1): keys offsets[c, g] to offsets[c, g + 1] of chunk c go to group g."""


T = TypeVar("T")
C = TypeVar("C", bound=Cuts)


def unavailable() -> str | None:
    """Say why the installed version of distributed cannot run this exchange; None if it can."""
    return _mismatch


def p2p_exchange(
    token: str,
    runs: Sequence[Key],
    cuts: Key,
    num_groups: int,
    finish: Callable[[list[Run], C, int], T],
    check: Callable[[Run, C, int], None] | None = None,
) -> dict[Key, Task]:
    """Build the graph of the exchange.

    Parameters
    ----------
    token : str
        Names this exchange. Two graphs of one token on one cluster are taken for the same exchange.
    runs : sequence of keys, one a chunk
        Tasks that give the sorted chunks, each a `Run` of NumPy arrays.
    cuts : key
        Task that gives the `Cuts`.
    num_groups : int
        Number of groups, G.
    finish : callable(pieces, cuts, group)
        Makes the output of one group. ``pieces`` are its runs in chunk order, without those that have no keys (the
        chunks are ``np.flatnonzero(np.diff(cuts.offsets[:, group:group + 2])[:, 0])``), but never an empty list: a
        group without keys gets one empty run of the right dtypes. The pieces belong to this call and may be written
        to; they lie end to end in memory, so ``Run.concat(pieces, copy=None)`` copies nothing. What it raises is
        raised as it is.

    check : callable(run, cuts, chunk), optional
        Refuses a chunk that does not fit its cuts, by raising, before any of it is sent. Lengths are checked anyway.

    Returns
    -------
    dict of key to Task
        Outputs are ``("sort-merge-" + token, g)`` for g in range(num_groups).

    Raises
    ------
    RuntimeError
        If the installed version of distributed does not fit (see `unavailable`).
    """
    if _mismatch is not None:
        raise RuntimeError(f"the P2P exchange does not work here ({_mismatch}): choose exchange='tasks'")
    shuffle_id = engine.ShuffleId(f"sort-{token}")
    all_cuts = TaskRef(cuts)
    scatters = [
        Task((f"sort-scatter-{token}", chunk), scatter_run, shuffle_id, chunk, TaskRef(run), all_cuts, check)
        for chunk, run in enumerate(runs)
    ]
    barrier = engine.P2PBarrierTask(
        engine.barrier_key(shuffle_id),  # the scheduler finds the spec by this name
        engine.p2p_barrier,
        shuffle_id,
        *(task.ref() for task in scatters),
        spec=engine.SortSpec(id=shuffle_id, disk=True, num_groups=num_groups),
    )
    merges = [
        Task((f"sort-merge-{token}", group), merge_group, shuffle_id, group, barrier.ref(), all_cuts, finish)
        for group in range(num_groups)
    ]
    return {task.key: task for task in (*scatters, barrier, *merges)}


def scatter_run(
    shuffle_id: str, chunk: int, run: Run, cuts: C, check: Callable[[Run, C, int], None] | None = None
) -> int:
    """Task: cut a sorted chunk and send its pieces.

    Returns
    -------
    int
        Number of the attempt at the exchange that the pieces went into; the barrier compares them.

    Raises
    ------
    RuntimeError
        If the chunk is not as long as it was when the cuts were made.
    """
    row = cuts.offsets[chunk]
    if row[0] != 0 or row[-1] != len(run):
        raise RuntimeError(
            f"chunk {chunk} has {len(run)} keys, but its cuts go from {row[0]} to {row[-1]}: the input is not the "
            "same each time it is computed. Persist it before sorting."
        )
    if check is not None:
        check(run, cuts, chunk)
    run_id: int = engine.send_run(shuffle_id, chunk, run, row)
    return run_id


def merge_group(shuffle_id: str, group: int, run_id: int, cuts: Cuts, finish: Callable[[list[Run], Cuts, int], T]) -> T:
    """Task: read the pieces of one group, check them against the cuts, and finish the group."""
    lengths = cuts.offsets[:, group + 1] - cuts.offsets[:, group]
    file = engine.receive_group(shuffle_id, group, run_id)
    try:
        pieces = read_group(file, group, lengths)
    finally:
        if file is not None:
            file.close()
    return finish(pieces, cuts, group)
