"""The graph of the exchange. Tasks ``sort-local`` and ``sort-list``, then ``sort-merge`` or the output's own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from dask.typing import Key

from ...chunk.run import Run
from ...plan import Plan, counting
from ...table import IntArray, RankSummary, exclusive_scan
from .._dask import List, Task
from ..sort.by_tasks import Sources
from ..sort.count import Chosen, count_all
from ..sort.finish import Finish
from ..sort.local import LocalSort, RunSource, chunk_arrays, sort_run, summarizers
from ..sort.scan import bound_cuts
from ..sort.scatter import Piece
from ..tasks import Tasks
from .keep_and_take import check_listed, keep, open_run, rows_as_run, take_slices
from .plugins import ListTask, RunTask
from .store import Handle


@dataclass(frozen=True)
class ListedRuns:
    """Hold where the runs are, and their cuts."""

    handles: tuple[Handle, ...]
    #: The bounds of all cuts, a row for each group. If there are too many, they are kept as runs are: no task has more
    #: than those of some neighbouring runs.
    cuts: Run | tuple[Handle, ...]
    ranks: IntArray  # as in `Bounds`
    starts: IntArray  # as in `Bounds`

    def cut(self, group: int) -> tuple[IntArray, IntArray, slice]:
        """Where the slices of a group begin and end, and the range that it keeps of them once they are sorted."""
        if isinstance(self.cuts, Run):
            rows = [self.cuts[group : group + 2]]
        else:
            rows = take_slices(self.cuts, [(group, group + 2)] * len(self.cuts))
        first = np.concatenate([row.values[0][0] for row in rows])
        last = np.concatenate([row.values[1][1] for row in rows])
        begin = int(self.ranks[group] - first.sum())
        return first, last, slice(begin, begin + int(self.ranks[group + 1] - self.ranks[group]))


def cuts_as_run(first: IntArray, last: IntArray) -> Run:
    """Cuts of some runs, a row for each group."""
    return rows_as_run(*(np.ascontiguousarray(ends.T) for ends in (first, last)))


def keep_run(
    arrays: list[Any], source: RunSource, local: LocalSort, summarize: Callable[..., Any]
) -> tuple[Handle, Any]:
    """Task: as `sort_run`, of a run that is kept on this worker."""
    run, summary = sort_run(arrays, source, local, summarize)
    (handle,) = keep([run])
    return handle, summary


def bound_all(kept: list[tuple[Handle, RankSummary]], plan: Plan) -> ListedRuns:
    """Task: where all runs are, and the bounds of their cuts."""
    handles, summaries = zip(*kept, strict=True)
    check_listed(handles)
    found = bound_cuts(summaries, plan)
    return ListedRuns(handles, cuts_as_run(found.first, found.last), found.ranks, found.starts)


def keep_cuts(counts: list[IntArray], first: int, chosen: Chosen) -> Handle:
    """Task: keep the cuts of some neighbouring runs, a row for each group."""
    (handle,) = keep([cuts_as_run(*chosen.cut(counts, first))])
    return handle


def list_runs(kept: list[tuple[Handle, Any]], tables: list[Handle], chosen: Chosen, plan: Plan) -> ListedRuns:
    """Task: where all runs are, and tables of the bounds of their cuts."""
    handles = tuple(handle for handle, _ in kept)
    check_listed([*handles, *tables])
    chosen.check([handle.length for handle in handles], plan)
    return ListedRuns(handles, tuple(tables), chosen.ranks, exclusive_scan(chosen.sizes))


def merge_group(kept: ListedRuns, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: take the slices of a group from all runs, and finish the group."""
    first, last, own = kept.cut(group)
    numbers = np.flatnonzero(last > first).tolist() or [0]
    bounds = [(int(first[number]), int(last[number])) for number in numbers]
    runs = take_slices([kept.handles[number] for number in numbers], bounds)
    pieces: list[Piece] = [(int(kept.starts[number]), run) for number, run in zip(numbers, runs, strict=True)]
    return finish(pieces, own)


def exchange_runs(tasks: Tasks, plan: Plan, sources: Sources, finish: Finish, direct: Collection[int] = ()) -> None:
    """Add all stages, as `by_tasks.exchange_by_tasks`; `ListedRuns` are ``sort-list``."""
    runs, local, keys = sources
    kept = [
        tasks.add("sort-local", number, keep_run, chunk_arrays(source, keys), source, local, summarize, kind=RunTask)
        for number, (source, summarize) in enumerate(zip(runs, summarizers(plan), strict=True))
    ]
    if plan.candidates:
        opened = [Task(None, open_run, Task(None, getitem, one, 0)) for one in kept]
        counts, chosen = count_all(tasks, plan, kept, opened)
        tables = [
            tasks.add("sort-keep", number, keep_cuts, some, number * counting.FAN_IN, chosen, kind=RunTask)
            for number, some in enumerate(counts)
        ]
        tasks.add("sort-list", 0, list_runs, List(*kept), List(*tables), chosen, plan, kind=ListTask)
    else:
        tasks.add("sort-list", 0, bound_all, List(*kept), plan, kind=ListTask)
    for group in range(len(plan.groups)):
        if group not in direct:
            tasks.add("sort-merge", group, merge_group, tasks.ref("sort-list", 0), group, finish)


def finish_alone(tasks: Tasks, key: Key, group: int, finish: Finish) -> None:
    """Add an output chunk that is one group."""
    tasks.put(key, getitem, Task(None, merge_group, tasks.ref("sort-list", 0), group, finish), 0)
