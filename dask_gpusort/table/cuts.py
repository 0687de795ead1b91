"""Cuts: where every sorted chunk is cut between groups, once the keys at the boundaries are bracketed.

Each chunk counts its keys up to both ends of each bracket, and the sums give the step in which a boundary falls.
*Tied*: its key is an end of the bracket. Equal keys are divided in chunk order, down the tree of chunks: exactly.
*Open*: few keys are between the ends. They go to both groups, each of which trims its end by rank once it is sorted.

Satish, Harris, Garland, IPDPS 2009, section 4 (one scan of all blocks' counts).
Sengupta, Harris, Zhang, Owens, Scan primitives for GPU computing, 2007 (up the tree for sums, down it for offsets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .brackets import Brackets
from .digits import IntArray, exclusive_scan, share_out


@dataclass(frozen=True)
class Counts:
    """Count keys up to the ends of the brackets, in a sorted chunk or in several together."""

    sizes: IntArray  # shape (chunks,): keys in each chunk
    #: Shape (4, brackets): keys less than the low end, up to it, less than the high end (no fewer), and up to it.
    ends: IntArray


def add_counts(counts: Sequence[Counts]) -> Counts:
    """Counts of several chunks together."""
    return Counts(np.concatenate([c.sizes for c in counts]), np.sum([c.ends for c in counts], axis=0))


@dataclass(frozen=True)
class Boundaries:
    """Hold the boundaries, from the counts of all chunks."""

    brackets: Brackets
    step: IntArray  # shape (boundaries,): where each searched boundary's rank falls: 1 is open, 0 and 2 are tied
    ties: IntArray  # shape (boundaries,): keys equal to a tied boundary's key that come before the boundary
    ranks: IntArray  # shape (groups + 1,): global rank at which each group begins, and the number of keys
    first: IntArray  # shape (groups + 1,): rank of the first key that each group receives, and the number of keys
    last: IntArray  # shape (groups + 1,): rank behind the last key that the previous group receives
    starts: IntArray  # shape (chunks + 1,): global position of each chunk's first key in the input

    def received(self, group: int) -> int:
        """Keys that a group receives."""
        return int(self.last[group + 1] - self.first[group])

    def kept(self, group: int) -> slice:
        """Give the range that a group keeps of its received keys after sorting."""
        start = int(self.ranks[group] - self.first[group])
        return slice(start, start + int(self.ranks[group + 1] - self.ranks[group]))


@dataclass(frozen=True)
class Cuts:
    """Cut some neighbouring chunks: group g receives keys ``first[c, g]`` to ``last[c, g + 1]`` of the c-th chunk."""

    chunk: int  # number of the first chunk
    starts: IntArray  # shape (chunks + 1,): global position of each chunk's first key in the input
    first: IntArray  # shape (chunks, groups + 1)
    last: IntArray  # shape (chunks, groups + 1)


def find_boundaries(brackets: Brackets, counts: Counts) -> Boundaries:
    """Find the boundaries from the counts of all chunks; counts that contradict the brackets are refused."""
    ranks, bracket = brackets.ranks, brackets.bracket
    searched = np.flatnonzero(bracket >= 0)
    ends = counts.ends[:, bracket[searched]]
    rank = ranks[searched]
    _check_order(bool((ends[0] <= rank).all() and (rank < ends[3]).all()))
    between = (ends[1:3] <= rank).sum(axis=0)
    step, ties = np.zeros(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    step[searched] = between
    is_open = between == 1
    ties[searched] = np.where(is_open, 0, rank - np.take_along_axis(ends, between[None], axis=0)[0])
    first, last = ranks.copy(), ranks.copy()
    first[searched] = np.where(is_open, ends[1], rank)
    last[searched] = np.where(is_open, ends[2], rank)
    starts = exclusive_scan(counts.sizes)
    ranks, first, last = (np.concatenate([[0], inner, starts[-1:]]) for inner in (ranks, first, last))
    return Boundaries(brackets, step, ties, ranks, first, last, starts)


def _check_order(fits: bool) -> None:
    if not fits:
        raise ValueError(
            "the keys' comparison contradicts itself: no cuts between chunks fit it; "
            "less= must be a strict weak order, and so must the comparison of Python objects"
        )


def share_ties(boundaries: Boundaries, ties: IntArray, parts: Sequence[Counts]) -> IntArray:
    """Distribute the ties of some chunks, shape (boundaries,), between parts of them, first parts first."""
    # A tie is a key that equals a tied boundary's key and comes before the boundary; the result has shape (parts,
    # boundaries).
    tied = np.flatnonzero((boundaries.step != 1) & (boundaries.brackets.bracket >= 0))
    bracket, step = boundaries.brackets.bracket[tied], boundaries.step[tied]
    available = np.array([part.ends[step + 1, bracket] - part.ends[step, bracket] for part in parts], np.int64)
    shared = np.zeros((len(parts), len(ties)), np.int64)
    shared[:, tied] = share_out(ties[tied], available)
    return shared


def cut(boundaries: Boundaries, ties: IntArray, chunk: int, chunks: Sequence[Counts]) -> Cuts:
    """Cut neighbouring chunks from number `chunk` on, whose ties are as for `share_ties`."""
    bracket, step, ranks = boundaries.brackets.bracket, boundaries.step, boundaries.brackets.ranks
    sizes = np.concatenate([counts.sizes for counts in chunks])
    first = np.where(ranks > 0, sizes[:, None], 0)
    last = first.copy()
    searched = np.flatnonzero(bracket >= 0)
    shared = share_ties(boundaries, ties, chunks)[:, searched]
    ends = np.array([counts.ends[:, bracket[searched]] for counts in chunks])
    _check_order(bool((np.diff(ends, axis=1) >= 0).all()))
    row = step[searched]
    below = ends[:, row, np.arange(len(searched))]
    first[:, searched] = below + shared
    last[:, searched] = np.where(row == 1, ends[:, 2], below + shared)
    none = np.zeros((len(sizes), 1), np.int64)
    first, last = (np.concatenate([none, inner, sizes[:, None]], axis=1) for inner in (first, last))
    _check_order(bool((first <= last).all() and (np.diff(first) >= 0).all() and (np.diff(last) >= 0).all()))
    return Cuts(chunk, boundaries.starts[chunk : chunk + len(sizes) + 1], first, last)


def still_fits(counts: Counts, number: int, cuts: Cuts, boundaries: Boundaries) -> bool:
    """Tell whether the cuts still fit their chunk `number` when it is counted again."""
    if counts.sizes[0] != cuts.first[number, -1]:
        return False
    searched = np.flatnonzero(boundaries.brackets.bracket >= 0)
    bracket, step = boundaries.brackets.bracket[searched], boundaries.step[searched]
    least, most = counts.ends[step, bracket], counts.ends[step + 1, bracket]
    first, last = cuts.first[number, searched + 1], cuts.last[number, searched + 1]
    exact = (step != 1) | ((first == least) & (last == most))
    return bool((exact & (least <= first) & (last <= most)).all())
