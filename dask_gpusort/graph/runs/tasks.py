"""The graph of the exchange. Tasks ``sort-local`` and ``sort-scan``, then ``sort-merge`` or the output's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from .plugins import RunTask, check_listed, keep
from .slices import open_run, take_slices
from .store import Handle


class Cut(NamedTuple):
    """What a group takes of each run, and the range that it keeps of that once it is sorted."""

    first: IntArray
    last: IntArray
    kept: slice


@dataclass(frozen=True)
class BoundedRuns(Bounds):
    """The bounds of the cuts, and where the runs are."""

    handles: tuple[Handle, ...]

    def cut(self, group: int) -> Cut:
        """The slices of a group."""
        return Cut(self.first[:, group], self.last[:, group + 1], self.kept(group))


@dataclass(frozen=True)
class CountedRuns:
    """Where the runs are, and their cuts, which are kept as runs are: no task has them all.

    Attributes
    ----------
    handles, tables : tuple of Handle
        Of the runs; and of the cuts of some neighbouring runs each, a row for each group.
    ranks, starts : int64 arrays
        As in `Bounds`.
    """

    handles: tuple[Handle, ...]
    tables: tuple[Handle, ...]
    ranks: IntArray
    starts: IntArray

    def cut(self, group: int) -> Cut:
        """The slices of a group."""
        rows = take_slices(self.tables, [(group, group + 2)] * len(self.tables))
        first = np.concatenate([row.values[0][0] for row in rows])
        last = np.concatenate([row.values[1][1] for row in rows])
        start = int(self.ranks[group] - first.sum())
        return Cut(first, last, slice(start, start + int(self.ranks[group + 1] - self.ranks[group])))


def keep_run(
    arrays: list[Any], source: RunSource, local: LocalSort, samples: int, radix_bits: int
) -> tuple[Handle, RankSummary]:
    """Task: sort a run, and keep it on this worker."""
    run = sorted_run(arrays, source, local)
    summary = numpy_ops.summarize_run(run, None, local.order, samples=samples, radix_bits=radix_bits)
    (handle,) = keep([run])
    return handle, summary


def bound_all(kept: list[tuple[Handle, RankSummary]], plan: Plan) -> BoundedRuns:
    """Task: bounds of all cuts."""
    handles, summaries = zip(*kept, strict=True)
    check_listed(handles)
    sizes = checked_sizes(plan, np.concatenate([summary.sizes for summary in summaries]))
    found = bound_cuts(summaries, boundary_ranks(plan, sizes), numpy_ops.key_order(plan.order), plan.radix_bits)
    return BoundedRuns(**vars(found), handles=handles)


def open_kept(kept: tuple[Handle, RankSummary]) -> Run:
    """Task: a run, for who reads few of its keys."""
    return open_run(kept[0])


def keep_cuts(cuts: Cuts) -> Handle:
    """Task: keep the cuts of some neighbouring runs, a row for each group."""
    tables = tuple(np.ascontiguousarray(ends.T) for ends in (cuts.first, cuts.last))
    (handle,) = keep([Run(np.zeros(len(tables[0]), np.uint8), tables)])
    return handle


def list_runs(
    kept: list[tuple[Handle, RankSummary]], tables: list[Handle], boundaries: Boundaries, order: Order
) -> CountedRuns:
    """Task: where all runs are, and their cuts."""
    handles = tuple(handle for handle, _ in kept)
    check_listed([*handles, *tables])
    changed = np.flatnonzero([handle.length for handle in handles] != np.diff(boundaries.starts))
    if len(changed):
        raise changed_run((int(changed[0]),), order)
    return CountedRuns(handles, tuple(tables), boundaries.ranks, boundaries.starts)


def merge_group(kept: BoundedRuns | CountedRuns, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: take the slices of a group from all runs, and finish the group."""
    cut = kept.cut(group)
    numbers = np.flatnonzero(cut.last > cut.first).tolist() or [0]
    bounds = [(int(cut.first[number]), int(cut.last[number])) for number in numbers]
    runs = take_slices([kept.handles[number] for number in numbers], bounds)
    pieces: list[Piece] = [(int(kept.starts[number]), run) for number, run in zip(numbers, runs, strict=True)]
    return finish(pieces, cut.kept, _memory_for(runs, finish))


def _memory_for(runs: Sequence[Run], finish: Finish) -> tuple[Any, ...]:
    """The memory of the slices, if they are neighbours there and keys alone, which are sorted where they are."""
    keys, order = Run.concat(runs, copy=None).keys, finish.order
    alone = finish.with_keys and not runs[0].values
    return (keys.view(order.dtype),) if alone and order.coded and keys.dtype.itemsize == order.dtype.itemsize else ()


def merge_as_chunk(kept: BoundedRuns | CountedRuns, group: int, finish: Finish) -> Any:
    """Task: finish a group that is one chunk of the only output array."""
    (chunk,) = merge_group(kept, group, finish)
    return chunk


def exchange_runs(
    token: str,
    plan: Plan,
    sources: tuple[Sequence[RunSource], LocalSort, Sequence[Sequence[Key]]],
    finish: Finish,
    direct: Collection[int] = (),
) -> dict[Key, Task]:
    """Graph of all stages from the input chunks to the finished groups.

    Parameters
    ----------
    token : str
    plan : Plan
    sources : Sources
        As for `task_exchange.exchange_by_tasks`.
    finish : Finish
    direct : collection of int
        Groups that the output's own tasks finish.

    Returns
    -------
    dict of key to Task
        The other finished groups are ``("sort-merge-" + token, group)``.
    """
    runs, local, keys = sources
    tasks: list[Task] = []
    for number, source in enumerate(runs):
        key = (f"sort-local-{token}", number)
        arguments = (chunk_arrays(source, keys), source, local, plan.samples, plan.radix_bits)
        tasks.append(RunTask(key, keep_run, *arguments))
    kept = List(*(task.ref() for task in tasks))
    listed = _list_key(token, plan)
    if plan.rounds:
        counted, found = find_cuts(token, plan, [Task(None, open_kept, task.ref()) for task in tasks])
        tasks += counted.values()
        tables = [
            RunTask((f"sort-keep-{token}", number), keep_cuts, TaskRef(cuts)) for number, cuts in enumerate(found.cuts)
        ]
        refs = List(*(table.ref() for table in tables)), TaskRef(found.boundaries)
        tasks += [*tables, RunTask(listed, list_runs, kept, *refs, plan.order, lists=True)]
    else:
        tasks.append(RunTask(listed, bound_all, kept, plan, lists=True))
    merges = (group for group in range(len(plan.groups)) if group not in direct)
    tasks += (_merge((f"sort-merge-{token}", group), merge_group, listed, group, finish) for group in merges)
    return {task.key: task for task in tasks}


def direct_outputs(keys: Mapping[int, Key], token: str, plan: Plan, finish: Finish) -> dict[Key, Task]:
    """Graph of the output chunks that are one group each, which their own tasks finish."""
    tasks = (_merge(key, merge_as_chunk, _list_key(token, plan), group, finish) for group, key in keys.items())
    return {task.key: task for task in tasks}


def _list_key(token: str, plan: Plan) -> Key:
    """Key of the task that lists the runs, with their cuts."""
    return (f"sort-list-{token}", 0) if plan.rounds else (f"sort-scan-{token}", 0)


def _merge(key: Key, function: Any, listed: Key, group: int, finish: Finish) -> Task:
    return Task(key, function, TaskRef(listed), group, finish)
