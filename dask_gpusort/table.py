"""The column-major table: exclusive scan, brackets of the cuts, exact cuts.

A *boundary* is a global rank at which the sorted array is cut between two exchange groups. Finding it means finding
the key that stands there and, for each sorted chunk, how many of its keys come before the cut.

Each chunk answers a round with *entries*: keys of its own, and how many of its keys are less than (``left``) and at
most (``right``) each. Between two entries of a chunk its counts are known only as bounds, so the sums over all
chunks are two step functions. The boundary's key lies where they cross::

    count(<= key), at least   ____________/~~~~     first key with  >= rank + 1   -> high end of the bracket
    count(<  key), at most    ______/~~~~~~~~~~     last key with   <= rank       -> low end of the bracket

When a chunk has answered with every distinct key in a bracket the bounds meet and the bracket is one key.
Digits narrow the first bracket further: counts per (digit, chunk), scanned in column-major order, say in which digit
a rank falls. Ties of the boundary's key are cut in chunk order, which keeps the sort stable and the groups exact.

References
----------
Satish, Harris, Garland, IPDPS 2009, section 4 (column-major table, one scan) and section 5 (ranks of samples).
Harada, Howes, Introduction to GPU Radix Sort, equation 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Side = Literal["left", "right"]

#: Entries that are sorted at once: where there are more, every n-th of them narrows the brackets first.
NARROWED_ENTRIES = 1 << 16


@dataclass(frozen=True)
class Digits:
    """Digit histogram of one sorted chunk of codes: ``counts[j]`` codes have ``code >> shift == first + j``."""

    shift: int
    first: int
    counts: IntArray


@dataclass(frozen=True)
class Entries:
    """What one sorted chunk tells about some brackets.

    Attributes
    ----------
    size : int
        Keys in the chunk.
    keys : array, shape (entries,)
        Keys of the chunk inside the brackets, ascending and distinct.
    bracket : int64 array, shape (entries,)
        The bracket of each entry.
    left, right : int64 array, shape (entries,)
        Keys of the chunk that are less than, and at most, each entry.
    start, stop : int64 array, shape (brackets,)
        Keys of the chunk below each bracket, at least, and not above it, at most.
    digits : Digits or None
        Histogram of the whole chunk, in the first round of the radix path.
    """

    size: int
    keys: np.ndarray
    bracket: IntArray
    left: IntArray
    right: IntArray
    start: IntArray
    stop: IntArray
    digits: Digits | None = None


@dataclass(frozen=True)
class Brackets:
    """Disjoint key intervals, ascending, both ends included, that hold the keys at the boundaries.

    Attributes
    ----------
    sizes : int64 array, shape (chunks,)
        Keys in each chunk.
    ranks : int64 array, shape (boundaries,)
        Global rank of each boundary, in keys, ascending.
    bracket : int64 array, shape (boundaries,)
        The bracket of each boundary; -1 where the rank is 0 or the number of keys, which needs no search.
    low, high : array, shape (brackets,)
        First and last key that can stand at the boundaries of the bracket.
    """

    sizes: IntArray
    ranks: IntArray
    bracket: IntArray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Cuts:
    """Exact cuts of every sorted chunk.

    Attributes
    ----------
    offsets : int64 array, shape (chunks, groups + 1)
        Keys ``offsets[c, g]`` to ``offsets[c, g + 1]`` of chunk c belong to group g.
    starts : int64 array, shape (chunks + 1,)
        Global position of each chunk's first key in the input.
    boundary : int64 array, shape (searched boundaries,)
        Groups that begin with a key that was searched for, and not at the first or behind the last key.
    keys : array, shape (searched boundaries,)
        The key at the beginning of each of those.
    """

    offsets: IntArray
    starts: IntArray
    boundary: IntArray
    keys: np.ndarray


@dataclass(frozen=True)
class KeyOrder:
    """How the table compares keys, which it does not understand.

    Attributes
    ----------
    argsort : callable(keys)
        Permutation that sorts keys.
    changes : callable(sorted keys)
        Where neighbours differ, shape (n - 1,).
    search : callable(sorted keys, needles, side)
        As `numpy.searchsorted`.
    """

    argsort: Callable[[np.ndarray], np.ndarray]
    changes: Callable[[np.ndarray], np.ndarray]
    search: Callable[[np.ndarray, np.ndarray, Side], np.ndarray]


def exclusive_scan(counts: IntArray) -> IntArray:
    """Sums of all earlier entries, with the total appended: shape (n,) to (n + 1,)."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def scan_table(counts: IntArray) -> IntArray:
    """Exclusive-scan a digit table in column-major order.

    Parameters
    ----------
    counts : int64 array, shape (radix, num_chunks)
        Keys per digit (row) and chunk (column). C order here is the papers' column-major order of (chunk, digit).

    Returns
    -------
    int64 array, same shape
        First global rank of each (digit, chunk) run, in keys.

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 4; Harada and Howes, equation 1.
    """
    return exclusive_scan(counts.ravel())[:-1].reshape(counts.shape)


def digit_table(digits: Sequence[Digits | None], radix_bits: int) -> tuple[int, int, IntArray]:
    """Bring the chunks' histograms onto one grid.

    Every histogram counts ``code >> shift`` with a shift of its chunk's own; a finer grid coarsens exactly onto a
    coarser one, because both are aligned to powers of two.

    Parameters
    ----------
    digits : sequence of Digits or None
        One histogram a chunk; None for a chunk without keys.
    radix_bits : int
        The common grid has at most ``2**radix_bits`` digits.

    Returns
    -------
    shift : int
    first : int
        ``code >> shift`` of the first row.
    counts : int64 array, shape (radix, num_chunks)
    """
    known = [d for d in digits if d is not None]
    lowest = min(d.first << d.shift for d in known)
    highest = max((d.first + len(d.counts)) << d.shift for d in known) - 1
    shift = max(max(d.shift for d in known), (lowest ^ highest).bit_length() - radix_bits)
    first = lowest >> shift
    counts = np.zeros(((highest >> shift) - first + 1, len(digits)), np.int64)
    for column, histogram in enumerate(digits):
        if histogram is not None:
            finer = shift - histogram.shift
            # The chunk's first digit may stand in the middle of a common one.
            lead = histogram.first & ((1 << finer) - 1)
            rows = (np.arange(len(histogram.counts)) + lead) >> finer
            np.add.at(counts[:, column], rows + ((histogram.first >> finer) - first), histogram.counts)
    return shift, first, counts


def digit_brackets(digits: Sequence[Digits | None], ranks: IntArray, radix_bits: int) -> tuple[list[int], list[int]]:
    """First and last code of the digit in which each rank falls."""
    shift, first, counts = digit_table(digits, radix_bits)
    row_starts = scan_table(counts)[:, 0]
    # The last of several equal starts is the digit that is not empty.
    rows = np.searchsorted(row_starts, ranks, side="right") - 1
    low = [(first + int(row)) << shift for row in rows]
    return low, [code + (1 << shift) - 1 for code in low]


def open_brackets(sizes: IntArray, ranks: IntArray) -> tuple[IntArray, IntArray]:
    """Boundaries that must be searched for, and the bracket that each has before anything is known: one for all.

    Rank 0 and the number of keys need no search; their bracket is -1.
    """
    inside = (ranks > 0) & (ranks < sizes.sum())
    return np.flatnonzero(inside), np.where(inside, 0, -1)


def disjoint(sizes: IntArray, ranks: IntArray, low: np.ndarray, high: np.ndarray, order: KeyOrder) -> Brackets:
    """Brackets from the ends that each searched boundary has: those that overlap become one.

    Parameters
    ----------
    sizes, ranks
        As in `Brackets`.
    low, high : array, shape (searched boundaries,)
        Ascending, as ranks are.
    order : KeyOrder
    """
    searched, bracket = open_brackets(sizes, ranks)
    if not len(searched):
        return Brackets(sizes, ranks, bracket, low, high)
    places = _dense_ranks(np.concatenate([low, high]), order)
    low_place, high_place = np.split(places, 2)
    apart = np.ones(len(searched), bool)
    apart[1:] = low_place[1:] > np.maximum.accumulate(high_place)[:-1]
    first = np.flatnonzero(apart)
    last = np.append(first[1:], len(apart)) - 1
    bracket[searched] = np.cumsum(apart) - 1
    return Brackets(sizes, ranks, bracket, low[first], high[last])


def _dense_ranks(keys: np.ndarray, order: KeyOrder) -> IntArray:
    """Number of distinct smaller keys, for each key."""
    permutation = order.argsort(keys)
    ranks = np.empty(len(keys), np.int64)
    ranks[permutation] = np.concatenate([[0], np.cumsum(order.changes(keys[permutation]))])
    return ranks


def restrict(entries: Entries, wider: IntArray, brackets: Brackets, order: KeyOrder) -> Entries:
    """One chunk's entries inside narrower brackets; those just outside bound its counts there.

    Parameters
    ----------
    entries : Entries
    wider : int64 array, shape (brackets,)
        The bracket that each of the narrower ones lies in.
    brackets : Brackets
    order : KeyOrder
    """
    first = order.search(entries.keys, brackets.low, "left")
    last = order.search(entries.keys, brackets.high, "right")
    left, right = np.append(entries.left, entries.size), np.append(entries.right, 0)
    start = np.maximum(entries.start[wider], right[first - 1])
    stop = np.minimum(entries.stop[wider], left[last])
    length = last - first
    bracket = np.repeat(np.arange(len(first)), length)
    kept = np.arange(len(bracket)) + (first - np.cumsum(length) + length)[bracket]
    return Entries(entries.size, entries.keys[kept], bracket, entries.left[kept], entries.right[kept], start, stop)


def thin(entries: Entries, stride: int) -> Entries:
    """Every ``stride``-th entry of one chunk, with the first and the last."""
    kept = np.unique(np.append(np.arange(0, len(entries.keys), stride), max(len(entries.keys) - 1, 0)))
    kept = kept[: len(entries.keys)]
    return Entries(
        entries.size,
        entries.keys[kept],
        entries.bracket[kept],
        entries.left[kept],
        entries.right[kept],
        entries.start,
        entries.stop,
    )


@dataclass(frozen=True)
class _Bounds:
    """The two step functions at each distinct key of all entries, ascending."""

    bracket: IntArray
    keys: np.ndarray
    less_at_most: IntArray
    equal_at_least: IntArray


def _bounds(answers: Sequence[Entries], order: KeyOrder) -> _Bounds:
    keys = np.concatenate([a.keys for a in answers])
    permutation = order.argsort(keys)
    keys = keys[permutation]
    bracket = np.concatenate([a.bracket for a in answers])[permutation]
    starts, rises = zip(*(_step_functions(a) for a in answers), strict=True)
    cell = np.flatnonzero(np.concatenate([np.ones(1, bool), order.changes(keys)]))
    less, equal = np.concatenate(rises, axis=1)[:, permutation]
    # Sums before each cell, and up to its end; each bracket starts anew.
    less_before, equal_before = exclusive_scan(less)[cell], exclusive_scan(equal)
    equal_after = equal_before[np.append(cell[1:], len(keys))]
    cell_bracket = bracket[cell]
    opening = np.searchsorted(cell_bracket, cell_bracket)
    less_start, equal_start = sum(starts)[:, cell_bracket]
    return _Bounds(
        cell_bracket,
        keys[cell],
        less_start + less_before - less_before[opening],
        equal_start + equal_after - equal_before[cell][opening],
    )


def _step_functions(entries: Entries) -> tuple[IntArray, IntArray]:
    """One chunk's two step functions: shape (2, brackets) where they start, (2, entries) by how much they rise.

    Row 0, keys less than x at most: rises behind an entry. Row 1, keys up to x at least: rises at an entry.
    """
    first = np.ones(len(entries.bracket), bool)
    first[1:] = entries.bracket[1:] != entries.bracket[:-1]
    last = np.ones(len(first), bool)
    last[:-1] = first[1:]
    following, previous = np.roll(entries.left, -1), np.roll(entries.right, 1)
    following[last] = entries.stop[entries.bracket[last]]
    previous[first] = entries.start[entries.bracket[first]]
    less_start = entries.stop.copy()
    less_start[entries.bracket[first]] = entries.left[first]
    return np.stack([less_start, entries.start]), np.stack([following - entries.left, entries.right - previous])


def narrow(
    sizes: IntArray, ranks: IntArray, before: Brackets | None, answers: Sequence[Entries], order: KeyOrder
) -> Brackets:
    """Narrow the brackets to what the chunks' entries allow.

    Parameters
    ----------
    sizes, ranks
        As in `Brackets`.
    before : Brackets or None
        That the answers are about; None for all keys.
    answers : sequence of Entries, one a chunk
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
        coarse = _narrow_once(sizes, ranks, before, [thin(a, stride) for a in answers], order)
        answers = restrict_all(answers, before, coarse, order)
        before = coarse
    return _narrow_once(sizes, ranks, before, answers, order)


def restrict_all(
    answers: Sequence[Entries], before: Brackets | None, after: Brackets, order: KeyOrder
) -> list[Entries]:
    """Every chunk's entries inside narrower brackets."""
    searched, opening = np.unique(after.bracket, return_index=True)
    opening = opening[searched >= 0]
    wider = np.zeros(len(opening), np.int64) if before is None else before.bracket[opening]
    return [restrict(a, wider, after, order) for a in answers]


def _narrow_once(
    sizes: IntArray, ranks: IntArray, before: Brackets | None, answers: Sequence[Entries], order: KeyOrder
) -> Brackets:
    searched, bracket = open_brackets(sizes, ranks)
    if before is not None:
        bracket = before.bracket
        if not any(len(a.keys) for a in answers):
            return before
    bounds = _bounds(answers, order)
    low, high = np.full(len(ranks), -1), np.full(len(ranks), -1)
    for number in np.unique(bracket[searched]):
        cells = slice(*np.searchsorted(bounds.bracket, [number, number + 1]))
        mine = bracket == number
        below = np.searchsorted(bounds.less_at_most[cells], ranks[mine], side="right") - 1
        above = np.searchsorted(bounds.equal_at_least[cells], ranks[mine] + 1, side="left")
        low[mine] = np.where(below >= 0, cells.start + below, -1)
        high[mine] = np.where(above < cells.stop - cells.start, cells.start + above, -1)
    ends: list[np.ndarray] = []
    for end, cell in (("low", low[searched]), ("high", high[searched])):
        keys = bounds.keys[cell]
        # What the entries do not narrow stays as it was; an open bracket has entries at both ends.
        if before is not None and (cell < 0).any():
            keys[cell < 0] = getattr(before, end)[bracket[searched[cell < 0]]]
        ends.append(keys)
    return disjoint(sizes, ranks, ends[0], ends[1], order)


def cut(before: Brackets, answers: Sequence[Entries], order: KeyOrder) -> Cuts:
    """Exact cuts, from answers that hold every distinct key of every bracket.

    Parameters
    ----------
    before : Brackets
        As sent to the chunks in the last round.
    answers : sequence of Entries, one a chunk
        Complete: every distinct key of the chunk inside each bracket is an entry.
    order : KeyOrder

    Returns
    -------
    Cuts

    Raises
    ------
    ValueError
        If the cuts contradict each other, which no true order makes them do.
    """
    sizes, ranks = before.sizes, before.ranks
    inner = np.where(ranks[:, None] > 0, sizes, 0)
    searched, _ = open_brackets(sizes, ranks)
    keys = before.low
    if len(searched):
        exact = narrow(sizes, ranks, before, answers, order)
        mine = exact.bracket[searched]
        keys = exact.low[mine]
        parts = restrict_all(answers, before, exact, order)
        # One row a chunk; of a chunk without the key, start and stop are the same.
        less = np.stack([part.start for part in parts])
        equal = np.zeros_like(less)
        for chunk, part in enumerate(parts):
            less[chunk, part.bracket] = part.left
            equal[chunk, part.bracket] = part.right - part.left
        wanted = ranks[searched] - less.sum(axis=0)[mine]
        ties = [cut_ties(equal[:, bracket], count) for bracket, count in zip(mine, wanted, strict=True)]
        inner[searched] = less.T[mine] + np.stack(ties)
    offsets = np.concatenate([np.zeros((1, len(sizes)), np.int64), inner, sizes[None]])
    if (np.diff(offsets, axis=0) < 0).any() or (inner.sum(axis=1) != ranks).any():
        raise ValueError(
            "the keys' comparison contradicts itself: no cuts between chunks fit it; "
            "less= must be a strict weak order, and so must the comparison of Python objects"
        )
    return Cuts(np.ascontiguousarray(offsets.T), exclusive_scan(sizes), searched + 1, keys)


def cut_ties(equal: IntArray, wanted: int) -> IntArray:
    """Share out ``wanted`` of the keys equal to a boundary's key, in chunk order.

    Parameters
    ----------
    equal : int64 array, shape (num_chunks,)
        Keys of each chunk that equal the boundary's key.
    wanted : int
        How many of them come before the boundary.

    Returns
    -------
    int64 array, shape (num_chunks,)
    """
    return np.clip(wanted - exclusive_scan(equal)[:-1], 0, equal)
