"""The graph of the exchange. Tasks ``sort-local`` and ``sort-scan``, then ``sort-merge`` or the output's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.typing import Key

from ...chunk import numpy_ops
from ...plan import Plan
from ...table import RankSummary
from .._dask import List, Task, TaskRef
from ..bounds import Bounds, bound_cuts
from ..cut_runs import Piece
from ..cuts import boundary_ranks, checked_sizes
from ..finish import Finish
from ..local_sort import LocalSort, RunSource, chunk_arrays, sorted_run
from .plugins import RunTask, keep
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


def find_cuts(kept: list[tuple[Handle, RankSummary]], plan: Plan) -> KeptRuns:
    """Task: bounds of all cuts."""
    handles, summaries = zip(*kept, strict=True)
    sizes = checked_sizes(plan, np.concatenate([summary.sizes for summary in summaries]))
    found = bound_cuts(summaries, boundary_ranks(plan, sizes), numpy_ops.key_order(plan.order), plan.radix_bits)
    return KeptRuns(**vars(found), handles=handles)


def merge_group(kept: KeptRuns, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: take the slices of a group from all runs, and finish the group."""
    numbers = np.flatnonzero(kept.lengths(group)).tolist() or [0]
    bounds = [(piece.start, piece.stop) for piece in (kept.piece(number, group) for number in numbers)]
    runs = take_slices([kept.handles[number] for number in numbers], bounds)
    pieces: list[Piece] = [(int(kept.starts[number]), run) for number, run in zip(numbers, runs, strict=True)]
    return finish(pieces, kept.kept(group))


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
    tasks.append(RunTask((f"sort-scan-{token}", 0), find_cuts, kept, plan, lists=True))
    merges = (group for group in range(len(plan.groups)) if group not in direct)
    tasks += (_merge((f"sort-merge-{token}", group), merge_group, token, group, finish) for group in merges)
    return {task.key: task for task in tasks}


def direct_outputs(keys: Mapping[int, Key], token: str, finish: Finish) -> dict[Key, Task]:
    """Graph of the output chunks that are one group each, which their own tasks finish."""
    tasks = (_merge(key, merge_as_chunk, token, group, finish) for group, key in keys.items())
    return {task.key: task for task in tasks}


def _merge(key: Key, function: Any, token: str, group: int, finish: Finish) -> Task:
    return Task(key, function, TaskRef((f"sort-scan-{token}", 0)), group, finish)
