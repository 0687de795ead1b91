"""The graph of the exchange. Tasks ``sort-local`` and ``sort-list``, then ``sort-merge`` or the output's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from dask.typing import Key

from ...chunk import numpy_ops
from ...chunk.run import Run
from ...order import Order
from ...plan import Plan
from ...table import Boundaries, Cuts, IntArray, RankSummary
from .._dask import List, Task
from ..input_checks import changed_run
from ..sort.by_tasks import Sources
from ..sort.finish import Finish
from ..sort.local import LocalSort, RunSource, chunk_arrays, sorted_run
from ..sort.scan import Bounds, bound_cuts, boundary_ranks, checked_sizes, find_cuts
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


def cuts_as_run(cuts: Bounds | Cuts) -> Run:
    """Cuts of some runs, a row for each group."""
    first, last = (np.ascontiguousarray(ends.T) for ends in (cuts.first, cuts.last))
    return rows_as_run(first, last)


def keep_run(arrays: list[Any], source: RunSource, local: LocalSort) -> Handle:
    """Task: sort a run, and keep it on this worker."""
    (handle,) = keep([sorted_run(arrays, source, local)])
    return handle


def keep_summarized(
    arrays: list[Any], source: RunSource, local: LocalSort, samples: int, radix_bits: int
) -> tuple[Handle, RankSummary]:
    """Task: the same, with the summary of the run, for the one task that bounds all cuts."""
    run = sorted_run(arrays, source, local)
    summary = numpy_ops.summarize_run(run, None, local.order, samples=samples, radix_bits=radix_bits)
    (handle,) = keep([run])
    return handle, summary


def bound_all(kept: list[tuple[Handle, RankSummary]], plan: Plan) -> ListedRuns:
    """Task: where all runs are, and the bounds of their cuts."""
    handles, summaries = zip(*kept, strict=True)
    check_listed(handles)
    sizes = checked_sizes(plan, np.concatenate([summary.sizes for summary in summaries]))
    found = bound_cuts(summaries, boundary_ranks(plan, sizes), numpy_ops.key_order(plan.order), plan.radix_bits)
    return ListedRuns(handles, cuts_as_run(found), found.ranks, found.starts)


def keep_cuts(cuts: Cuts) -> Handle:
    """Task: keep the cuts of some neighbouring runs, a row for each group."""
    (handle,) = keep([cuts_as_run(cuts)])
    return handle


def list_runs(handles: list[Handle], tables: list[Handle], boundaries: Boundaries, order: Order) -> ListedRuns:
    """Task: where all runs are, and their exact cuts."""
    check_listed([*handles, *tables])
    changed = np.flatnonzero([handle.length for handle in handles] != np.diff(boundaries.starts))
    if len(changed):
        raise changed_run((int(changed[0]),), order)
    return ListedRuns(tuple(handles), tuple(tables), boundaries.ranks, boundaries.starts)


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
    keep_one, counting = (keep_run, ()) if plan.rounds else (keep_summarized, (plan.samples, plan.radix_bits))
    kept = [
        tasks.add("sort-local", number, keep_one, chunk_arrays(source, keys), source, local, *counting, kind=RunTask)
        for number, source in enumerate(runs)
    ]
    if plan.rounds:
        found = find_cuts(tasks, plan, [Task(None, open_run, run) for run in kept])
        tables = [
            tasks.add("sort-keep", number, keep_cuts, cuts, kind=RunTask) for number, cuts in enumerate(found.cuts)
        ]
        refs = List(*kept), List(*tables), found.boundaries
        tasks.add("sort-list", 0, list_runs, *refs, plan.order, kind=ListTask)
    else:
        tasks.add("sort-list", 0, bound_all, List(*kept), plan, kind=ListTask)
    for group in range(len(plan.groups)):
        if group not in direct:
            tasks.add("sort-merge", group, merge_group, tasks.ref("sort-list", 0), group, finish)


def direct_outputs(tasks: Tasks, keys: Mapping[int, Key], plan: Plan, finish: Finish) -> None:
    """Add the output chunks that are one group each, as `by_tasks.direct_outputs`."""
    for group, key in keys.items():
        tasks.put(key, getitem, Task(None, merge_group, tasks.ref("sort-list", 0), group, finish), 0)
