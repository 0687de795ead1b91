"""Stage 3: scan. Cuts between groups, from the counts of all runs. Tasks ``sort-scan`` and ``sort-cut``.

::

    run r --- sort-count 0 --> summary --> sort-sum 0 --> sort-scan 0 -- brackets -.        a round, rarely two:
              (every run)      (digits)    (a tree)       (one)                    |        which keys to count
                                                                                   |
    run r --- sort-count 1 --> counts  --> sort-sum 1 --> sort-scan 1 <------------'        the last round:
              (every run)                  (a tree)       (one) | boundaries                count up to them
                                                                v
    cuts  <---------------------------------------------- sort-cut                          and down again
    (some neighbouring runs)                              (the same tree)

A run is one sorted chunk, or several small ones sorted together. Everything here that holds "chunks" of a table holds
runs. On the way down the tree, each task gives the parts that it added up their shares of the keys that tie with a
boundary and come before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from tlz import concat

from ... import table
from ...chunk import numpy_ops
from ...order import Order
from ...plan import Plan, Runs
from .._dask import List, Task, TaskRef
from ..input_checks import changed_run, changed_source, wrong_size
from ..tasks import Tasks
from .count import add_up, count, count_runs, sum_counts, sum_summaries, summarize


def checked_sizes(plan: Plan, sizes: np.ndarray) -> np.ndarray:
    """Keys in each run, int64, shape (runs,); raises ValueError if the size of a chunk alone differs from the plan's.

    Those of several chunks are checked when they are concatenated.
    """
    run = _first_wrong(plan, sizes)
    if run is not None:
        raise wrong_size(f"chunk {plan.runs[run][0]} of the input has {sizes[run]} keys", plan.run_sizes[run])
    return sizes


def _first_wrong(plan: Plan, sizes: np.ndarray) -> int | None:
    expected = np.array(plan.run_sizes)
    wrong = np.flatnonzero((sizes != expected) & ~np.isnan(expected))
    return int(wrong[0]) if len(wrong) else None


def boundary_ranks(plan: Plan, sizes: np.ndarray) -> np.ndarray:
    """Global rank of each boundary between groups, shape (groups - 1,), from the true sizes of the runs."""
    # Where a size is unknown, each chunk is a run, and each output chunk has the size of one.
    chunks = sizes if math.isnan(sum(plan.chunks)) else np.array(plan.chunks, np.int64)
    starts = table.exclusive_scan(chunks)
    ranks = [starts[first] + chunks[first] * part // parts for first, _, part, parts in plan.groups[1:] if parts]
    return np.array(ranks, np.int64)


def first_scan(summaries: Sequence[Sequence[table.RankSummary]], plan: Plan) -> table.Brackets:
    """Task: the first brackets, from all runs' samples and, on the radix path, digits."""
    parts = list(concat(summaries))
    sizes = checked_sizes(plan, np.concatenate([part.sizes for part in parts]))
    size, ranks = int(sizes.sum()), boundary_ranks(plan, sizes)
    order = numpy_ops.key_order(plan.order)
    searched, _ = table.open_brackets(size, ranks)
    if not len(searched):
        none = parts[0].keys[:0]
        return table.disjoint(size, ranks, none, none, order)
    digits = None
    if plan.radix_bits:
        low, high = table.digit_brackets([part.digits for part in parts], ranks[searched], plan.radix_bits)
        ends = numpy_ops.needles(low, plan.order), numpy_ops.needles(high, plan.order)
        digits = table.disjoint(size, ranks, ends[0], ends[1], order)
        parts = table.restrict_all(parts, None, digits, order)
    return table.narrow(size, ranks, digits, parts, order)


def next_scan(summaries: Sequence[Sequence[table.RankSummary]], brackets: table.Brackets, plan: Plan) -> table.Brackets:
    """Task: narrower brackets after one more round."""
    if not len(brackets.low):
        return brackets
    order = numpy_ops.key_order(plan.order)
    return table.narrow(brackets.size, brackets.ranks, brackets, list(concat(summaries)), order)


def last_scan(parts: Sequence[Sequence[table.Counts]], brackets: table.Brackets | None, plan: Plan) -> table.Boundaries:
    """Task: the boundaries, from all runs' counts."""
    counts = table.add_counts(list(concat(parts)))
    if brackets is None:
        none = np.empty(0, np.int64)
        size = int(checked_sizes(plan, counts.sizes).sum())
        return table.find_boundaries(table.Brackets(size, none, none, none, none), counts)
    # Sizes that were right in the first round differ only if a run changed.
    run = _first_wrong(plan, counts.sizes)
    if run is not None:
        raise changed_run(plan.runs[run], plan.order)
    if counts.sizes.sum() != brackets.size:
        raise changed_source(f"{counts.sizes.sum()} keys are there where {brackets.size} were counted", plan.order)
    return table.find_boundaries(brackets, counts)


def share(
    boundaries: table.Boundaries, shares: np.ndarray | None, part: int, counts: Sequence[Sequence[table.Counts]]
) -> np.ndarray:
    """Task: divide the ties of one node of the tree between its children, shape (children, boundaries).

    `shares` are the result one level above, None at the top; `part` is the number of this node among its siblings.
    """
    return table.share_ties(boundaries, _ties(boundaries, shares, part), list(concat(counts)))


def cut(
    boundaries: table.Boundaries,
    shares: np.ndarray | None,
    part: int,
    parts: Sequence[Sequence[table.Counts]],
    first: int,
    runs: Runs,
    order: Order,
) -> table.Cuts:
    """Task: cut neighbouring runs, the first of them number `first`."""
    counts = list(concat(parts))
    for run, one, (start, stop) in zip(runs, counts, pairwise(boundaries.starts[first:]), strict=False):
        # The counts of a run may have been lost and computed again.
        if start + one.sizes[0] != stop:
            raise changed_run(run, order)
    return table.cut(boundaries, _ties(boundaries, shares, part), first, counts)


def _ties(boundaries: table.Boundaries, shares: np.ndarray | None, part: int) -> np.ndarray:
    return boundaries.ties if shares is None else shares[part]


class CutRefs(NamedTuple):
    """Refer to the results of this stage."""

    boundaries: TaskRef  # gives the `Boundaries`
    cuts: list[TaskRef]  # give the `Cuts` of neighbouring runs each


def find_cuts(tasks: Tasks, plan: Plan, runs: Sequence[Task | TaskRef]) -> CutRefs:
    """Add the stage from tasks, or references to them, that give a `Run` each."""
    brackets: TaskRef | None = None
    for number in range(plan.rounds):
        bits = 0 if number else plan.radix_bits
        counts = count_runs(tasks, plan, runs, number, summarize, brackets, plan.order, plan.samples, bits)
        reads = add_up(tasks, plan, number, counts, sum_summaries, plan.order, plan.kept_samples, bits)
        scan, arguments = (next_scan, (brackets, plan)) if number else (first_scan, (plan,))
        brackets = tasks.add("sort-scan", number, scan, reads[-1][0], *arguments)
    counts = count_runs(tasks, plan, runs, plan.rounds, count, brackets, plan.order)
    reads = add_up(tasks, plan, plan.rounds, counts, sum_counts)
    boundaries = tasks.add("sort-scan", plan.rounds, last_scan, reads[-1][0], brackets, plan)
    return CutRefs(boundaries, _cut_down(tasks, plan, boundaries, reads))


def _cut_down(tasks: Tasks, plan: Plan, boundaries: TaskRef, reads: Sequence[Sequence[List]]) -> list[TaskRef]:
    """Add the tasks that pass the ties down the tree; gives the last ones, which cut the runs."""
    above: list[TaskRef] = []
    tree = plan.tree  # made at each look
    for level in reversed(range(len(tree))):
        below = []
        for node, (first, last) in enumerate(tree[level]):
            shares = above[node // plan.fan_in] if above else None
            arguments = (boundaries, shares, node % plan.fan_in, reads[level][node])
            own = () if level else (first, plan.runs[first:last], plan.order)
            below.append(tasks.add("sort-cut", (level, node), share if level else cut, *arguments, *own))
        above = below
    return above
