"""Order statistics of NumPy chunks: of lanes that are whole in a chunk, and steps of a selection by samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..table import Statistic
from . import numpy_radix
from .labels import on_host
from .lanes import batches, has_nan, lanes_last, reduce_sorted, result_shape
from .steps import extract_sorted

#: Bytes of the rows that are copied and reduced at a time.
_BATCH_BYTES = 1 << 20
#: Keys compared with all brackets at a time. Fewer stay in a level-2 cache, but between short NumPy calls threads wait
#: for each other: five quantiles of 51.2M float64 on two threads take 0.18 s with 2^16, 0.16 with 2^18 (EPYC).
_COMPARED_KEYS = 1 << 18


def reduce_lanes(block: np.ndarray, statistic: Statistic, axes: Sequence[int], keepdims: bool = False) -> Any:
    """Find the statistic of each lane of a chunk, shape (*statistic.shape, *kept axes), or a scalar without dimensions.

    The bits are those of NumPy's function, apart from which of two equal zeros is at a rank.
    """
    shape = result_shape(statistic, block.shape, axes, keepdims)
    if block.dtype.hasobject or statistic.objects:
        found = statistic.by_numpy(block, tuple(axes))
        return np.asarray(found, statistic.dtype_of(block.dtype)).reshape(shape)[()]
    lanes, kept, length = lanes_last(block, axes)
    quantiles = math.prod(statistic.shape)
    found = np.empty((quantiles, *kept), statistic.dtype_of(block.dtype))
    # The statistics of a lane take some ten arrays of 8 bytes a quantile.
    lane_bytes = max(length * block.dtype.itemsize, 80 * quantiles, 1)
    for batch in batches(kept, max(1, _BATCH_BYTES // lane_bytes)):
        part = found[(slice(None), *batch)]
        rows = np.array(lanes[batch], block.dtype.newbyteorder("="), order="C")
        rows = rows.reshape(math.prod(part.shape[1:]), length)
        part[...] = _reduce_rows(rows, statistic).reshape(part.shape)
    return found.reshape(shape)[()]


def _reduce_rows(rows: np.ndarray, statistic: Statistic) -> np.ndarray:
    """Give the statistic of each row, shape (quantiles, rows); the rows are overwritten."""
    length = rows.shape[1]
    if length == 0:
        rows = np.zeros((len(rows), 1), rows.dtype)
        return np.asarray(reduce_sorted(rows, statistic, np.zeros(len(rows), np.int64), length))
    nans = _count_nans(rows, exact=statistic.skip_nan)
    if statistic.skip_nan and nans.any():
        if len(rows) > 1 or nans[0] == length:
            rows.sort(axis=1)
            return np.asarray(reduce_sorted(rows, statistic, nans, length))
        rows = rows[:, ~np.isnan(rows[0])]
    # All rows have the same number of keys, so the same ranks.
    counts = np.array([rows.shape[1]])
    ranks = statistic.ranks(counts)[..., 0]
    wanted = np.unique(ranks)
    if rows.dtype.kind not in "biufcmM" or _prefers_sort(len(wanted), length):
        rows.sort(axis=1)
    else:
        _partition(rows, wanted)
    keys = rows.T[ranks]
    return np.asarray(statistic.result(keys, counts, nans))


def _count_nans(rows: np.ndarray, *, exact: bool) -> np.ndarray:
    """Count the NaN in each row, int64; unless `exact`, 1 stands for any number."""
    if not has_nan(rows.dtype):
        return np.zeros(len(rows), np.int64)
    # A maximum is NaN where a key is, and takes a third of the time of counting.
    found = np.isnan(rows.max(axis=1))
    if exact and found.any():
        return np.count_nonzero(np.isnan(rows), axis=1)
    return found.astype(np.int64)


def _prefers_sort(wanted: int, length: int) -> bool:
    """Tell whether a sort of the rows takes less time than the partitions for so many ranks."""
    levels = ((wanted + 1) // 2).bit_length()
    return 4 * levels > length.bit_length()


def _partition(rows: np.ndarray, wanted: np.ndarray) -> None:
    """Put the keys of some ranks, which are distinct and sorted, to their ranks in each row, and lose others."""
    # NumPy has vector instructions for a partition by one rank, and none for several.
    if len(wanted) == 0:
        return
    middle = len(wanted) // 2
    rank, below, above = wanted[middle], wanted[:middle], wanted[middle + 1 :] - wanted[middle] - 1
    rows.partition(rank, axis=1)
    left, right = rows[:, :rank], rows[:, rank + 1 :]
    if below.tolist() == [rank - 1]:
        left[:, -1] = left.max(axis=1)
    else:
        _partition(left, below)
    if above.tolist() == [0]:
        right[:, 0] = right.min(axis=1)
    else:
        _partition(right, above)


def count_nans(*parts: np.ndarray) -> int:
    """Count the keys of some parts that are NaN or NaT."""
    count = 0
    for keys in parts:
        # The least of some keys is NaN if any is: one read, and no array of bools.
        if has_nan(keys.dtype) and keys.size and (least := keys.min()) != least:
            count += int(np.count_nonzero(keys != keys))
    return count


def extract(keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[NDArray[np.int64], np.ndarray]:
    """Count keys up to the ends of disjoint, closed, ascending brackets, shape (4, brackets), and take those inside."""
    # NaN are in no bracket, and follow no key.
    if keys.dtype.kind in "biufmM" and (step := numpy_radix.direction(keys[None], turns_ties=True)):
        return extract_sorted(keys[::step], low, high)
    ends, parts = np.zeros((4, len(low)), np.int64), [keys[:0]]
    for start in range(0, len(keys) if len(low) else 0, _COMPARED_KEYS):
        part = keys[start : start + _COMPARED_KEYS]
        less, near = _near(part, low, high)
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


def buckets(keys: np.ndarray, cuts: np.ndarray) -> NDArray[np.uint8]:
    """Give each key twice the number of ascending cut keys (at most 127) before it, and the number equal to it."""
    # NaN are equal to each other, and last.
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
    """Keys at some ranks, on the host; NaN are last."""
    keys = np.concatenate(parts)
    if len(ranks):
        keys.sort()
    return keys[ranks]


def moved_here(array: Any) -> Any:
    """An array of either library, where the chunks are; of no dimension a scalar, as NumPy's reductions give."""
    return on_host(array)[()]
