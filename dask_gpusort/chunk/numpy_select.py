"""The steps of a selection on one NumPy chunk: samples, and the keys inside brackets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Keys compared with all brackets at a time: they stay in a level-2 cache.
_COMPARED_KEYS = 1 << 16
#: Most brackets that are compared one by one; more are searched in. A comparison takes some 0.25 ns a key, and a key
#: and a bracket four of them; a binary search takes 15 ns and more.
_COMPARED_BRACKETS = 16


def draw(keys: np.ndarray, positions: NDArray[np.int64]) -> tuple[int, np.ndarray, np.ndarray]:
    """A sample of a chunk.

    Parameters
    ----------
    keys : array, shape (n,)
    positions : int64 array

    Returns
    -------
    int
        Number of NaN, or NaT, in the chunk.
    array
        The keys at the positions, ascending and without NaN.
    array, shape (2,) or (0,)
        First and last key without NaN; empty if there is none.
    """
    nans, ends = _survey(keys)
    return nans, take_numbers(keys, positions), ends


def take_numbers(keys: np.ndarray, positions: NDArray[np.int64]) -> np.ndarray:
    """The keys at some positions, ascending and without NaN."""
    found = _numbers(keys.take(positions))
    found.sort()
    return found


def _survey(keys: np.ndarray) -> tuple[int, np.ndarray]:
    if not keys.size:
        return 0, keys
    ends = np.array([keys.min(), keys.max()], keys.dtype)
    # Both are NaN if any key is: two reads, and no array of bools as long as there is none.
    numbers = keys if len(_numbers(ends)) else _numbers(keys)
    nans = keys.size - numbers.size
    return (nans, _survey(numbers)[1]) if nans else (0, ends)


def _numbers(keys: np.ndarray) -> np.ndarray:
    """The keys that are not NaN."""
    return keys[keys == keys] if keys.dtype.kind in "fcmM" else keys


def extract(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[NDArray[np.int64], np.ndarray]:
    """Count keys up to the ends of brackets, and take those inside.

    Parameters
    ----------
    keys : array, shape (n,)
        In any order; NaN are in no bracket.
    low, high : array, shape (brackets,)
        Disjoint closed intervals, ascending.

    Returns
    -------
    ends : int64 array, shape (4, brackets)
        Keys less than each low end, up to it, less than the high end (no fewer), and up to the high end.
    inside : array
        Keys strictly between the ends of a bracket, in the order of the input.
    """
    step = _extract_by_search if len(low) > _COMPARED_BRACKETS else _extract_by_comparison
    ends, parts = np.zeros((4, len(low)), np.int64), [keys[:0]]
    for start in range(0, len(keys) if len(low) else 0, _COMPARED_KEYS):
        part = keys[start : start + _COMPARED_KEYS]
        counts, inside = step(part, low, high)
        ends += counts
        parts.append(part[inside])
    # A bracket of one key has no keys between its ends.
    ends[2] = np.maximum(ends[1], ends[2])
    return ends, np.concatenate(parts)


def _extract_by_comparison(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ends, inside = np.empty((4, len(low)), np.int64), np.zeros(len(keys), bool)
    for number in range(len(low)):
        upto_low, less_high = keys <= low[number], keys < high[number]
        counted = keys < low[number], upto_low, less_high, keys <= high[number]
        ends[:, number] = [np.count_nonzero(one) for one in counted]
        inside |= less_high & ~upto_low
    return ends, inside


def _extract_by_search(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    edges = np.unique(np.concatenate([low, high]))
    # Even cells are between two edges, odd cells are the edges; NaN are behind the last one, as NumPy sorts them.
    cell = np.searchsorted(edges, keys, "left") + np.searchsorted(edges, keys, "right")
    counts = np.cumsum(np.bincount(cell, minlength=2 * len(edges) + 1))
    first, last = np.searchsorted(edges, low), np.searchsorted(edges, high)
    ends = counts[np.stack([2 * first, 2 * first + 1, 2 * last, 2 * last + 1])]
    opens = np.zeros(2 * len(edges) + 1, bool)
    # Brackets are disjoint, so no other edge is between the ends of one.
    opens[2 * last[first < last]] = True
    return ends, opens[cell]


def buckets(keys: np.ndarray, cuts: np.ndarray) -> NDArray[np.uint8]:
    """For each key twice the number of cut keys before it, and the number of cut keys equal to it.

    Parameters
    ----------
    keys : array, shape (n,)
    cuts : array, shape (cuts,)
        At most 127, ascending. NaN are equal to each other, and last.

    Returns
    -------
    uint8 array, shape (n,)
    """
    numbers = _numbers(cuts)
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
    """Keys at some ranks of a few keys without NaN."""
    keys = np.concatenate(parts)
    if len(ranks):
        keys.sort()
    return keys[ranks]


def from_host(array: np.ndarray) -> np.ndarray:
    """An array of the host, where the chunks are."""
    return array
