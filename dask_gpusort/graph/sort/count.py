"""Stage 2 of runs and groups so many that one round leaves much: all runs count their keys before some candidates.

Tasks ``sort-count``, one a run, and ``sort-sum``, whose tree adds the counts up, so that no task receives those of all
runs::

    run r --- drawn keys ---> sort-scan 0 --- candidates ---.
      |                                                     |
      '---------------------> sort-count r <----------------'
                                |        '--> sort-sum (a tree) --> sort-scan 1    between which candidates each cut is
                                v                                       |
                              sort-keep (32 runs) <---------------------'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tlz import partition_all

from ...chunk import numpy_ops
from ...chunk.run import Run
from ...chunk.steps import DrawnKeys, count_before
from ...order import Order
from ...plan import Plan, counting
from ...table import Candidates, IntArray, bounds
from .._dask import List, TaskRef
from ..input_checks import changed_run
from ..tasks import Tasks
from .scan import boundary_ranks, checked_sizes


@dataclass(frozen=True)
class Chosen:
    """Say between which candidates each boundary is."""

    low: IntArray  # shape (groups - 1,): numbers of candidates, as in `bounds.candidates_at_ranks`
    high: IntArray
    ranks: IntArray  # as in `Bounds`
    sizes: IntArray  # keys in each run

    def check(self, lengths: Sequence[int], plan: Plan) -> None:
        """Refuse runs that are not as long as when keys were drawn from them."""
        for run in np.flatnonzero(np.array(lengths) != self.sizes):
            raise changed_run(plan.runs[run], plan.order)

    def cut(self, counts: Sequence[IntArray], first: int) -> tuple[IntArray, IntArray]:
        """The bounds of neighbouring runs, the first of them number `first`."""
        return bounds.cut_between(np.array(counts), self.sizes[first : first + len(counts)], self.low, self.high)


def choose_candidates(drawn: Sequence[tuple[Any, DrawnKeys]], plan: Plan) -> Candidates:
    """Task: the candidates, from keys that all runs have drawn."""
    found = bounds.choose_candidates([keys for _, keys in drawn], numpy_ops.key_order(plan.order), plan.candidates)
    checked_sizes(plan, found.sizes)
    return found


def count_run(run: Run, number: int, candidates: Candidates, order: Order, chunks: Sequence[int]) -> IntArray:
    """Task: the counts of a run, of some chunks, before each candidate."""
    # There is such a task for each run, and a plan has all runs.
    found = count_before(run, number, candidates, order)
    if found is None:
        raise changed_run(chunks, order)
    return found


def add_up(counts: list[IntArray]) -> IntArray:
    """Task: the sum of counts."""
    return np.sum(counts, axis=0)


def choose(counts: list[IntArray], candidates: Candidates, plan: Plan) -> Chosen:
    """Task: between which candidates each boundary is."""
    ranks = boundary_ranks(plan, candidates.sizes)
    low, high = bounds.candidates_at_ranks(add_up(counts), ranks)
    return Chosen(low, high, bounds.with_first_and_last(ranks, candidates.starts), candidates.sizes)


def count_all(tasks: Tasks, plan: Plan, drawn: Sequence[TaskRef], runs: Sequence[Any]) -> tuple[list[List], TaskRef]:
    """Add the tasks that count; gives the counts of neighbouring runs, and the task that gives the `Chosen`.

    Each task of `drawn` gives the keys that a run has drawn last; `runs` give the runs.
    """
    candidates = tasks.add("sort-scan", 0, choose_candidates, List(*drawn), plan)
    counts = [
        tasks.add("sort-count", number, count_run, run, number, candidates, plan.order, chunks)
        for number, (run, chunks) in enumerate(zip(runs, plan.runs, strict=True))
    ]
    nodes = read = [List(*some) for some in partition_all(counting.FAN_IN, counts)]
    level = 0
    while len(read) > 1:
        sums = [tasks.add("sort-sum", (level, node), add_up, some) for node, some in enumerate(read)]
        read, level = [List(*some) for some in partition_all(counting.FAN_IN, sums)], level + 1
    return nodes, tasks.add("sort-scan", 1, choose, read[0], candidates, plan)
