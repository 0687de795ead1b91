"""Bounds of the cuts between groups, from a few keys of every sorted run.

A run sends to a group the keys that certainly belong to it, and those that may::

    run r      |------- certainly g - 1 ---------|.... unresolved .....|-------- certainly g -----------|
                                              first[r]              last[r]
                                                 |                       '-- group g - 1 receives up to here
                                                 '-- group g receives from here on

The group sorts the keys that it received and trims both ends. The number of keys to drop in front is known: every key
before ``first`` comes before the boundary, so the rank of the first key that the group received is ``sum(first)``, and
the boundary's own rank is exact. Unresolved keys are sent twice.

*One round*: each run gives regular samples of itself with their ranks in it. With s samples a run there are at most
about 2 G N / s unresolved ones of N keys in G groups, for every distribution, since ties are bounded in the order of
the runs too.

*Two rounds*, where runs and groups are so many that no task could hold samples enough: each run draws a few random
keys, the *candidates*, and all runs count their keys before each of them. In the order of key, run and position no two
keys are equal, so the sums of the counts are the ranks of the candidates, and each cut is between two of them.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 5.2: ranks of regular samples bound each cut.
Harsh, Kale, Solomonik, Histogram sort with sampling, SPAA 2019: random keys of strata, counted exactly.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .digits import Digits, IntArray, digit_cuts, exclusive_scan

Side = Literal["left", "right"]


@dataclass(frozen=True)
class KeyOrder:
    """Hold the comparisons of keys that the table needs."""

    argsort: Callable[[np.ndarray], np.ndarray]  # the permutation that sorts keys
    changes: Callable[[np.ndarray], np.ndarray]  # where neighbours of sorted keys differ, shape (n - 1,)


@dataclass(frozen=True)
class RankSummary:
    """Hold sampled keys of a sorted run, the first and the last one too, with their ranks."""

    size: int  # keys in the run
    keys: np.ndarray  # shape (entries,): ascending and distinct
    left: IntArray  # shape (entries,): number of keys less than each entry
    right: IntArray  # shape (entries,): number of keys up to each entry
    digits: Digits | None = None  # histogram of all keys, on the radix path

    @property
    def checksum(self) -> int:
        """A checksum of the summary; the same for the same run in every process."""
        known = [self.left, self.right]
        # The bytes of references and arenas differ between processes.
        if not self.keys.dtype.hasobject and self.keys.dtype.kind != "T":
            known.append(self.keys)
        return zlib.crc32(b"".join(part.tobytes() for part in known), self.size & 0xFFFFFFFF)


@dataclass(frozen=True)
class Bounds:
    """Bound the cuts of every run."""

    first: IntArray  # shape (runs, groups + 1): the cut of run r before group g is at ``first[r, g]`` or behind
    last: IntArray  # shape (runs, groups + 1): and at ``last[r, g]`` or before
    #: Shape (groups + 1,): global rank at which each group begins, in keys; the number of keys at the end.
    ranks: IntArray
    starts: IntArray  # shape (runs + 1,): global position of each run's first key in the input


def bounds_at_ranks(summaries: Sequence[RankSummary], ranks: IntArray, order: KeyOrder, radix_bits: int = 0) -> Bounds:
    """Bound the cuts by the ranks of regular samples and, on the radix path, by the table of digits.

    `ranks`, shape (groups - 1,), ascend.
    """
    sizes = np.array([summary.size for summary in summaries], np.int64)
    first, last = _bound_by_samples(summaries, ranks, order)
    if radix_bits and sizes.any():
        # Both bounds hold, so a cut is where they overlap.
        low, high = digit_cuts([summary.digits for summary in summaries], ranks, radix_bits)
        first, last = np.maximum(first, low), np.minimum(last, high)
    starts = exclusive_scan(sizes)
    return Bounds(*with_ends_of_runs(first, last, sizes), with_first_and_last(ranks, starts), starts)


def with_ends_of_runs(first: IntArray, last: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Bounds at some boundaries, with the ends of the runs: shape (runs, boundaries) to (runs, groups + 1)."""
    none = np.zeros((len(sizes), 1), np.int64)
    first, last = (np.concatenate([none, inner, sizes[:, None]], axis=1) for inner in (first, last))
    return first, last


def with_first_and_last(ranks: IntArray, starts: IntArray) -> IntArray:
    """Ranks of boundaries, with 0 and the number of keys."""
    return np.concatenate([[0], ranks, starts[-1:]]).astype(np.int64)


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
    lesser, own, greater = (exclusive_scan(step[permutation]) for step in steps)
    # The last sample that is certainly not behind each boundary, and the first one that is not before it.
    most, least = greater[begin] + own[:-1], lesser[end] + own[1:]
    before, behind = np.searchsorted(most, ranks, "right") - 1, np.searchsorted(least, ranks, "left")
    behind = np.minimum(behind, len(keys) - 1)  # where comparisons contradict themselves, which cuts tell
    labels, width = chunk * len(keys) + number, every * len(keys)
    low, high = np.searchsorted(labels, width + before), np.searchsorted(labels, width + behind, "right") - 1
    # Of each chunk, the sample before these, and the sample that is equal to them.
    start = np.searchsorted(chunk, every)
    first = np.where(low > start, right[low - 1], 0)
    low = np.minimum(low, len(keys) - 1)
    equal = (chunk[low] == every) & (before <= number[low]) & (number[low] < end[before])
    first = np.where(equal, left[low], first)
    last = np.where(high >= start, np.where(number[high] < begin[behind], following[high], right[high]), 0)
    # A boundary among the keys of one chunk that are equal.
    ties = (right - left)[permutation]
    first += (every == chunk[permutation[before]]) * np.minimum(ranks - most[before], ties[before])
    last -= (every == chunk[permutation[behind]]) * np.minimum(least[behind] - ranks, ties[behind])
    return first, last


@dataclass(frozen=True)
class Candidates:
    """Hold keys of the runs, ascending in the order of key, run and position."""

    keys: np.ndarray  # shape (candidates,)
    runs: IntArray  # shape (candidates,): the run of each
    positions: IntArray  # shape (candidates,): and its position there
    sizes: IntArray  # shape (runs,): keys in each run

    @property
    def starts(self) -> IntArray:
        """As in `Bounds`."""
        return exclusive_scan(self.sizes)

    def counted(self, run: int, left: IntArray, right: IntArray) -> IntArray:
        """Count the keys of a run before each candidate, from those less than, and up to, its key."""
        # Equal keys of earlier runs come before a candidate.
        found = np.where(self.runs > run, right, left)
        return np.where(self.runs == run, self.positions, found)


def choose_candidates(drawn: Sequence[tuple[int, np.ndarray, IntArray]], order: KeyOrder, most: int) -> Candidates:
    """Choose at most `most` candidates, of the size, some keys and their positions of every run."""
    sizes, keys, positions = zip(*drawn, strict=True)
    lengths = np.array(list(map(len, keys)))
    runs = np.repeat(np.arange(len(keys)), lengths)
    joined, offsets = np.concatenate(keys), np.concatenate(positions)
    permutation = order.argsort(joined)
    # Each stands for its part of a run: runs may differ in their sizes.
    weights = np.cumsum((np.array(sizes) / np.maximum(lengths, 1))[runs[permutation]])
    steps = np.arange(1, most + 1) / (most + 1) * sum(sizes)
    chosen = permutation[np.unique(np.searchsorted(weights[:-1], steps))[: len(weights)]]
    return Candidates(joined[chosen], runs[chosen], offsets[chosen], np.array(sizes, np.int64))


def candidates_at_ranks(counts: IntArray, ranks: IntArray) -> tuple[IntArray, IntArray]:
    """The last candidate that is not behind each rank, and the first one that is not before it, by their own ranks.

    -1, or the number of candidates, where there is none.
    """
    return np.searchsorted(counts, ranks, "right") - 1, np.searchsorted(counts, ranks, "left")


def cut_between(counts: IntArray, sizes: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
    """Cut some runs at candidates, from their counts before each, shape (runs, candidates); as `Bounds`."""
    none = np.zeros((len(sizes), 1), np.int64)
    framed = np.concatenate([none, counts, sizes[:, None]], axis=1)
    return with_ends_of_runs(framed[:, low + 1], framed[:, high + 1], sizes)
