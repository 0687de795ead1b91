"""Samples of NumPy chunks that are not sorted, and their division at splitters, in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..order import Order
from ..table import IntArray
from ..table.splitters import after
from . import numpy_radix
from .numpy_keys import decode, encode

NOT_DIVIDED: IntArray = np.empty(0, np.int64)


class Divided(NamedTuple):
    """Hold the divided keys of a run, NaN last and as they came."""

    keys: np.ndarray
    numbers: int  # keys that are no NaN
    negatives: int  # of these, floats with a set sign bit: the keys before +0.0
    ends: IntArray = NOT_DIVIDED  # where segments begin, and the end of the last; of floats, NaN are one more segment


def is_plain(order: Order) -> bool:
    """Whether NumPy sorts the user's keys as their codes are sorted, but for zeros and NaN."""
    # NumPy divides float32 in 1.6 times the time of their codes (an EPYC with AVX2), so these are encoded.
    known = (order.dtype.kind in "iu" and order.dtype.itemsize > 2) or order.dtype == np.float64
    ascends = order.coded and not order.descending and not order.has_ties  # with `less`, keys have no codes
    return ascends and known and order.dtype.isnative


def sample_keys(block: np.ndarray, order: Order, step: int, seed: int) -> np.ndarray:
    """Draw one key of each `step` neighbours."""
    # Keys at regular distances would miss what has that period.
    starts = np.arange(0, len(block) - step + 1, step)
    drawn = block[starts + np.random.default_rng(seed).integers(0, step, len(starts))]
    return drawn if is_plain(order) else encode(drawn, order)


def divide(blocks: Sequence[np.ndarray], order: Order, splitters: np.ndarray) -> Divided:
    """Divide the keys of some chunks, which stay as they are."""
    plain = is_plain(order)
    sources = [np.asarray(block, order.dtype) if plain else encode(block, order) for block in blocks]
    source = _joined(sources) if len(blocks) > 1 else sources[0]
    keys, numbers, negatives = _numbers_first(source)
    part = keys[:numbers]
    if step := numpy_radix.direction(part[None], turns_ties=True):
        keys = part[::step] if numbers == len(keys) else np.concatenate([part[::step], keys[numbers:]])
        return Divided(keys, numbers, negatives, _ends(keys, numbers, splitters))
    if any(np.may_share_memory(keys, block) for block in blocks):
        keys = np.array(keys, order="C")
    return Divided(keys, numbers, negatives, divide_in_place(keys, numbers, splitters))


def _joined(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """A copy of all pieces, in any order: those that are in order and apart are so as one array, or reversed."""
    filled = [piece for piece in pieces if len(piece)]
    falls = bool(filled and filled[0][0] > filled[0][-1])
    return np.concatenate(sorted(filled, key=lambda piece: (piece[0], piece[-1]), reverse=falls) or pieces)


def _numbers_first(keys: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Keys with NaN last, the other ones first, and their number and that of negative ones: see `Divided`."""
    numbers = len(keys)
    if keys.dtype.kind != "f":
        return keys, numbers, 0
    if numbers and np.isnan(keys.min()):  # NumPy's sorts do not keep the bits of NaN
        missing = np.isnan(keys)
        numbers -= int(np.count_nonzero(missing))
        keys = np.concatenate([keys[~missing], keys[missing]])
    return keys, numbers, int(np.count_nonzero(keys[:numbers].view(f"i{keys.itemsize}") < 0))


def order_nans(runs: Sequence[Divided], order: Order) -> list[np.ndarray]:
    """The keys of runs, the NaN of all in the order of their codes."""
    nans = np.concatenate([run.keys[run.numbers :] for run in runs])
    bits = nans.view(f"u{nans.itemsize}")
    if not (bits[1:] != bits[:-1]).any():
        return [run.keys for run in runs]
    codes = encode(nans, order)
    numpy_radix.sort(codes)
    parts = np.split(decode(codes, order), np.cumsum([len(run.keys) - run.numbers for run in runs])[:-1])
    return [np.concatenate([run.keys[: run.numbers], part]) for run, part in zip(runs, parts, strict=True)]


def divide_in_place(keys: np.ndarray, numbers: int, splitters: np.ndarray) -> IntArray:
    """Divide keys, of which the first ones are no NaN; gives `Divided.ends`."""
    # Where a key has a segment of its own, keys are few, and sorted faster than they are divided.
    if not numpy_radix.repair(keys[:numbers]):
        if not (after(splitters[:-1]) == splitters[1:]).any():
            return _framed(_placed(keys[:numbers], splitters), keys, numbers)
        numpy_radix.sort(keys[:numbers])
    return _ends(keys, numbers, splitters)


def _ends(keys: np.ndarray, numbers: int, splitters: np.ndarray) -> IntArray:
    """`Divided.ends` of sorted keys."""
    return _framed(np.searchsorted(keys[:numbers], splitters), keys, numbers)


def _framed(inner: IntArray, keys: np.ndarray, numbers: int) -> IntArray:
    """`Divided.ends`, from where segments of numbers but the first begin."""
    return np.concatenate([[0], inner, [numbers, len(keys)][keys.dtype.kind != "f" :]]).astype(np.int64)


def _placed(keys: np.ndarray, splitters: np.ndarray) -> IntArray:
    """Divide keys by partitions, whose places are counted: where the segments but the first begin."""
    ends = np.array([0, *[-1] * len(splitters), len(keys)])
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
    return ends[1:-1]


def sort_pieces(pieces: Sequence[np.ndarray], order: Order, negatives: int = 0) -> np.ndarray:
    """Sort divided keys of several chunks as one array, into the user's keys; `negatives` of them are before +0.0."""
    keys = _joined(pieces)
    _sort_numbers(keys, negatives)
    return keys if is_plain(order) else decode(keys, order)


def sort_joined(chunks: Sequence[np.ndarray], order: Order) -> np.ndarray:
    """Sort keys of several chunks, for which `is_plain` holds, as one array."""
    run = Divided(*_numbers_first(_joined([np.asarray(chunk, order.dtype) for chunk in chunks])))
    (keys,) = order_nans([run], order)
    _sort_numbers(keys[: run.numbers], run.negatives)
    return keys


def _sort_numbers(keys: np.ndarray, negatives: int) -> None:
    """Sort keys of which none is NaN, in place."""
    numpy_radix.sort(keys)
    if keys.dtype.kind == "f":
        first, last = np.searchsorted(keys, 0.0), np.searchsorted(keys, 0.0, "right")
        middle = min(max(negatives, first), last)
        keys[first:middle], keys[middle:last] = -0.0, 0.0
