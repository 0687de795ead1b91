"""Stage 2: count. A table of the keys of each run, added up in a tree. Tasks ``sort-count`` and ``sort-sum``.

A round summarizes every run, by digits or by samples; the last one counts the keys up to the ends of the brackets that
the rounds leave. A tree of tasks (`Plan.tree`) adds up summaries and counts, so no task receives those of all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tlz import concat

from ... import table
from ...chunk import numpy_ops, ops_for
from ...chunk.run import Run
from ...chunk.steps import count_ends
from ...order import Order
from ...plan import Plan
from .._dask import List, Task, TaskRef
from ..tasks import Tasks


def summarize(
    runs: Sequence[Run], brackets: table.Brackets | None, order: Order, samples: int, radix_bits: int
) -> list[table.RankSummary]:
    """Task: summarize runs inside the brackets."""
    return [
        ops_for(run.keys).summarize_run(run, brackets, order, samples=samples, radix_bits=radix_bits) for run in runs
    ]


def count(runs: Sequence[Run], brackets: table.Brackets | None, order: Order) -> list[table.Counts]:
    """Task: count the keys of runs up to the ends of the brackets."""
    return [count_ends(ops_for(run.keys).sorted_keys(run, order), brackets) for run in runs]


def sum_summaries(
    summaries: Sequence[Sequence[table.RankSummary]], order: Order, kept_samples: int, radix_bits: int
) -> list[table.RankSummary]:
    """Task: one summary of several."""
    key_order = numpy_ops.key_order(order)
    return [table.combine_summaries(list(concat(summaries)), kept_samples, radix_bits, key_order)]


def sum_counts(counts: Sequence[Sequence[table.Counts]]) -> list[table.Counts]:
    """Task: the sum of counts."""
    return [table.add_counts(list(concat(counts)))]


def count_runs(
    tasks: Tasks,
    plan: Plan,
    runs: Sequence[Task | TaskRef],
    number: int,
    function: Callable[..., Any],
    *arguments: Any,
) -> list[TaskRef]:
    """Add the tasks of one round, one for each range in `Plan.counted`."""
    return [
        tasks.add("sort-count", (number, first), function, List(*runs[first:last]), *arguments)
        for first, last in plan.counted
    ]


def add_up(
    tasks: Tasks, plan: Plan, number: int, counts: Sequence[TaskRef], function: Callable[..., Any], *arguments: Any
) -> list[list[List]]:
    """Add the tasks that add up one round; gives the inputs of the tasks of each level, the last one included."""
    reads: list[list[List]] = []
    below, width = counts, plan.counted[0][1]
    for level, ranges in enumerate(plan.tree):
        reads.append([List(*below[first // width : -(-last // width)]) for first, last in ranges])
        if level + 1 < len(plan.tree):
            below = [
                tasks.add("sort-sum", (number, level, node), function, read, *arguments)
                for node, read in enumerate(reads[-1])
            ]
            width = 1
    return reads
