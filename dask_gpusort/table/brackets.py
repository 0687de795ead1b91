"""Rank summaries, sampled keys of sorted chunks with their ranks, and brackets of the keys at boundaries.

Between two entries of a summary the counts of a chunk have bounds: two step functions. Their sums over several chunks
are step functions too, so a tree of tasks adds summaries up, and keeps entries at regular distances. A *boundary* is a
global rank at which the sorted array is cut. The key at that rank is where both functions cross it::

    count(<= x), at least   ____________/~~~~     first key with  >= rank + 1   -> high end of the bracket
    count(<  x), at most    ______/~~~~~~~~~~     last key with   <= rank       -> low end of the bracket

Satish, Harris, Garland, IPDPS 2009, section 4 (column-major table, one scan) and section 5 (ranks of samples).
Munro, Paterson, Selection and sorting with limited storage, 1980 (trees of samples).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .digits import Digits, IntArray, exclusive_scan, sum_digits

Side = Literal["left", "right"]
#: Most entries that are sorted at once: of more, every n-th narrows the brackets first.
NARROWED_ENTRIES = 1 << 16


@dataclass(frozen=True)
class KeyOrder:
    """Hold the comparisons of keys that the table needs."""

    argsort: Callable[[np.ndarray], np.ndarray]  # the permutation that sorts keys
    changes: Callable[[np.ndarray], np.ndarray]  # where neighbours of sorted keys differ, shape (n - 1,)
    search: Callable[[np.ndarray, np.ndarray, Side], np.ndarray]  # sorted keys, needles, side: as `numpy.searchsorted`


@dataclass(frozen=True)
class RankSummary:
    """Hold sampled keys with ranks inside some brackets, of a sorted chunk or of several together."""

    sizes: IntArray  # shape (chunks,): keys in each chunk
    keys: np.ndarray  # shape (entries,): inside the brackets, ascending and distinct
    bracket: IntArray  # shape (entries,): the bracket of each entry
    left: IntArray  # shape (entries,): number of keys less than each entry; of several chunks, an upper bound
    right: IntArray  # shape (entries,): number of keys up to each entry; of several chunks, a lower bound
    start: IntArray  # shape (brackets,): lower bound of the number of keys below each bracket
    stop: IntArray  # shape (brackets,): upper bound of the number of keys up to the end of each bracket
    digits: Digits | None = None  # histogram of all keys, in the first round of the radix path

    @property
    def size(self) -> int:
        """Keys in all chunks."""
        return int(self.sizes.sum())

    def take(self, kept: IntArray) -> RankSummary:
        """A summary of some of the entries, which still bound the counts."""
        return replace(
            self,
            keys=self.keys[kept],
            bracket=self.bracket[kept],
            left=self.left[kept],
            right=self.right[kept],
        )


def restrict(summary: RankSummary, wider: IntArray, low: np.ndarray, high: np.ndarray, order: KeyOrder) -> RankSummary:
    """Restrict a summary to narrower brackets; the entries just outside bound the counts there."""
    # `wider`, shape (brackets,), is the old bracket that contains each narrower one.
    first = order.search(summary.keys, low, "left")
    last = order.search(summary.keys, high, "right")
    left, right = np.append(summary.left, summary.size), np.append(summary.right, 0)
    start = np.maximum(summary.start[wider], right[first - 1])
    stop = np.minimum(summary.stop[wider], left[last])
    length = last - first
    bracket = np.repeat(np.arange(len(first)), length)
    kept = np.arange(len(bracket)) + (first - np.cumsum(length) + length)[bracket]
    return RankSummary(summary.sizes, summary.keys[kept], bracket, summary.left[kept], summary.right[kept], start, stop)


def thin(summary: RankSummary, stride: int) -> RankSummary:
    """Every ``stride``-th entry, with the first and the last."""
    kept = np.unique(np.append(np.arange(0, len(summary.keys), stride), max(len(summary.keys) - 1, 0)))
    return summary.take(kept[: len(summary.keys)])


def add_summaries(summaries: Sequence[RankSummary], order: KeyOrder) -> RankSummary:
    """Add summaries of the same brackets: every distinct key, and the sums of the step functions."""
    sizes = np.concatenate([a.sizes for a in summaries])
    keys = np.concatenate([a.keys for a in summaries])
    less_start, start = (sum(column) for column in zip(*(_starts(a) for a in summaries), strict=True))
    stop = np.sum([a.stop for a in summaries], axis=0)
    if not len(keys):
        none = np.empty(0, np.int64)
        return RankSummary(sizes, keys, none, none, none, start, stop)
    permutation = order.argsort(keys)
    keys = keys[permutation]
    bracket = np.concatenate([a.bracket for a in summaries])[permutation]
    less, upto = np.concatenate([_rises(a) for a in summaries], axis=1)[:, permutation]
    cell = np.flatnonzero(np.concatenate([np.ones(1, bool), order.changes(keys)]))
    # Sums before each cell, and up to its end; they restart at each bracket.
    less_before, upto_before = exclusive_scan(less)[cell], exclusive_scan(upto)
    upto_after = upto_before[np.append(cell[1:], len(keys))]
    bracket = bracket[cell]
    opening = np.searchsorted(bracket, bracket)
    left = less_start[bracket] + less_before - less_before[opening]
    right = start[bracket] + upto_after - upto_before[cell][opening]
    return RankSummary(sizes, keys[cell], bracket, left, right, start, stop)


def _starts(summary: RankSummary) -> tuple[IntArray, IntArray]:
    """Initial values of the two step functions, shape (brackets,) each."""
    first = _first_of_brackets(summary.bracket)
    less = summary.stop.copy()
    less[summary.bracket[first]] = summary.left[first]
    return less, summary.start


def _rises(summary: RankSummary) -> IntArray:
    """Steps of the two step functions, after and at each entry: shape (2, entries)."""
    first = _first_of_brackets(summary.bracket)
    last = np.ones(len(first), bool)
    last[:-1] = first[1:]
    following, previous = np.roll(summary.left, -1), np.roll(summary.right, 1)
    following[last] = summary.stop[summary.bracket[last]]
    previous[first] = summary.start[summary.bracket[first]]
    return np.stack([following - summary.left, summary.right - previous])


def _first_of_brackets(bracket: IntArray) -> np.ndarray:
    first = np.ones(len(bracket), bool)
    first[1:] = bracket[1:] != bracket[:-1]
    return first


def combine_summaries(summaries: Sequence[RankSummary], samples: int, radix_bits: int, order: KeyOrder) -> RankSummary:
    """Add summaries of the same brackets and keep about `samples` entries."""
    # Between two of them the bounds of the counts widen by at most one ``samples``-th of the keys in the brackets.
    whole = add_summaries(summaries, order)
    digits = sum_digits([a.digits for a in summaries], radix_bits) if radix_bits else None
    if len(whole.keys) > samples:
        distance = -(-int((whole.stop - whole.start).sum()) // samples)
        cell = (whole.left - whole.start[whole.bracket]) // distance
        # Between the last entries of two neighbouring cells, only the distribution inside the second cell is unknown.
        # The first entry of a bracket bounds the start of its keys.
        first = _first_of_brackets(whole.bracket)
        last = np.ones(len(first), bool)
        last[:-1] = first[1:] | (cell[1:] != cell[:-1])
        whole = whole.take(np.flatnonzero(first | last))
    return replace(whole, digits=digits)


@dataclass(frozen=True)
class Brackets:
    """Hold disjoint key intervals, ascending and closed, that contain the keys at the boundaries."""

    size: int  # keys in all chunks
    ranks: IntArray  # shape (boundaries,): global rank of each boundary, in keys, ascending
    #: Shape (boundaries,): the bracket of each boundary; -1 where the rank is 0 or the number of keys, where no search
    #: is needed.
    bracket: IntArray
    low: np.ndarray  # shape (brackets,): first possible key at the boundaries of the bracket
    high: np.ndarray  # shape (brackets,): last possible key there


def open_brackets(size: int, ranks: IntArray) -> tuple[IntArray, IntArray]:
    """Give the boundaries to search, and the initial bracket of each boundary: number 0, which holds all keys."""
    # Rank 0 and the number of keys need no search; their bracket is -1.
    inside = (ranks > 0) & (ranks < size)
    return np.flatnonzero(inside), np.where(inside, 0, -1)


def disjoint(size: int, ranks: IntArray, low: np.ndarray, high: np.ndarray, order: KeyOrder) -> Brackets:
    """Make brackets from ascending ends for each searched boundary, and make one of those that overlap."""
    searched, bracket = open_brackets(size, ranks)
    if not len(searched):
        return Brackets(size, ranks, bracket, low, high)
    low_rank, high_rank = np.split(_dense_ranks(np.concatenate([low, high]), order), 2)
    opens = np.ones(len(searched), bool)
    opens[1:] = low_rank[1:] > np.maximum.accumulate(high_rank)[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(opens)) - 1
    bracket[searched] = np.cumsum(opens) - 1
    return Brackets(size, ranks, bracket, low[first], high[last])


def _dense_ranks(keys: np.ndarray, order: KeyOrder) -> IntArray:
    """Count the distinct lesser keys, for each key."""
    permutation = order.argsort(keys)
    ranks = np.empty(len(keys), np.int64)
    ranks[permutation] = np.concatenate([[0], np.cumsum(order.changes(keys[permutation]))])
    return ranks


def narrow(
    size: int, ranks: IntArray, before: Brackets | None, summaries: Sequence[RankSummary], order: KeyOrder
) -> Brackets:
    """Narrow the brackets, or those of all keys, by summaries of all chunks, singly or combined."""
    # A few entries narrow the brackets first, then all entries near the cuts: most entries are never sorted.
    stride = sum(len(a.keys) for a in summaries) // NARROWED_ENTRIES
    if stride > 1:
        coarse = _narrow_once(size, ranks, before, [thin(a, stride) for a in summaries], order)
        summaries = restrict_all(summaries, before, coarse, order)
        before = coarse
    return _narrow_once(size, ranks, before, summaries, order)


def restrict_all(
    summaries: Sequence[RankSummary], before: Brackets | None, after: Brackets, order: KeyOrder
) -> list[RankSummary]:
    """Give the entries of all summaries inside narrower brackets."""
    searched, opening = np.unique(after.bracket, return_index=True)
    opening = opening[searched >= 0]
    wider = np.zeros(len(opening), np.int64) if before is None else before.bracket[opening]
    return [restrict(a, wider, after.low, after.high, order) for a in summaries]


def _narrow_once(
    size: int, ranks: IntArray, before: Brackets | None, summaries: Sequence[RankSummary], order: KeyOrder
) -> Brackets:
    searched, bracket = open_brackets(size, ranks)
    if before is not None:
        bracket = before.bracket
        if not any(len(a.keys) for a in summaries):
            return before
    whole = add_summaries(summaries, order)
    low, high = _cells_around(whole, ranks, bracket, np.unique(bracket[searched]))
    ends: list[np.ndarray] = []
    for end, cell in (("low", low[searched]), ("high", high[searched])):
        keys = whole.keys[cell]
        # A bracket without such an entry keeps its end; the initial bracket has entries at both ends.
        if before is not None and (cell < 0).any():
            keys[cell < 0] = getattr(before, end)[bracket[searched[cell < 0]]]
        ends.append(keys)
    return disjoint(size, ranks, ends[0], ends[1], order)


def _cells_around(
    whole: RankSummary, ranks: IntArray, bracket: IntArray, numbers: IntArray
) -> tuple[IntArray, IntArray]:
    """Give the last entry before, and the first after, the key at each rank; -1 where there is none in the bracket."""
    low, high = np.full(len(ranks), -1), np.full(len(ranks), -1)
    searched = np.flatnonzero(bracket >= 0)
    for number in numbers:
        cells = slice(*np.searchsorted(whole.bracket, [number, number + 1]))
        mine = searched[slice(*np.searchsorted(bracket[searched], [number, number + 1]))]
        below = np.searchsorted(whole.left[cells], ranks[mine], side="right") - 1
        above = np.searchsorted(whole.right[cells], ranks[mine] + 1, side="left")
        low[mine] = np.where(below >= 0, cells.start + below, -1)
        high[mine] = np.where(above < cells.stop - cells.start, cells.start + above, -1)
    return low, high
