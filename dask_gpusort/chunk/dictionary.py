"""Dictionary encoding: columns of few distinct values as ranks of these values, a byte a key.

Rounded measurements, classes and categories have few values in many bits. Their ranks take a few bits, so that several
such columns, or one and the keys' positions, need one radix sort; the columns themselves would be sorted one by one
among the ties of the previous ones. A sort of the column alone, which is fast for few values, finds the distinct
values, and a perfect hash looks them up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Most distinct values: their ranks are bytes, and a few tries find a multiplier without collisions.
MOST_VALUES = 256

#: Keys sampled first. If the sample has many values, as random keys do, the encoding is given up.
_SAMPLED_KEYS = 1 << 10

#: Bits of a slot number. The hash table has a byte in each slot and stays in the level-1 cache.
_HASH_BITS = 15

#: Multipliers to try: random odd numbers. One in three has no collisions among 256 random values, exp(-256**2 / 2**16),
#: so that all of them fail once in 10**12.
_MULTIPLIERS = np.random.default_rng(0).integers(1 << 62, 1 << 63, 64, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def dictionary_encode(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Rank each key's value among the distinct values of a column of any strides; None if there are many."""
    # NumPy sorts keys of the other byte order slowly, and under the interpreter's lock.
    sampled = np.unique(column[:: len(column) // _SAMPLED_KEYS + 1].astype(np.uint64))
    if len(sampled) > MOST_VALUES // 2:
        return None
    codes = column.astype(np.uint64)
    ordered = np.sort(codes)
    values = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    if len(values) > MOST_VALUES:
        return None
    for multiplier in _MULTIPLIERS:
        slots = _slots(values, multiplier)
        if len(np.unique(slots)) == len(values):
            table = np.zeros(1 << _HASH_BITS, np.uint8)
            table[slots] = np.arange(len(values))
            found: np.ndarray[Any, Any] = table[_slots(codes, multiplier)]
            return found
    return None


def _slots(values: np.ndarray[Any, Any], multiplier: np.uint64) -> np.ndarray[Any, Any]:
    slots: np.ndarray[Any, Any] = values * multiplier
    slots >>= np.uint64(64 - _HASH_BITS)
    return slots
