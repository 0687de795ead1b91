"""The graph of the exchange. Tasks ``sort-local`` and ``sort-list``, then ``sort-merge`` or the output's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.typing import Key

from ...chunk import numpy_ops
from ...chunk.run import Run
from ...order import Order
from ...plan import Plan
from ...table import Boundaries, Cuts, IntArray, RankSummary
from .._dask import List, Task, TaskRef
from ..bounds import Bounds, bound_cuts
from ..cut_runs import Piece
from ..cuts import boundary_ranks, checked_sizes, find_cuts
from ..finish import Finish
from ..input_checks import changed_run
from ..local_sort import LocalSort, RunSource, chunk_arrays, sorted_run
from ..task_exchange import Sources
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
    return finish(pieces, own, _memory_for(runs, finish))


def _memory_for(runs: Sequence[Run], finish: Finish) -> tuple[Any, ...]:
    """The memory of the slices, if they are neighbours there and keys alone, which are sorted where they are."""
    keys, order = Run.concat(runs, copy=None).keys, finish.order
    alone = finish.with_keys and not runs[0].values
    return (keys.view(order.dtype),) if alone and order.coded and keys.dtype.itemsize == order.dtype.itemsize else ()


def merge_as_chunk(kept: ListedRuns, group: int, finish: Finish) -> Any:
    """Task: finish a group that is one chunk of the only output array."""
    (chunk,) = merge_group(kept, group, finish)
    return chunk


def exchange_runs(
    token: str, plan: Plan, sources: Sources, finish: Finish, direct: Collection[int] = ()
) -> dict[Key, Task]:
    """Graph of all stages, as of `task_exchange.exchange_by_tasks`; `ListedRuns` are ``("sort-list-" + token, 0)``."""
    runs, local, keys = sources
    keep_one, counting = (keep_run, ()) if plan.rounds else (keep_summarized, (plan.samples, plan.radix_bits))
    tasks: list[Task] = [
        RunTask((f"sort-local-{token}", number), keep_one, chunk_arrays(source, keys), source, local, *counting)
        for number, source in enumerate(runs)
    ]
    kept = List(*(task.ref() for task in tasks))
    listed = (f"sort-list-{token}", 0)
    if plan.rounds:
        counted, found = find_cuts(token, plan, [Task(None, open_run, task.ref()) for task in tasks])
        tasks += counted.values()
        tables = [
            RunTask((f"sort-keep-{token}", number), keep_cuts, TaskRef(cuts)) for number, cuts in enumerate(found.cuts)
        ]
        refs = List(*(table.ref() for table in tables)), TaskRef(found.boundaries)
        tasks += [*tables, ListTask(listed, list_runs, kept, *refs, plan.order)]
    else:
        tasks.append(ListTask(listed, bound_all, kept, plan))
    merges = (group for group in range(len(plan.groups)) if group not in direct)
    tasks += (_merge((f"sort-merge-{token}", group), merge_group, token, group, finish) for group in merges)
    return {task.key: task for task in tasks}


def direct_outputs(keys: Mapping[int, Key], token: str, plan: Plan, finish: Finish) -> dict[Key, Task]:
    """Graph of the output chunks that are one group each, as of `task_exchange.direct_outputs`."""
    tasks = (_merge(key, merge_as_chunk, token, group, finish) for group, key in keys.items())
    return {task.key: task for task in tasks}


def _merge(key: Key, function: Any, token: str, group: int, finish: Finish) -> Task:
    return Task(key, function, TaskRef((f"sort-list-{token}", 0)), group, finish)
