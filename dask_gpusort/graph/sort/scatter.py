"""Stage 4: scatter. Every group takes its slices of the sorted runs. Task ``sort-scatter``.

In one process all runs are in one list, and each group takes its views from it: nothing is copied or moved. On a
cluster exchanges have their own stages, from the input chunks on: see `runs`, `by_tasks` and `gang`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import getitem
from typing import Any, TypeAlias

from tlz import concat

from ...chunk import ops_for
from ...chunk.memory import RunList
from ...chunk.run import Run
from ...plan import Plan
from ...table import Bounds, IntArray, RankSummary, exclusive_scan
from .._dask import List, Task, TaskRef
from ..tasks import Tasks
from .count import Chosen, count_all
from .scan import PlannedBounds, bound_cuts

#: The run's start in the input, and its keys for a group.
Piece: TypeAlias = tuple[int, Run]


def own_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """Choose the pieces that have keys, or the first one."""
    # One alone is copied, because the finish may write to its pieces. It copies several anyway.
    held = [piece for piece in pieces if len(piece[1])] or list(pieces[:1])
    return held if len(held) > 1 else [(held[0][0], held[0][1].copy())]


def with_global_positions(pieces: Sequence[Piece]) -> list[Run]:
    """Pieces whose last values, positions in their runs, are made global."""
    starts, runs = zip(*pieces, strict=True)
    ends = list(accumulate(map(len, runs), initial=0))
    positions = ops_for(runs[0].keys).add_starts([run.values[-1] for run in runs], starts)
    parts = (positions[slice(*end)] for end in pairwise(ends))
    return [Run(run.keys, (*run.values[:-1], part)) for run, part in zip(runs, parts, strict=True)]


class BoundRuns(RunList):
    """Hold sorted runs, and the bounds of their cuts."""

    def __init__(self, runs: list[Run], bounds: Bounds):
        super().__init__(runs, sum(run.nbytes for run in runs))
        self.bounds = bounds

    def pieces(self, group: int) -> list[Piece]:
        """What a group receives of each run: views."""
        starts = self.bounds.starts.tolist()
        return [(starts[number], run[self.bounds.piece(number, group)]) for number, run in enumerate(self.runs)]


def bound_runs(summarized: list[tuple[Run, RankSummary]], plan: Plan) -> PlannedBounds:
    """Task: the bounds of the cuts of runs."""
    return bound_cuts([summary for _, summary in summarized], plan)


def list_runs(summarized: list[tuple[Run, RankSummary]], bounds: PlannedBounds) -> BoundRuns:
    """Task: all runs, in one list."""
    # A run that was lost may be made again while its bounds are there.
    for number, one in enumerate(summarized):
        bounds.check(number, *one)
    return BoundRuns([run for run, _ in summarized], bounds)


def list_counted(drawn: list[tuple[Run, Any]], counts: list[list[IntArray]], chosen: Chosen, plan: Plan) -> BoundRuns:
    """Task: the same, of runs that are cut at candidates."""
    runs = [run for run, _ in drawn]
    chosen.check(list(map(len, runs)), plan)
    cuts = chosen.cut(list(concat(counts)), 0)
    return BoundRuns(runs, Bounds(*cuts, chosen.ranks, exclusive_scan(chosen.sizes)))


def scatter(tasks: Tasks, plan: Plan, runs: Sequence[TaskRef]) -> TaskRef:
    """Add the tasks that bound the cuts, and that give the `BoundRuns`, from those that give runs and summaries."""
    if plan.candidates:
        counts, chosen = count_all(tasks, plan, runs, [Task(None, getitem, one, 0) for one in runs])
        return tasks.add("sort-scatter", 0, list_counted, List(*runs), List(*counts), chosen, plan)
    bounds = tasks.add("sort-scan", 0, bound_runs, List(*runs), plan)
    return tasks.add("sort-scatter", 0, list_runs, List(*runs), bounds)
