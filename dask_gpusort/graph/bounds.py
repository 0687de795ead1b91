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
