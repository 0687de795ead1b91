"""How a sorted chunk answers a round of counting, wherever its keys lie.

The chunk is asked through a few questions (`SortedKeys`); `numpy_ops` and `cupy_ops` answer them from host and device
memory. Whatever comes out is small and lies on the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..table import Brackets, Counts, Digits, Entries, IntArray, Side


@dataclass(frozen=True)
class Samples:
    """Regular positions: every `distance`-th one of some ranges, and the last one of each.

    The last one may be there twice. Ranges that are empty have none.

    Attributes
    ----------
    start, stop : int64 array, shape (ranges,)
    distance : int
    """

    start: IntArray
    stop: IntArray
    distance: int

    def are_of_all(self, size: int) -> bool:
        """Whether there is one range, of all of so many keys."""
        return len(self.start) == 1 and self.start[0] == 0 and self.stop[0] == size

    @property
    def positions(self) -> IntArray:
        """All positions, range after range."""
        count = self._count()
        of = np.repeat(np.arange(len(count)), count)
        step = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
        return np.minimum(self.start[of] + step * self.distance, self.stop[of] - 1)

    @property
    def range_of(self) -> IntArray:
        """The range of each position."""
        return np.repeat(np.arange(len(self.start)), self._count())

    def _count(self) -> IntArray:
        count = -(-(self.stop - self.start) // self.distance)
        return np.where(count > 0, count + 1, 0)


class SortedKeys(Protocol):
    """The sorted keys of one chunk. Keys that are given out or come in are least of their tie class."""

    @property
    def size(self) -> int:
        """Number of keys."""

    def at(self, positions: IntArray) -> np.ndarray:
        """Keys at some positions."""

    def search(self, needles: np.ndarray, side: Side) -> IntArray:
        """How many keys are less than ("left"), or at most ("right"), each needle."""

    def differ(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Elementwise: whether keys that were given out differ."""

    def ranked(self, samples: Samples) -> tuple[np.ndarray, IntArray, IntArray]:
        """Keys at regular positions, and how many keys are less than, and at most, each (see `rank_samples`)."""


def probe(keys: SortedKeys, brackets: Brackets | None, samples: int | None, digits: Digits | None) -> Entries:
    """Tell how one chunk's keys lie in some brackets.

    Parameters
    ----------
    keys : SortedKeys
    brackets : Brackets or None
        None asks about the whole chunk.
    samples : int or None
        Most keys to answer with, at regular distances; None answers with every distinct key.
    digits : Digits or None
        Goes along.

    Returns
    -------
    Entries

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 5.2: regular samples bound every sub-block.
    """
    if brackets is None:
        start, stop = np.zeros(1, np.int64), np.full(1, keys.size, np.int64)
    else:
        start, stop = keys.search(brackets.low, "left"), keys.search(brackets.high, "right")
    asked = int((stop - start).sum())
    distance = 1 if samples is None else max(1, -(-asked // samples))
    chosen = Samples(start, stop, distance)
    found, left, right = keys.ranked(chosen)
    # Keys that compare equal have the same rank.
    new = np.ones(len(found), bool)
    new[1:] = left[1:] != left[:-1]
    sizes = np.array([keys.size])
    return Entries(sizes, found[new], chosen.range_of[new], left[new], right[new], start, stop, digits)


def rank_samples(keys: SortedKeys, samples: Samples) -> tuple[np.ndarray, IntArray, IntArray]:
    """Answer `SortedKeys.ranked` by the other questions."""
    position = samples.positions
    found = keys.at(position)
    new = np.ones(len(found), bool)
    new[1:] = keys.differ(found[1:], found[:-1])
    left, right = _own_counts(keys, found[new], position[new])
    place = np.cumsum(new) - 1
    return found, left[place], right[place]


def count_ends(keys: SortedKeys, brackets: Brackets | None) -> Counts:
    """Count one chunk's keys up to both ends of each bracket; of no bracket, the keys alone."""
    sizes = np.array([keys.size])
    if brackets is None or not len(brackets.low):
        return Counts(sizes, np.empty((4, 0), np.int64))
    low, high = ([keys.search(end, side) for side in ("left", "right")] for end in (brackets.low, brackets.high))
    # Between the ends of a bracket that is one key there is nothing.
    return Counts(sizes, np.stack([*low, np.maximum(low[1], high[0]), high[1]]))


def _own_counts(keys: SortedKeys, found: np.ndarray, position: IntArray) -> tuple[IntArray, IntArray]:
    """How many keys are less than, and at most, those at some positions.

    A key whose neighbours differ needs no search, and neighbours lie in the cache.
    """
    left, right = position.copy(), position + 1
    before, after = np.maximum(position - 1, 0), np.minimum(right, keys.size - 1)
    tied = np.flatnonzero(~(keys.differ(keys.at(before), found) & keys.differ(keys.at(after), found)))
    left[tied] = keys.search(found[tied], "left")
    right[tied] = keys.search(found[tied], "right")
    return left, right


def leading_digits(keys: SortedKeys, radix_bits: int) -> tuple[int, int, np.ndarray]:
    """Shift, first digit and inner edges of a histogram of codes, behind the prefix that the ends share."""
    ends = keys.at(np.array([0, keys.size - 1]))
    first, last = int(ends[0]), int(ends[1])
    shift = max(0, (first ^ last).bit_length() - radix_bits)
    digits = np.arange(first >> shift, (last >> shift) + 1, dtype=np.uint64)
    return shift, first >> shift, (digits[1:] << np.uint64(shift)).astype(ends.dtype)


def count_digits(size: int, shift: int, first: int, offsets: IntArray) -> Digits:
    """Histogram from the positions of its inner edges.

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 4.2: bucket offsets are where the digits of neighbours differ.
    """
    return Digits(shift, first, np.diff(offsets, prepend=0, append=size).astype(np.int64))
