"""Stage 3: scan. The cuts of all runs between groups, exact or within bounds. Tasks ``sort-scan`` and ``sort-cut``.

Exact cuts take two rounds or more::

    run r --- sort-count 0 --> summary --> sort-sum 0 --> sort-scan 0 -- brackets -.        a round, rarely two:
              (every run)      (digits)    (a tree)       (one)                    |        which keys to count
                                                                                   |
    run r --- sort-count 1 --> counts  --> sort-sum 1 --> sort-scan 1 <------------'        the last round:
              (every run)                  (a tree)       (one) | boundaries                count up to them
                                                                v
    cuts  <---------------------------------------------- sort-cut                          and down again
    (some neighbouring runs)                              (the same tree)

On the way down the tree, each task gives the parts that it added up their shares of the keys that tie with a boundary
and come before it.

Bounds take one round. Where a round costs more than a few keys do, as between GPUs, the cut is resolved later. A
chunk sends to a group the keys that certainly belong to it, and those that may::

    chunk c    |------- certainly g - 1 ---------|.... unresolved .....|-------- certainly g -----------|
                                              first[c]              last[c]
                                                 |                       '-- group g - 1 receives up to here
                                                 '-- group g receives from here on

The group sorts the keys that it received and trims both ends. The number of keys to drop in front is known: every key
before ``first`` comes before the boundary, so the rank of the first key that the group received is ``sum(first)``, and
the boundary's own rank is exact. Unresolved keys are sent twice; with s samples a chunk there are at most about
3 G N / s of N keys in G groups, for every distribution, since ties are bounded in chunk order too.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 5.2: ranks of regular samples bound each cut.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from tlz import concat

from ... import table
from ...chunk import numpy_ops
from ...chunk.run import is_fixed_width
from ...order import Order
from ...plan import Plan, Runs
from ...table import IntArray, KeyOrder, RankSummary
from .._dask import List, Task, TaskRef
from ..input_checks import changed_run, changed_source, wrong_size
from ..tasks import Tasks
from .count import add_up, count, count_runs, sum_counts, sum_summaries, summarize


@dataclass(frozen=True)
class Bounds:
    """Bound the cuts of every sorted chunk; a run of several chunks counts as one chunk here."""

    first: IntArray  # shape (chunks, groups + 1): the cut of chunk c before group g is at ``first[c, g]`` or behind
    last: IntArray  # shape (chunks, groups + 1): and at ``last[c, g]`` or before
    #: Shape (groups + 1,): global rank at which each group begins, in keys; the number of keys at the end.
    ranks: IntArray
    starts: IntArray  # shape (chunks + 1,): global position of each chunk's first key in the input
    fingerprints: tuple[int, ...]  # of each chunk's summary, to recognise a chunk that changed

    def piece(self, chunk: int, group: int) -> slice:
        """Keys of a chunk that a group receives."""
        return slice(int(self.first[chunk, group]), int(self.last[chunk, group + 1]))

    def lengths(self, group: int) -> IntArray:
        """Keys that a group receives from each chunk, shape (chunks,)."""
        return self.last[:, group + 1] - self.first[:, group]

    def kept(self, group: int) -> slice:
        """The range that a group keeps of its received keys after sorting."""
        start = int(self.ranks[group] - self.first[:, group].sum())
        return slice(start, start + int(self.ranks[group + 1] - self.ranks[group]))


def fingerprint(summary: RankSummary) -> int:
    """Checksum of a chunk's summary; the same for the same chunk in every process."""
    known = [summary.left, summary.right]
    # The bytes of references and arenas differ between processes.
    if is_fixed_width(summary.keys.dtype):
        known.append(summary.keys)
    return zlib.crc32(b"".join(part.tobytes() for part in known), summary.size & 0xFFFFFFFF)


def bound_cuts(summaries: Sequence[RankSummary], ranks: IntArray, order: KeyOrder, radix_bits: int = 0) -> Bounds:
    """Bound the cuts by the ranks of regular samples and, on the radix path, by the table of digits.

    Summaries are of whole chunks, each with the first and the last key; `ranks`, shape (groups - 1,), ascend.
    """
    sizes = np.array([summary.size for summary in summaries], np.int64)
    first, last = _bound_by_samples(summaries, ranks, order)
    if radix_bits and sizes.any():
        # Both bounds hold, so a cut is where they overlap.
        low, high = table.digit_cuts([summary.digits for summary in summaries], ranks, radix_bits)
        first, last = np.maximum(first, low), np.minimum(last, high)
    starts = table.exclusive_scan(sizes)
    ends = np.zeros((len(sizes), 1), np.int64), sizes[:, None]
    return Bounds(
        np.concatenate([ends[0], first, ends[1]], axis=1),
        np.concatenate([ends[0], last, ends[1]], axis=1),
        np.concatenate([[0], ranks, starts[-1:]]).astype(np.int64),
        starts,
        tuple(map(fingerprint, summaries)),
    )


def _bound_by_samples(summaries: Sequence[RankSummary], ranks: IntArray, order: KeyOrder) -> tuple[IntArray, IntArray]:
    """Find the first and the last possible cut at each rank, shape (chunks, boundaries) each."""
    # In the order of key, chunk and position, no two keys are equal. Three events bound how many keys of a chunk are
    # before some point of it: from the first sample of some value on, all lesser keys are, at least; then come
    # those that are equal to it; from the next greater sample on, all up to the chunk's own next sample may be.
    keys = np.concatenate([summary.keys for summary in summaries])
    every = np.arange(len(summaries))[:, None]
    if not len(keys):
        none = np.zeros((len(every), len(ranks)), np.int64)
        return none, none
    left, right = (np.concatenate([getattr(one, side) for one in summaries]) for side in ("left", "right"))
    chunk = np.repeat(every, [len(summary.keys) for summary in summaries])
    opens, closes = np.diff(chunk, prepend=-1) != 0, np.diff(chunk, append=-1) != 0
    previous, following = np.where(opens, 0, np.roll(right, 1)), np.where(closes, right, np.roll(left, -1))
    permutation = order.argsort(keys)
    number = np.empty_like(permutation)
    number[permutation] = np.arange(len(keys))
    begin = np.flatnonzero(np.append(True, order.changes(keys[permutation])))
    begin, end = (np.repeat(one, np.diff(begin, append=len(keys))) for one in (begin, np.append(begin[1:], len(keys))))
    steps = (left - previous, right - left, following - right)
    lesser, own, greater = (table.exclusive_scan(step[permutation]) for step in steps)
    # The last sample that is certainly not behind each boundary, and the first one that is not before it.
    most, least = greater[begin] + own[:-1], lesser[end] + own[1:]
    before, behind = np.searchsorted(most, ranks, "right") - 1, np.searchsorted(least, ranks, "left")
    labels, width = chunk * len(keys) + number, every * len(keys)
    low, high = np.searchsorted(labels, width + before), np.searchsorted(labels, width + behind, "right") - 1
    # Of each chunk, the sample before these, and the sample that is equal to them.
    start = np.searchsorted(chunk, every)
    first = np.where(low > start, right[low - 1], 0)
    low = np.minimum(low, len(keys) - 1)
    first = np.where((chunk[low] == every) & (number[low] < end[before]), left[low], first)
    last = np.where(high >= start, np.where(number[high] < begin[behind], following[high], right[high]), 0)
    # A boundary among the keys of one chunk that are equal.
    ties = (right - left)[permutation]
    first += (every == chunk[permutation[before]]) * np.minimum(ranks - most[before], ties[before])
    last -= (every == chunk[permutation[behind]]) * np.minimum(least[behind] - ranks, ties[behind])
    return first, last


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
    parts = ((starts[first], chunks[first] * part // count if part else 0) for first, _, part, count in plan.groups[1:])
    ranks = [start + before for start, before in parts]
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
