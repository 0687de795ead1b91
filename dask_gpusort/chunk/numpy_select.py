"""The steps of a selection on one NumPy chunk: samples, and the keys inside brackets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Keys compared with all brackets at a time. Fewer stay in a level-2 cache, but between short NumPy calls threads wait
#: for each other: five quantiles of 51.2M float64 on two threads take 0.18 s with 2^16, 0.16 with 2^18 (EPYC).
_COMPARED_KEYS = 1 << 18
#: Most brackets that are compared one by one; more are searched in. Two comparisons and a count take some 0.3 ns a key,
#: a binary search 10 ns and more.
_COMPARED_BRACKETS = 16


def count_nans(keys: np.ndarray) -> int:
    """Count the keys that are NaN or NaT."""
    if keys.dtype.kind not in "fcmM" or not keys.size:
        return 0
    # The least of some keys is NaN if any is: one read, and no array of bools.
    least = keys.min()
    if least == least:
        return 0
    return int(np.count_nonzero(keys != keys))


def sample(keys: np.ndarray, positions: NDArray[np.int64]) -> np.ndarray:
    """Give the keys at some positions."""
    return keys.take(positions)


def extract(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[NDArray[np.int64], np.ndarray]:
    """Count keys up to the ends of disjoint, closed, ascending brackets, shape (4, brackets), and take those inside.

    NaN are in no bracket; keys strictly inside stay in the order of the input.
    """
    ends, parts = np.zeros((4, len(low)), np.int64), [keys[:0]]
    for start in range(0, len(keys) if len(low) else 0, _COMPARED_KEYS):
        part = keys[start : start + _COMPARED_KEYS]
        less, near = (_near_by_search if len(low) > _COMPARED_BRACKETS else _near)(part, low, high)
        # Few keys are in a bracket or equal to its ends: the other counts are of these.
        bracket = np.searchsorted(low, near, "right") - 1
        on_low, on_high = near == low[bracket], near == high[bracket]
        upto_low, less_high, upto_high = (
            less + np.bincount(bracket[where], minlength=len(low)) for where in (on_low, ~on_high, slice(None))
        )
        # A bracket of one key has no keys between its ends.
        ends += np.stack([less, upto_low, np.maximum(upto_low, less_high), upto_high])
        parts.append(near[~(on_low | on_high)])
    return ends, np.concatenate(parts)


def extract_all(
    parts: Sequence[np.ndarray], low: np.ndarray, high: np.ndarray
) -> tuple[NDArray[np.int64], np.ndarray, int]:
    """Extract from several arrays, and count NaN and NaT."""
    ends, inside = zip(*(extract(part, low, high) for part in parts), strict=True)
    return np.sum(ends, axis=0), np.concatenate(inside), sum(map(count_nans, parts))


def draw(parts: Sequence[np.ndarray], stratum: int) -> np.ndarray:
    """One random key of each whole stratum of the keys of some parts, end to end."""
    ends = np.cumsum([0, *map(len, parts)])
    count = int(ends[-1]) // stratum
    positions = np.arange(count) * stratum + np.random.default_rng(stratum).integers(0, stratum, count)
    cuts = np.searchsorted(positions, ends)
    drawn = [
        part[positions[slice(*own)] - start] for part, own, start in zip(parts, pairwise(cuts), ends, strict=False)
    ]
    return np.concatenate(drawn)


def _near(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[NDArray[np.int64], np.ndarray]:
    """Count the keys less than each low end, and give the keys in the closed brackets, in the order of the input."""
    less, taken = np.empty(len(low), np.int64), np.zeros(len(keys), bool)
    for number in range(len(low)):
        below = keys < low[number]
        less[number] = np.count_nonzero(below)
        upto = keys <= high[number]
        taken |= np.greater(upto, below, out=upto)
    return less, keys[taken]


def _near_by_search(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[NDArray[np.int64], np.ndarray]:
    """Count and take as `_near` does, by one search for all brackets."""
    # Brackets that begin up to each key; NaN are behind all of them.
    begun = np.searchsorted(low, keys, "right")
    less = np.cumsum(np.bincount(begun, minlength=len(low) + 1))[:-1]
    taken = (begun > 0) & (keys <= high[begun - 1])
    return less, keys[taken]


def buckets(keys: np.ndarray, cuts: np.ndarray) -> NDArray[np.uint8]:
    """Give each key twice the number of ascending cut keys (at most 127) before it, and the number equal to it.

    NaN are equal to each other, and last.
    """
    numbers = cuts[cuts == cuts]
    # No cut key comes after a NaN, and a NaN is less than nothing.
    found = np.full(len(keys), 2 * len(numbers), np.uint8)
    for start in range(0, len(keys), _COMPARED_KEYS):
        part, counted = keys[start : start + _COMPARED_KEYS], found[start : start + _COMPARED_KEYS]
        for cut in numbers:
            counted -= (part < cut).view(np.uint8)
            counted -= (part <= cut).view(np.uint8)
        if len(numbers) < len(cuts):
            counted[part != part] += len(cuts) - len(numbers)
    return found


def keys_at(parts: Sequence[np.ndarray], ranks: NDArray[np.int64]) -> np.ndarray:
    """Keys at some ranks of a few keys, on the host; NaN are last."""
    keys = np.concatenate(parts)
    if len(ranks):
        keys.sort()
    return keys[ranks]


def from_host(array: np.ndarray) -> Any:
    """An array of the host, where the chunks are; of no dimension a scalar, as NumPy's reductions give."""
    return array[()]
