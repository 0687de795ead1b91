"""Samples of NumPy chunks that are not sorted, and their division at splitters, in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..order import Order
from ..table import IntArray
from . import numpy_radix
from .numpy_keys import decode, encode


def is_plain(order: Order) -> bool:
    """Whether NumPy sorts the user's keys as their codes are sorted."""
    return order.dtype.kind in "iu" and order.dtype.isnative and not order.descending


def sample_keys(block: np.ndarray, order: Order, step: int, seed: int) -> np.ndarray:
    """Draw one key of each `step` neighbours."""
    # Keys at regular distances would miss what has that period.
    starts = np.arange(0, len(block) - step + 1, step)
    drawn = block[starts + np.random.default_rng(seed).integers(0, step, len(starts))]
    return drawn if is_plain(order) else encode(drawn, order)


def divide(block: np.ndarray, order: Order, splitters: np.ndarray) -> tuple[np.ndarray, IntArray]:
    """Divide a chunk, or a copy; gives it, and where its segments begin, with the end of the last."""
    keys = block if is_plain(order) else encode(block, order)
    if step := numpy_radix.direction(keys[None], turns_ties=True):
        return keys[::step], _ends(keys[::step], splitters)
    if keys is block:
        keys = np.array(block, order="C")
    return keys, divide_in_place(keys, splitters)


def divide_in_place(keys: np.ndarray, splitters: np.ndarray) -> IntArray:
    """Divide keys; gives where the segments begin, and the end of the last."""
    # Where a key has a segment of its own, keys are few, and sorted faster than they are divided.
    if not (np.diff(splitters) == 1).any():
        return _placed(keys, splitters)
    numpy_radix.sort(keys)
    return _ends(keys, splitters)


def _ends(keys: np.ndarray, splitters: np.ndarray) -> IntArray:
    """Where the segments of sorted keys begin, and the end of the last."""
    return np.concatenate([[0], np.searchsorted(keys, splitters), [len(keys)]]).astype(np.int64)


def _placed(keys: np.ndarray, splitters: np.ndarray) -> IntArray:
    """Divide keys by partitions, whose places are counted."""
    ends = np.empty(len(splitters) + 2, np.int64)
    ends[0], ends[-1] = 0, len(keys)
    waiting = [(0, len(splitters))]  # ranges of splitters whose neighbours have been placed
    while waiting:
        first, last = waiting.pop()
        if first < last:
            middle, start = (first + last) // 2, ends[first]
            part = keys[start : ends[last + 1]]
            below = np.count_nonzero(part < splitters[middle])
            if 0 < below < len(part):
                part.partition(below)
            ends[middle + 1] = start + below
            waiting += [(first, middle), (middle + 1, last)]
    return ends


def sort_pieces(pieces: Sequence[np.ndarray], order: Order) -> np.ndarray:
    """Sort divided keys of several chunks as one array, into the user's keys."""
    # Pieces that are in order and apart are in order as one array.
    filled = sorted(filter(len, pieces), key=lambda piece: (piece[0], piece[-1]))
    keys = np.concatenate(filled or pieces)
    numpy_radix.sort(keys)
    return keys if is_plain(order) else decode(keys, order)
