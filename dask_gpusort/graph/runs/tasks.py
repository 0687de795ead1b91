"""The graph of the exchange. Tasks ``sort-local`` and ``sort-scan``, then ``sort-merge`` or the output's own."""

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
from ...table import Boundaries, Cuts, RankSummary
from .._dask import List, Task, TaskRef
from ..bounds import Bounds, bound_cuts, fingerprint
from ..cut_runs import Piece
from ..cuts import boundary_ranks, checked_sizes, find_cuts
from ..finish import Finish
from ..input_checks import changed_run
from ..local_sort import LocalSort, RunSource, chunk_arrays, sorted_run
from .plugins import RunTask, check_listed, keep, own_store
from .slices import take_slices
from .store import Handle


@dataclass(frozen=True)
class KeptRuns(Bounds):
    """The bounds of the cuts, and where the runs are."""

    handles: tuple[Handle, ...]


def keep_run(
    arrays: list[Any], source: RunSource, local: LocalSort, samples: int, radix_bits: int
) -> tuple[Handle, RankSummary]:
    """Task: sort a run, and keep it on this worker."""
    run = sorted_run(arrays, source, local)
    summary = numpy_ops.summarize_run(run, None, local.order, samples=samples, radix_bits=radix_bits)
    (handle,) = keep([run])
    return handle, summary


def bound_all(kept: list[tuple[Handle, RankSummary]], plan: Plan) -> KeptRuns:
    """Task: bounds of all cuts."""
    handles, summaries = zip(*kept, strict=True)
    check_listed(handles)
    sizes = checked_sizes(plan, np.concatenate([summary.sizes for summary in summaries]))
    found = bound_cuts(summaries, boundary_ranks(plan, sizes), numpy_ops.key_order(plan.order), plan.radix_bits)
    return KeptRuns(**vars(found), handles=handles)


def open_run(kept: tuple[Handle, RankSummary]) -> Run:
    """Task: a run, for who reads few of its keys."""
    handle, _ = kept
    return own_store().open(handle) or take_slices([handle], [(0, handle.length)])[0]


def list_runs(
    kept: list[tuple[Handle, RankSummary]], cuts: list[Cuts], boundaries: Boundaries, order: Order
) -> KeptRuns:
    """Task: where all runs are, and their cuts."""
    handles, summaries = zip(*kept, strict=True)
    check_listed(handles)
    lengths = np.diff(boundaries.starts)
    changed = [number for number, handle in enumerate(handles) if handle.length != lengths[number]]
    if changed:
        raise changed_run((changed[0],), order)
    first, last = (np.concatenate([getattr(some, end) for some in cuts]) for end in ("first", "last"))
    checksums = tuple(map(fingerprint, summaries))
    return KeptRuns(first, last, boundaries.ranks, boundaries.starts, checksums, handles)


def merge_group(kept: KeptRuns, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: take the slices of a group from all runs, and finish the group."""
    numbers = np.flatnonzero(kept.lengths(group)).tolist() or [0]
    bounds = [(piece.start, piece.stop) for piece in (kept.piece(number, group) for number in numbers)]
    runs = take_slices([kept.handles[number] for number in numbers], bounds)
    pieces: list[Piece] = [(int(kept.starts[number]), run) for number, run in zip(numbers, runs, strict=True)]
    return finish(pieces, kept.kept(group), _memory_for(runs, finish))


def _memory_for(runs: Sequence[Run], finish: Finish) -> tuple[Any, ...]:
    """The memory of the slices, if they are neighbours there and keys alone, which are sorted where they are."""
    keys, order = Run.concat(runs, copy=None).keys, finish.order
    alone = finish.with_keys and not runs[0].values
    return (keys.view(order.dtype),) if alone and order.coded and keys.dtype.itemsize == order.dtype.itemsize else ()


def merge_as_chunk(kept: KeptRuns, group: int, finish: Finish) -> Any:
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
        counted, found = find_cuts(token, plan, [Task(None, open_run, task.ref()) for task in tasks])
        tasks += counted.values()
        cuts = List(*map(TaskRef, found.cuts))
        tasks.append(RunTask(listed, list_runs, kept, cuts, TaskRef(found.boundaries), plan.order, lists=True))
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
