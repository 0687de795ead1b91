"""Ranks of needles among sorted keys of NumPy chunks; both are in transit, and the least of their tie class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..order import Order
from ..table import Side
from . import numpy_radix
from .numpy_keys import differ, encode, floor, search
from .numpy_sorts import sort_with_positions

#: Keys and needles from which needles are sorted before the search: then most of the reads hit a cache. 200,000 int64
#: needles in 10^4, 10^5, 10^6, 1.28e7 keys: 17, 26, 42, 294 ms as they are, 18, 19, 23, 44 ms sorted (EPYC).
LEAST_KEYS, LEAST_NEEDLES = 1 << 16, 1 << 10
#: Needles of a block, which is searched for between the ranks of its ends: NumPy begins every search anew at the last
#: key. A thread waits for the interpreter's lock in each block: 2^24 needles in 2^22 keys take 16 threads of a Xeon 725
#: ms in blocks of 2^10, 297 of 2^12, 203 of 2^13, 178 of 2^14; one thread takes as long with 2^10 as with 2^13.
BLOCK_NEEDLES = 1 << 13


def ranked_keys(array: np.ndarray, order: Order) -> np.ndarray:
    """Give the user's keys or needles, as `rank` takes them: in transit, the least of their tie class."""
    return floor(encode(array, order), order)


def rank(keys: np.ndarray, needles: np.ndarray, order: Order, side: Side) -> np.ndarray:
    """Count the sorted keys less than ("left"), or up to ("right"), each needle, int64; needles are in any order."""
    if len(keys) < LEAST_KEYS or len(needles) < LEAST_NEEDLES:
        return search(keys, needles, order, side)
    if order.coded and (step := numpy_radix.direction(needles[None], turns_ties=True)):
        return rank_sorted(keys, needles[::step], order, side)[::step]
    ordered, positions = sort_with_positions(needles.copy(), order)
    return scatter(rank_sorted(keys, ordered, order, side), positions)


def rank_sorted(keys: np.ndarray, needles: np.ndarray, order: Order, side: Side) -> np.ndarray:
    """As `rank`, of sorted needles."""
    if len(needles) < 2 * BLOCK_NEEDLES:
        return search(keys, needles, order, side)
    ends = [*range(0, len(needles), BLOCK_NEEDLES), len(needles) - 1]
    bounds = search(keys, needles[ends], order, side).tolist()
    ranks = np.empty(len(needles), np.int64)
    for start, low, high in zip(ends, bounds, bounds[1:], strict=False):
        block = slice(start, start + BLOCK_NEEDLES)
        np.add(search(keys[low:high], needles[block], order, side), low, out=ranks[block])
    return ranks


def scatter(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """An array with the values at positions that are a permutation."""
    found = np.empty_like(values)
    found[positions] = values
    return found


def interpolate(needles: np.ndarray, keys: np.ndarray, values: np.ndarray, ends: tuple[Any, Any]) -> np.ndarray:
    """Interpolate at needles in any order; `ends` are the values before and behind all keys, or None."""
    few = len(keys) < LEAST_KEYS or len(needles) < LEAST_NEEDLES
    if few or numpy_radix.direction(needles[None], turns_ties=True) > 0:
        return np.interp(needles, keys, values, *ends)
    positions = np.argsort(needles)
    return scatter(np.interp(needles[positions], keys, values, *ends), positions)


def equal_before(keys: np.ndarray, needles: np.ndarray, ranks: np.ndarray, order: Order) -> np.ndarray:
    """Tell whether the key before each rank is equal to the needle."""
    if not len(keys):
        return np.zeros(len(needles), bool)
    equal: np.ndarray = ~differ(keys.take(np.maximum(ranks - 1, 0), axis=0), needles, order)
    equal &= ranks > 0
    return equal


def make_value_set(codes: Any, most: float) -> tuple[Any, int] | None:
    """Tell for each unsigned code from the least to the greatest whether it occurs, and give the least one."""
    # None means that there is no code, or that the range is larger than `most`.
    if not len(codes):
        return None
    least, greatest = int(codes.min()), int(codes.max())
    if greatest - least >= most:
        return None
    occurs = np.zeros_like(codes, shape=greatest - least + 1, dtype=bool)
    occurs[_offsets(codes, least)] = True
    return occurs, least


def occur(codes: Any, occurs: Any, least: int) -> Any:
    """Which codes are in a set."""
    last, least_code = codes.dtype.type(len(occurs) - 1), codes.dtype.type(least)
    inside = (codes >= least_code) & (codes - least_code <= last)
    # Codes below the least one wrap around; what is read for them does not count.
    found = occurs[_offsets((codes - least_code).clip(None, last), 0)]
    found &= inside
    return found


def _offsets(codes: Any, least: int) -> Any:
    return (codes - codes.dtype.type(least)).astype(np.int64)
