"""Brackets: the key intervals that hold the keys at the boundaries, narrowed by rank summaries.

A *boundary* is a global rank at which the sorted array is cut between two exchange groups. The key at that rank is
where the two step functions of all chunks (see `rank_summary`) cross the rank::

    count(<= x), at least   ____________/~~~~     first key with  >= rank + 1   -> high end of the bracket
    count(<  x), at most    ______/~~~~~~~~~~     last key with   <= rank       -> low end of the bracket

Digits narrow the first bracket further: counts per (digit, chunk), scanned in column-major order, give the digit in
which a rank falls.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 4 (column-major table, one scan) and section 5 (ranks of samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .digits import IntArray
from .rank_summary import KeyOrder, RankSummary, add_summaries, restrict, thin

#: Most entries that are sorted at once: of more, every n-th narrows the brackets first.
NARROWED_ENTRIES = 1 << 16


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
    """Give the boundaries to search, and the initial bracket of each boundary: number 0, which holds all keys.

    Rank 0 and the number of keys need no search; their bracket is -1.
    """
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
