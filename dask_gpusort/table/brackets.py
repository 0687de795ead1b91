"""Brackets: between which keys each boundary's key lies, and how entries narrow that.

A *boundary* is a global rank at which the sorted array is cut between two exchange groups. The key that stands there
lies where the two step functions of all chunks (see `entries`) cross it::

    count(<= x), at least   ____________/~~~~     first key with  >= rank + 1   -> high end of the bracket
    count(<  x), at most    ______/~~~~~~~~~~     last key with   <= rank       -> low end of the bracket

Digits narrow the first bracket further: counts per (digit, chunk), scanned in column-major order, say in which digit
a rank falls.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 4 (column-major table, one scan) and section 5 (ranks of samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .key_order import KeyOrder
from .rank_summary import Entries, add_up, restrict, thin
from .scan import IntArray

#: Entries that are sorted at once: where there are more, every n-th of them narrows the brackets first.
NARROWED_ENTRIES = 1 << 16


@dataclass(frozen=True)
class Brackets:
    """Disjoint key intervals, ascending, both ends included, that hold the keys at the boundaries.

    Attributes
    ----------
    size : int
        Keys in all chunks.
    ranks : int64 array, shape (boundaries,)
        Global rank of each boundary, in keys, ascending.
    bracket : int64 array, shape (boundaries,)
        The bracket of each boundary; -1 where the rank is 0 or the number of keys, which needs no search.
    low, high : array, shape (brackets,)
        First and last key that can stand at the boundaries of the bracket.
    """

    size: int
    ranks: IntArray
    bracket: IntArray
    low: np.ndarray
    high: np.ndarray


def open_brackets(size: int, ranks: IntArray) -> tuple[IntArray, IntArray]:
    """Boundaries that must be searched for, and the bracket that each has before anything is known: one for all.

    Rank 0 and the number of keys need no search; their bracket is -1.
    """
    inside = (ranks > 0) & (ranks < size)
    return np.flatnonzero(inside), np.where(inside, 0, -1)


def disjoint(size: int, ranks: IntArray, low: np.ndarray, high: np.ndarray, order: KeyOrder) -> Brackets:
    """Brackets from the ends that each searched boundary has: those that overlap become one.

    Parameters
    ----------
    size, ranks
        As in `Brackets`.
    low, high : array, shape (searched boundaries,)
        Ascending, as ranks are.
    order : KeyOrder
    """
    searched, bracket = open_brackets(size, ranks)
    if not len(searched):
        return Brackets(size, ranks, bracket, low, high)
    places = _dense_ranks(np.concatenate([low, high]), order)
    low_place, high_place = np.split(places, 2)
    apart = np.ones(len(searched), bool)
    apart[1:] = low_place[1:] > np.maximum.accumulate(high_place)[:-1]
    first = np.flatnonzero(apart)
    last = np.append(first[1:], len(apart)) - 1
    bracket[searched] = np.cumsum(apart) - 1
    return Brackets(size, ranks, bracket, low[first], high[last])


def _dense_ranks(keys: np.ndarray, order: KeyOrder) -> IntArray:
    """Number of distinct smaller keys, for each key."""
    permutation = order.argsort(keys)
    ranks = np.empty(len(keys), np.int64)
    ranks[permutation] = np.concatenate([[0], np.cumsum(order.changes(keys[permutation]))])
    return ranks


def narrow(
    size: int, ranks: IntArray, before: Brackets | None, answers: Sequence[Entries], order: KeyOrder
) -> Brackets:
    """Narrow the brackets to what entries allow.

    Parameters
    ----------
    size, ranks
        As in `Brackets`.
    before : Brackets or None
        That the answers are about; None for all keys.
    answers : sequence of Entries
        Of all chunks, each for itself or some together.
    order : KeyOrder

    Returns
    -------
    Brackets

    Notes
    -----
    Few of the entries first, then all those near the cuts: most are never sorted.
    """
    stride = sum(len(a.keys) for a in answers) // NARROWED_ENTRIES
    if stride > 1:
        coarse = _narrow_once(size, ranks, before, [thin(a, stride) for a in answers], order)
        answers = restrict_all(answers, before, coarse, order)
        before = coarse
    return _narrow_once(size, ranks, before, answers, order)


def restrict_all(
    answers: Sequence[Entries], before: Brackets | None, after: Brackets, order: KeyOrder
) -> list[Entries]:
    """All answers' entries inside narrower brackets."""
    searched, opening = np.unique(after.bracket, return_index=True)
    opening = opening[searched >= 0]
    wider = np.zeros(len(opening), np.int64) if before is None else before.bracket[opening]
    return [restrict(a, wider, after.low, after.high, order) for a in answers]


def _narrow_once(
    size: int, ranks: IntArray, before: Brackets | None, answers: Sequence[Entries], order: KeyOrder
) -> Brackets:
    searched, bracket = open_brackets(size, ranks)
    if before is not None:
        bracket = before.bracket
        if not any(len(a.keys) for a in answers):
            return before
    whole = add_up(answers, order)
    low, high = np.full(len(ranks), -1), np.full(len(ranks), -1)
    for number in np.unique(bracket[searched]):
        cells = slice(*np.searchsorted(whole.bracket, [number, number + 1]))
        mine = bracket == number
        below = np.searchsorted(whole.left[cells], ranks[mine], side="right") - 1
        above = np.searchsorted(whole.right[cells], ranks[mine] + 1, side="left")
        low[mine] = np.where(below >= 0, cells.start + below, -1)
        high[mine] = np.where(above < cells.stop - cells.start, cells.start + above, -1)
    ends: list[np.ndarray] = []
    for end, cell in (("low", low[searched]), ("high", high[searched])):
        keys = whole.keys[cell]
        # What the entries do not narrow stays as it was; an open bracket has entries at both ends.
        if before is not None and (cell < 0).any():
            keys[cell < 0] = getattr(before, end)[bracket[searched[cell < 0]]]
        ends.append(keys)
    return disjoint(size, ranks, ends[0], ends[1], order)
