"""Stable merge sort by the user's comparison, with all comparisons of a step in one call.

A call of ``less(a, b)`` costs some microseconds however few elements it compares. So all pairs of runs of a round are
cut along their merge paths into *lanes* of limited length, and all lanes advance together, one key each::

    run A   run B          cut by the diagonals           lanes, in lockstep
    1 4 6 8 | 2 3 7 9      [1 4 | 2 3] [6 8 | 7 9]        1 6    2 7    3 8    4 9

A comparison that is no strict weak order gives inconsistent cuts. They are moved until they are consistent, so that
every round ends and every key comes out once, whatever the comparison returns.

Satish, Harris, Garland, IPDPS 2009, section 5; Odeh, Green, Mwassi, Shmueli, Birk, Merge Path, IPDPSW 2012.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..table import IntArray, Side

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Less: TypeAlias = Callable[[Any, Any], Any]

#: Keys whose pairs and triples are all tested: 2,304 comparisons, a hundred microseconds.
TESTED_KEYS = 48

#: Shortest lane, in keys: shorter lanes cost more in diagonal searches than they save in merging.
_SHORTEST_LANE = 32

_REMEDY = "for any two elements it must say which comes first, or that neither does, without contradictions"


def argsort(array: Array, less: Less, offsets: IntArray | None = None) -> IntArray:
    """Find the stable permutation that sorts keys of any dtype by a comparison of two arrays of one shape."""
    # Offsets, shape (runs + 1,), are the ends of contiguous sorted runs; without them every key is a run.
    if len(array) and offsets is None:
        check(array, less)
        # Of most keys that are not in order, few are compared.
        if not _descents(array[:TESTED_KEYS], less).size and not _descents(array, less).size:
            return np.arange(len(array))
    bounds: IntArray = np.arange(len(array) + 1, dtype=np.int64) if offsets is None else offsets
    permutation = np.arange(len(array), dtype=np.int64)
    ordered = array
    while len(bounds) > 2:
        source = _merge_round(ordered, bounds, less)
        ordered, permutation = ordered[source], permutation[source]
        bounds = np.append(bounds[:-1:2], bounds[-1])
    descents = _descents(ordered, less)
    if len(descents):
        first, second = ordered[descents[0]], ordered[descents[0] + 1]
        raise left_behind(second, first)
    return permutation


def left_behind(element: Any, earlier: Any) -> ValueError:
    """Give the error of a comparison by which a sort leaves an element behind one that comes later."""
    return ValueError(f"less is no strict weak order: sorting by it leaves {element!r} behind {earlier!r}; {_REMEDY}")


def _descents(ordered: Array, less: Less) -> IntArray:
    return np.flatnonzero(compare(less, ordered[1:], ordered[:-1]))


def compare(less: Less, first: Array, second: Array) -> Array:
    """Compare, and refuse a result that is not an array of truth values of the same shape."""
    found = np.asarray(less(first, second))
    if found.shape != first.shape or found.dtype.kind not in "bO":
        raise TypeError(
            f"less must give an array of bool of its arguments' shape {first.shape}: "
            f"got {found.dtype} of shape {found.shape}"
        )
    return found.astype(bool, copy=False)


def check(array: Array, less: Less) -> None:
    """Refuse a comparison that contradicts itself among some of the keys, and name these."""
    # Every element is compared with itself, and `TESTED_KEYS` of them with each other.
    selves = np.flatnonzero(compare(less, array, array))
    if len(selves):
        raise ValueError(f"less is no strict weak order: less(a, a) is true for a = {array[selves[0]]!r}; {_REMEDY}")
    sample = array[np.unique(np.linspace(0, len(array) - 1, TESTED_KEYS).astype(np.int64))]
    count = len(sample)
    below = compare(less, np.repeat(sample, count), np.tile(sample, count)).reshape(count, count)
    both = np.argwhere(below & below.T)
    if len(both):
        raise _contradiction(sample[both[0]], "less(a, b) and less(b, a) are both true")
    _check_chains(sample, below, "less(a, b) and less(b, c) are true and less(a, c) is not")
    _check_chains(
        sample,
        ~(below | below.T),
        "b comes neither before nor behind a, nor c, yet one of those before the other (as with NaN, if not put last)",
    )


def _check_chains(sample: Array, related: Array, what: str) -> None:
    """Refuse a relation that is not transitive, as both relations of a strict weak order are."""
    steps = related.astype(np.float32)
    missing = np.argwhere(np.greater(steps @ steps, 0) & ~related)
    if len(missing):
        first, third = missing[0]
        second = np.flatnonzero(related[first] & related[:, third])[0]
        raise _contradiction(sample[[first, second, third]], what)


def _contradiction(elements: Array, what: str) -> ValueError:
    named = ", ".join(f"{name} = {element!r}" for name, element in zip("abc", elements, strict=False))
    return ValueError(f"less is no strict weak order: for {named}, {what}; {_REMEDY}")


@dataclass(frozen=True)
class _Lanes:
    """Pieces of pairs of runs, longest first: keys ``a:a_end`` and ``b:b_end`` go to the offsets from ``out`` on."""

    a: IntArray
    a_end: IntArray
    b: IntArray
    b_end: IntArray
    out: IntArray


def _merge_round(keys: Array, bounds: IntArray, less: Less) -> IntArray:
    """Give the source of each key after neighbouring runs are merged in pairs."""
    source = np.arange(len(keys), dtype=np.int64)
    lanes = _lanes(keys, bounds, less)
    a, b = lanes.a.copy(), lanes.b.copy()
    lengths = lanes.a_end - a + lanes.b_end - b
    # Lanes are sorted by length, longest first, so the lanes active at a step are the first ones.
    active = np.searchsorted(-lengths, -np.arange(lengths.max(initial=0)), side="left")
    last = max(len(keys) - 1, 0)
    for step, count in enumerate(active):
        one, other = a[:count], b[:count]
        is_less = compare(less, keys[np.minimum(other, last)], keys[np.minimum(one, last)])
        # Ties take the first run's key, for stability.
        second = (one >= lanes.a_end[:count]) | ((other < lanes.b_end[:count]) & is_less)
        source[lanes.out[:count] + step] = np.where(second, other, one)
        other += second
        one += ~second
    return source


def _lanes(keys: Array, bounds: IntArray, less: Less) -> _Lanes:
    low, middle, high = bounds[:-2:2], bounds[1:-1:2], bounds[2::2]
    size = max(_SHORTEST_LANE, math.isqrt(len(keys)) // 4)
    count = -(-(high - low) // size)
    pair = np.repeat(np.arange(len(low)), count)
    diagonal = (np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)) * size
    start, begin, end = low[pair], middle[pair], high[pair]
    a = start + _consistent(_merge_path(keys, start, begin, end, diagonal, less), start, pair, diagonal)
    b = begin + diagonal - (a - start)
    closing = np.append(pair[1:] != pair[:-1], True)
    a_end, b_end = (np.where(closing, ends, np.roll(first, -1)) for first, ends in ((a, begin), (b, end)))
    longest_first = np.argsort(-(a_end - a + b_end - b), kind="stable")
    return _Lanes(*(part[longest_first] for part in (a, a_end, b, b_end, start + diagonal)))


def _merge_path(keys: Array, start: IntArray, middle: IntArray, end: IntArray, diagonal: IntArray, less: Less) -> Any:
    """Count the first run's keys among the first ``diagonal`` keys of each merged pair."""
    least = np.maximum(diagonal - (end - middle), 0)
    most = np.minimum(diagonal, middle - start)

    def passes(tried: IntArray) -> Array:
        count = np.minimum(least + tried, most - 1)
        # Clipped for lanes whose search is over; their results are not used.
        first, second = np.maximum(start + count, 0), middle + diagonal - 1 - count
        inside = least + tried < most
        return inside & ~compare(less, keys[np.minimum(second, len(keys) - 1)], keys[first])

    return least + lower_bound(int((most - least).max(initial=0)), len(diagonal), passes)


def _consistent(cuts: Any, start: IntArray, pair: IntArray, diagonal: IntArray) -> IntArray:
    """Make the cuts of both runs non-decreasing, which they are already for a strict weak order."""
    rising = np.maximum.accumulate(start + cuts) - start
    # The second run's cuts must not decrease either. Each pair starts anew, above all values of the previous pair.
    base = pair * (int(diagonal.max(initial=0)) + 1)
    fitted: IntArray = diagonal + base - np.maximum.accumulate(diagonal - rising + base)
    return fitted


def search(array: Array, needles: Array, less: Less, side: Side) -> IntArray:
    """`numpy.searchsorted` by a comparison: the number of keys before, or not after, each needle."""
    return rank_by(partial(compare, less), len(array), array.__getitem__, needles, len(needles), side)


def differ(first: Array, second: Array, less: Less) -> Array:
    """Tell elementwise whether one of two keys comes before the other."""
    return compare(less, first, second) | compare(less, second, first)


def rank_by(
    less: Less, size: int, keys_at: Callable[[IntArray], Any], needles: Any, count: int, side: Side
) -> IntArray:
    """Count the sorted keys, given by position, before ("left") or not after each of `count` needles."""

    def passes(positions: IntArray) -> Array:
        candidates = keys_at(positions)
        return less(candidates, needles) if side == "left" else ~less(needles, candidates)

    return lower_bound(size, count, passes)


def lower_bound(size: int, count: int, passes: Callable[[IntArray], np.ndarray]) -> IntArray:
    """Count the sorted keys that each needle passes: the first position not passed, shape (count,)."""
    # `passes` tells whether each needle passes the key at its position, for positions of shape (count,). It ends after
    # ``log2(size) + 1`` calls, whatever they return.
    low = np.zeros(count, np.int64)
    high = np.full(count, size, np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        passed = passes(np.minimum(middle, size - 1))
        low = np.where(open_ & passed, middle + 1, low)
        high = np.where(open_ & ~passed, middle, high)
    return low
