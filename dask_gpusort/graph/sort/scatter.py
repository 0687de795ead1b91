"""Stage 4: scatter. Every group takes its slices of the sorted runs. Task ``sort-scatter``.

In one process all runs are in one list, and each group takes its views from it: nothing is copied or moved. On a
cluster exchanges have their own stages, from the input chunks on: see `runs`, `by_tasks` and `gang`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from ...chunk import ops_for
from ...chunk.memory import return_free_memory
from ...chunk.run import Run
from ...chunk.steps import count_ends
from ...order import Order
from ...plan import Plan, Runs
from ...table import Boundaries, Cuts, IntArray, still_fits
from .._dask import List, TaskRef
from ..input_checks import changed_run
from ..tasks import Tasks
from .scan import CutRefs

#: Bytes of runs whose memory is returned to the system when they are freed; for fewer it takes longer than it is worth.
RETURNED_BYTES = 64 << 20

#: The run's start in the input, and its keys for a group.
Piece: TypeAlias = tuple[int, Run]


@dataclass(frozen=True)
class CutRun:
    """Hold a run and its cuts."""

    run: Run
    start: int  # position of its first key in the input
    first: IntArray  # shape (groups + 1,): as in `Cuts`, of this run
    last: IntArray  # shape (groups + 1,)

    def bounds(self, group: int) -> tuple[int, int]:
        """First key that a group receives, and the end of its keys."""
        return int(self.first[group]), int(self.last[group + 1])

    def piece(self, group: int) -> Piece:
        """The keys for a group, a view."""
        return self.start, self.run[slice(*self.bounds(group))]


def cut_run(run: Run, number: int, chunks: Sequence[int], cuts: Cuts, boundaries: Boundaries, order: Order) -> CutRun:
    """Cut a run, `chunks` of the input, after checking that it still is as it was counted."""
    # A lost run is computed again. If its input differs each time, the cuts no longer fit it: its length differs, or a
    # cut is not between the keys that belong before and after it.
    number -= cuts.chunk
    counts = count_ends(ops_for(run.keys).sorted_keys(run, order), boundaries.brackets)
    if not still_fits(counts, number, cuts, boundaries):
        raise changed_run(chunks, order)
    return CutRun(run, int(cuts.starts[number]), cuts.first[number], cuts.last[number])


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


def scatter(tasks: Tasks, plan: Plan, runs: Sequence[TaskRef], found: CutRefs) -> TaskRef:
    """Add the task that gives the `RunList`."""
    cuts = List(*found.cuts)
    return tasks.add("sort-scatter", 0, list_runs, List(*runs), plan.runs, cuts, found.boundaries, plan.order)


class RunList:
    """Hold runs of some bytes, whose memory returns to the system with the list."""

    def __init__(self, runs: list[Any], nbytes: int):
        self.runs, self._nbytes = runs, nbytes

    def __del__(self) -> None:
        self.runs.clear()
        if self._nbytes >= RETURNED_BYTES:
            return_free_memory()


def list_runs(runs: list[Run], chunks: Runs, cuts: list[Cuts], boundaries: Boundaries, order: Order) -> RunList:
    """Task: all runs, each of some chunks, and their cuts, as `CutRun`."""
    cuts_of = [some for some in cuts for _ in some.first]
    numbered = enumerate(zip(runs, chunks, cuts_of, strict=True))
    cut = [cut_run(run, number, own, some, boundaries, order) for number, (run, own, some) in numbered]
    return RunList(cut, sum(run.nbytes for run in runs))
