"""Bounds of the cuts of sorted chunks between groups, after one round of counting.

Exact cuts need a second round, which counts the keys that the first one leaves unresolved. If a round costs more than a
few keys do, as between GPUs, the cut is resolved later. A chunk sends to a group the keys that certainly belong to it,
and those that may::

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

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import table
from ..chunk.run import is_fixed_width
from ..table import IntArray, KeyOrder, RankSummary


@dataclass(frozen=True)
class Bounds:
    """Bounds of the cuts of every sorted chunk; a run of several chunks counts as one chunk here.

    Attributes
    ----------
    first, last : int64 array, shape (chunks, groups + 1)
        The cut of chunk c before group g is between ``first[c, g]`` and ``last[c, g]``.
    ranks : int64 array, shape (groups + 1,)
        Global rank at which each group begins, in keys; the number of keys at the end.
    starts : int64 array, shape (chunks + 1,)
        Global position of each chunk's first key in the input.
    fingerprints : tuple of int
        Fingerprint of each chunk's summary, to recognise a chunk that changed.
    """

    first: IntArray
    last: IntArray
    ranks: IntArray
    starts: IntArray
    fingerprints: tuple[int, ...]

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


def bound_cuts(summaries: Sequence[RankSummary], ranks: IntArray, order: KeyOrder) -> Bounds:
    """Bound the cuts by the ranks of regular samples.

    Parameters
    ----------
    summaries : sequence of RankSummary, one a chunk
        Summaries of whole chunks, each with the first and the last key.
    ranks : int64 array, shape (groups - 1,)
        Global rank of each boundary between groups, in keys, ascending.
    order : KeyOrder

    Returns
    -------
    Bounds
    """
    sizes = np.array([summary.size for summary in summaries], np.int64)
    first = np.where(ranks > 0, sizes[:, None], 0)
    last = first.copy()
    if len(table.open_brackets(int(sizes.sum()), ranks)[0]):
        brackets = table.narrow(int(sizes.sum()), ranks, None, summaries, order)
        parts = table.restrict_all(summaries, None, brackets, order)
        for number in range(len(brackets.low)):
            counts = _count(parts, number, order)
            for boundary in np.flatnonzero(brackets.bracket == number):
                first[:, boundary], last[:, boundary] = _cut_range(counts, int(ranks[boundary]))
    starts = table.exclusive_scan(sizes)
    ends = np.zeros((len(sizes), 1), np.int64), sizes[:, None]
    return Bounds(
        np.concatenate([ends[0], first, ends[1]], axis=1),
        np.concatenate([ends[0], last, ends[1]], axis=1),
        np.concatenate([[0], ranks, starts[-1:]]).astype(np.int64),
        starts,
        tuple(map(fingerprint, summaries)),
    )


@dataclass(frozen=True)
class _Counts:
    """Bounds of each chunk's counts at each distinct entry of a bracket: arrays of shape (chunks, entries).

    Attributes
    ----------
    known : bool array
        Whether the entry is a key of the chunk's summary; its counts are exact then.
    less : pair of int64 arrays
        Lower and upper bound of the number of lesser keys.
    equal_or_less : pair of int64 arrays
        The same of the number of keys up to the entry.
    """

    known: np.ndarray
    less: tuple[IntArray, IntArray]
    equal_or_less: tuple[IntArray, IntArray]


def _count(parts: Sequence[RankSummary], bracket: int, order: KeyOrder) -> _Counts:
    mine = [slice(*np.searchsorted(part.bracket, [bracket, bracket + 1])) for part in parts]
    keys = np.concatenate([part.keys[cells] for part, cells in zip(parts, mine, strict=True)])
    keys = keys[order.argsort(keys)]
    keys = keys[np.concatenate([np.ones(1, bool), order.changes(keys)])]
    rows = []
    for part, cells in zip(parts, mine, strict=True):
        own = part.keys[cells]
        before, behind = order.search(own, keys, "left"), order.search(own, keys, "right")
        # Between two keys of its summary, a chunk's counts are between those of the two keys.
        right = np.append(part.start[bracket], part.right[cells])
        left = np.append(part.left[cells], part.stop[bracket])
        known = behind > before
        less = np.where(known, left[before], right[before]), left[before]
        upto = right[behind], np.where(known, right[behind], left[before])
        rows.append((known, *less, *upto))
    known, less_low, less_high, upto_low, upto_high = (np.stack(column) for column in zip(*rows, strict=True))
    return _Counts(known, (less_low, less_high), (upto_low, upto_high))


def _cut_range(counts: _Counts, rank: int) -> tuple[IntArray, IntArray]:
    """First and last possible position, shape (chunks,) each, of a boundary's cut in the chunks.

    The key at the rank is an entry, or is between two neighbouring entries. Every such case that the sums over all
    chunks allow gives bounds; the result covers them all.
    """
    (less_low, less_high), (upto_low, upto_high) = counts.less, counts.equal_or_less
    # The key is entry j: the ties before the boundary are distributed in chunk order.
    tied = (less_low.sum(axis=0) <= rank) & (rank < upto_high.sum(axis=0))
    low, high = _cut_ties(counts, rank)
    # The key is between entries j and j + 1.
    between_low, between_high = upto_low[:, :-1], less_high[:, 1:]
    between = (between_low.sum(axis=0) <= rank) & (rank < between_high.sum(axis=0))
    lows = np.concatenate([low[:, tied], between_low[:, between]], axis=1)
    highs = np.concatenate([high[:, tied], between_high[:, between]], axis=1)
    return lows.min(axis=1), highs.max(axis=1)


def _cut_ties(counts: _Counts, rank: int) -> tuple[IntArray, IntArray]:
    """Bounds of the cuts for each entry, if the key at the rank is that entry."""
    (less_low, less_high), (upto_low, upto_high) = counts.less, counts.equal_or_less
    equal_low, equal_high = np.where(counts.known, upto_low - less_low, 0), upto_high - less_low
    # Ties of earlier chunks come first: bounds of the ties that remain for this chunk.
    ahead_low, ahead_high = (np.cumsum(equal, axis=0) - equal for equal in (equal_low, equal_high))
    fewest = rank - less_high.sum(axis=0) - ahead_high
    most = rank - less_low.sum(axis=0) - ahead_low
    low = less_low + np.where(counts.known, np.clip(fewest, 0, equal_low), 0)
    high = np.where(counts.known, less_low + np.clip(most, 0, equal_low), upto_high)
    return low, high
