"""Stage 3: scan. The bounds of the cuts of all runs between groups (see `table.bounds`). Task ``sort-scan``.

One round of counting is enough where a further one costs more than a few keys do: between GPUs, between workers, and on
threads. The group that receives a key too many drops it, once its keys are sorted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...chunk import numpy_ops
from ...chunk.run import Run
from ...plan import Plan
from ...table import Bounds, IntArray, RankSummary, bounds_at_ranks, exclusive_scan
from ..input_checks import changed_run, wrong_size


@dataclass(frozen=True)
class PlannedBounds(Bounds):
    """The bounds of the cuts, and the plan: tasks that get these need not contain it, so it is sent once a worker."""

    plan: Plan
    fingerprints: tuple[int, ...]  # of each run's summary, to recognise a run that changed

    def check(self, number: int, run: Run, summary: RankSummary) -> None:
        """Refuse a run that was made again, and is not what it was when it was counted."""
        length = self.starts[number + 1] - self.starts[number]
        if len(run) != length or summary.checksum != self.fingerprints[number]:
            raise changed_run(self.plan.runs[number], self.plan.order)


def bound_cuts(summaries: Sequence[RankSummary], plan: Plan) -> PlannedBounds:
    """Task: bounds of all cuts, from the summaries of all runs."""
    sizes = checked_sizes(plan, np.array([summary.size for summary in summaries], np.int64))
    found = bounds_at_ranks(summaries, boundary_ranks(plan, sizes), numpy_ops.key_order(plan.order), plan.radix_bits)
    return PlannedBounds(**vars(found), plan=plan, fingerprints=tuple(one.checksum for one in summaries))


def checked_sizes(plan: Plan, sizes: IntArray) -> IntArray:
    """Keys in each run, int64, shape (runs,); raises ValueError if the size of a chunk alone differs from the plan's.

    Those of several chunks are checked when they are concatenated.
    """
    expected = np.array(plan.run_sizes)
    for run in np.flatnonzero((sizes != expected) & ~np.isnan(expected)):
        raise wrong_size(f"chunk {plan.runs[run][0]} of the input has {sizes[run]} keys", plan.run_sizes[run])
    return sizes


def boundary_ranks(plan: Plan, sizes: IntArray) -> IntArray:
    """Global rank of each boundary between groups, shape (groups - 1,), from the true sizes of the runs."""
    # Where a size is unknown, each chunk is a run, and each output chunk has the size of one.
    chunks = sizes if math.isnan(sum(plan.chunks)) else np.array(plan.chunks, np.int64)
    starts = exclusive_scan(chunks)
    parts = ((starts[first], chunks[first] * part // count if part else 0) for first, _, part, count in plan.groups[1:])
    ranks = [start + before for start, before in parts]
    return np.array(ranks, np.int64)
