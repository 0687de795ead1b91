"""Rank summaries: sampled keys of sorted chunks with their ranks, for one chunk or many together.

In a round of counting, a chunk is summarized by some of its keys and, for each, how many of its keys are less than
(``left``) and at most (``right``) that key. Between two such entries its counts are known as bounds only: two step
functions::

    count(<= x), at least   ____________/~~~~     rises at an entry, to its ``right``
    count(<  x), at most    ______/~~~~~~~~~~     rises after an entry, to the next one's ``left``

Their sums over several chunks are step functions too, so the summary of several chunks has the same form, and a tree of
tasks can add summaries up. Of the sum, entries at regular distances are kept, as a chunk keeps regular samples of its
keys: a task reads a bounded number of entries and passes on no more, for any number of chunks.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 5 (ranks of samples).
Munro, Paterson, Selection and sorting with limited storage, 1980 (trees of samples).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .digits import Digits, IntArray, exclusive_scan, sum_digits

Side = Literal["left", "right"]


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
    """Restrict a summary to narrower brackets; the entries just outside bound the counts there.

    `wider`, shape (brackets,), is the old bracket that contains each narrower one.
    """
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
