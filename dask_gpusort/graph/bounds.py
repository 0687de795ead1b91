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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import table
from ..chunk.run import is_fixed_width
from ..table import IntArray, KeyOrder, RankSummary

#: Most pairs of a chunk and an entry for which all entries are counted in all chunks. For more, brackets around the
#: boundaries are found first, which takes about as many NumPy calls again: the cuts of two members of a gang take
#: 0.16 ms without brackets and 0.29 with them, those of four members 0.47 and 0.74.
DIRECT_COUNTS = 1 << 17


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


def bound_cuts(summaries: Sequence[RankSummary], ranks: IntArray, order: KeyOrder, radix_bits: int = 0) -> Bounds:
    """Bound the cuts by the ranks of regular samples and, on the radix path, by the table of digits.

    Parameters
    ----------
    summaries : sequence of RankSummary, one a chunk
        Summaries of whole chunks, each with the first and the last key.
    ranks : int64 array, shape (groups - 1,)
        Global rank of each boundary between groups, in keys, ascending.
    order : KeyOrder
    radix_bits : int
        Bits of the digits in the summaries, 0 if there are none.

    Returns
    -------
    Bounds
    """
    sizes = np.array([summary.size for summary in summaries], np.int64)
    first = np.where(ranks > 0, sizes[:, None], 0)
    last = first.copy()
    for inside, parts, bracket in _brackets(summaries, ranks, order):
        counts = _count(parts, bracket, order)
        first[:, inside], last[:, inside] = _cut_ranges(counts, ranks[inside])
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


def _brackets(
    summaries: Sequence[RankSummary], ranks: IntArray, order: KeyOrder
) -> Iterator[tuple[IntArray, Sequence[RankSummary], int]]:
    """The boundaries inside each bracket, the summaries restricted to the brackets, and the number of the bracket."""
    total = sum(summary.size for summary in summaries)
    inside = np.flatnonzero((ranks > 0) & (ranks < total))
    if not len(inside):
        return
    if len(summaries) * sum(len(summary.keys) for summary in summaries) <= DIRECT_COUNTS:
        yield inside, summaries, 0
        return
    brackets = table.narrow(total, ranks, None, summaries, order)
    parts = table.restrict_all(summaries, None, brackets, order)
    for number in range(len(brackets.low)):
        yield np.flatnonzero(brackets.bracket == number), parts, number


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


def _cut_ranges(counts: _Counts, ranks: IntArray) -> tuple[IntArray, IntArray]:
    """First and last possible position, shape (chunks, boundaries) each, of each boundary's cut in the chunks.

    The key at a rank is an entry, or is between two neighbouring entries. Every such case that the sums over all
    chunks allow gives bounds; the result covers them all.
    """
    # Sums over all chunks grow from entry to entry, so the cases of a boundary are neighbours.
    less_low, less_high = (one.sum(axis=0) for one in counts.less)
    upto_low, upto_high = (one.sum(axis=0) for one in counts.equal_or_less)
    start = np.minimum(
        np.searchsorted(upto_high, ranks, "right"), np.maximum(np.searchsorted(less_high, ranks, "right") - 1, 0)
    )
    stop = np.maximum(np.searchsorted(less_low, ranks, "right"), np.searchsorted(upto_low, ranks, "right"))
    entry = start[:, None] + np.arange(max((stop - start).max(), 1))
    entry = np.minimum(entry, len(less_low) - 1)
    after = np.minimum(entry + 1, len(less_low) - 1)
    rank = ranks[:, None]
    # The key is entry j: the ties before the boundary are distributed in chunk order.
    tied = (less_low[entry] <= rank) & (rank < upto_high[entry])
    low, high = _cut_ties(counts, entry, rank)
    # The key is between entries j and j + 1.
    between = (upto_low[entry] <= rank) & (rank < less_high[after]) & (entry < after)
    between_low, between_high = counts.equal_or_less[0][:, entry], counts.less[1][:, after]
    none_low, none_high = np.iinfo(np.int64).max, -1
    lows = np.minimum(np.where(tied, low, none_low), np.where(between, between_low, none_low))
    highs = np.maximum(np.where(tied, high, none_high), np.where(between, between_high, none_high))
    return lows.min(axis=2), highs.max(axis=2)


def _cut_ties(counts: _Counts, entry: IntArray, rank: IntArray) -> tuple[IntArray, IntArray]:
    """Bounds of the cuts in each chunk, if the key at a rank is some entry."""
    known = counts.known[:, entry]
    (less_low, less_high), (upto_low, upto_high) = (
        (one[:, entry], other[:, entry]) for one, other in (counts.less, counts.equal_or_less)
    )
    equal_low, equal_high = np.where(known, upto_low - less_low, 0), upto_high - less_low
    # Ties of earlier chunks come first: bounds of the ties that remain for this chunk.
    ahead_low, ahead_high = (np.cumsum(equal, axis=0) - equal for equal in (equal_low, equal_high))
    fewest = rank - less_high.sum(axis=0) - ahead_high
    most = rank - less_low.sum(axis=0) - ahead_low
    low = less_low + np.where(known, np.clip(fewest, 0, equal_low), 0)
    high = np.where(known, less_low + np.clip(most, 0, equal_low), upto_high)
    return low, high
