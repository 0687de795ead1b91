"""Entries: what sorted chunks tell about their keys in some brackets, and the same of many chunks together.

A chunk answers a round of counting with keys of its own, and how many of its keys are less than (``left``) and at most
(``right``) each. Between two entries its counts are known only as bounds, so they are two step functions::

    count(<= x), at least   ____________/~~~~     rises at an entry, to its ``right``
    count(<  x), at most    ______/~~~~~~~~~~     rises behind an entry, to the next one's ``left``

Their sums over several chunks are step functions too, so what several chunks tell has the same form, and a tree of
tasks can add them up. Of the sum, entries at regular distances are kept, as a chunk keeps regular samples of its keys:
whoever adds up reads a bounded number of entries and hands on no more, whatever the number of chunks.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 5 (ranks of samples).
Munro, Paterson, Selection and sorting with limited storage, 1980 (trees of samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .digits import Digits, sum_digits
from .key_order import KeyOrder
from .scan import IntArray, exclusive_scan


@dataclass(frozen=True)
class Entries:
    """What a sorted chunk, or several together, tell about some brackets.

    Attributes
    ----------
    sizes : int64 array, shape (chunks,)
        Keys in each chunk.
    keys : array, shape (entries,)
        Keys of the chunks inside the brackets, ascending and distinct.
    bracket : int64 array, shape (entries,)
        The bracket of each entry.
    left, right : int64 array, shape (entries,)
        Keys of the chunks that are less than, and up to, each entry: of one chunk exactly, of several at most and at
        least.
    start, stop : int64 array, shape (brackets,)
        Keys of the chunks below each bracket, at least, and not above it, at most.
    digits : Digits or None
        Histogram of all keys, in the first round of the radix path.
    """

    sizes: IntArray
    keys: np.ndarray
    bracket: IntArray
    left: IntArray
    right: IntArray
    start: IntArray
    stop: IntArray
    digits: Digits | None = None

    @property
    def size(self) -> int:
        """Keys in all chunks."""
        return int(self.sizes.sum())

    def take(self, kept: IntArray) -> Entries:
        """Some of the entries, which still bound the counts."""
        return replace(
            self,
            keys=self.keys[kept],
            bracket=self.bracket[kept],
            left=self.left[kept],
            right=self.right[kept],
        )


def restrict(entries: Entries, wider: IntArray, low: np.ndarray, high: np.ndarray, order: KeyOrder) -> Entries:
    """Entries inside narrower brackets; those just outside bound the counts there.

    Parameters
    ----------
    entries : Entries
    wider : int64 array, shape (brackets,)
        The bracket that each of the narrower ones lies in.
    low, high : array, shape (brackets,)
        Ends of the narrower ones.
    order : KeyOrder
    """
    first = order.search(entries.keys, low, "left")
    last = order.search(entries.keys, high, "right")
    left, right = np.append(entries.left, entries.size), np.append(entries.right, 0)
    start = np.maximum(entries.start[wider], right[first - 1])
    stop = np.minimum(entries.stop[wider], left[last])
    length = last - first
    bracket = np.repeat(np.arange(len(first)), length)
    kept = np.arange(len(bracket)) + (first - np.cumsum(length) + length)[bracket]
    return Entries(entries.sizes, entries.keys[kept], bracket, entries.left[kept], entries.right[kept], start, stop)


def thin(entries: Entries, stride: int) -> Entries:
    """Every ``stride``-th entry, with the first and the last."""
    kept = np.unique(np.append(np.arange(0, len(entries.keys), stride), max(len(entries.keys) - 1, 0)))
    return entries.take(kept[: len(entries.keys)])


def add_up(answers: Sequence[Entries], order: KeyOrder) -> Entries:
    """What several answers tell together: every distinct key of theirs, and the sums of their step functions.

    Parameters
    ----------
    answers : sequence of Entries
        About the same brackets.
    order : KeyOrder
    """
    sizes = np.concatenate([a.sizes for a in answers])
    keys = np.concatenate([a.keys for a in answers])
    less_start, start = (sum(column) for column in zip(*(_starts(a) for a in answers), strict=True))
    stop = np.sum([a.stop for a in answers], axis=0)
    if not len(keys):
        none = np.empty(0, np.int64)
        return Entries(sizes, keys, none, none, none, start, stop)
    permutation = order.argsort(keys)
    keys = keys[permutation]
    bracket = np.concatenate([a.bracket for a in answers])[permutation]
    less, upto = np.concatenate([_rises(a) for a in answers], axis=1)[:, permutation]
    cell = np.flatnonzero(np.concatenate([np.ones(1, bool), order.changes(keys)]))
    # Sums before each cell, and up to its end; each bracket starts anew.
    less_before, upto_before = exclusive_scan(less)[cell], exclusive_scan(upto)
    upto_after = upto_before[np.append(cell[1:], len(keys))]
    bracket = bracket[cell]
    opening = np.searchsorted(bracket, bracket)
    left = less_start[bracket] + less_before - less_before[opening]
    right = start[bracket] + upto_after - upto_before[cell][opening]
    return Entries(sizes, keys[cell], bracket, left, right, start, stop)


def _starts(entries: Entries) -> tuple[IntArray, IntArray]:
    """Where the two step functions start, shape (brackets,) each."""
    first = _first_of_brackets(entries.bracket)
    less = entries.stop.copy()
    less[entries.bracket[first]] = entries.left[first]
    return less, entries.start


def _rises(entries: Entries) -> IntArray:
    """By how much the two step functions rise behind, and at, each entry: shape (2, entries)."""
    first = _first_of_brackets(entries.bracket)
    last = np.ones(len(first), bool)
    last[:-1] = first[1:]
    following, previous = np.roll(entries.left, -1), np.roll(entries.right, 1)
    following[last] = entries.stop[entries.bracket[last]]
    previous[first] = entries.start[entries.bracket[first]]
    return np.stack([following - entries.left, entries.right - previous])


def _first_of_brackets(bracket: IntArray) -> np.ndarray:
    first = np.ones(len(bracket), bool)
    first[1:] = bracket[1:] != bracket[:-1]
    return first


def summarise(answers: Sequence[Entries], samples: int, radix_bits: int, order: KeyOrder) -> Entries:
    """What several answers tell together, in a bounded number of entries.

    Parameters
    ----------
    answers : sequence of Entries
        About the same brackets.
    samples : int
        About how many entries are kept. Between two of them the counts are known to one ``samples``-th of the keys in
        the brackets less well than the answers know them.
    radix_bits : int
        Width of the digits in the answers, 0 if there are none.
    order : KeyOrder
    """
    whole = add_up(answers, order)
    digits = sum_digits([a.digits for a in answers], radix_bits) if radix_bits else None
    if len(whole.keys) > samples:
        distance = -(-int((whole.stop - whole.start).sum()) // samples)
        cell = (whole.left - whole.start[whole.bracket]) // distance
        # From the last entry of a cell to that of the next, all is known but what the next cell holds inside. The first
        # of a bracket says where its keys begin.
        first = _first_of_brackets(whole.bracket)
        last = np.ones(len(first), bool)
        last[:-1] = first[1:] | (cell[1:] != cell[:-1])
        whole = whole.take(np.flatnonzero(first | last))
    return replace(whole, digits=digits)
