"""Lanes of one chunk as rows of a matrix, and their statistics, for NumPy and CuPy.

NumPy divides the sums of weights by the total, and rounds that to the dtype of `q`, before it compares. That decides
ties, so all formulas of weighted quantiles keep the order of its operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..table import Statistic
from . import library_of

#: Bytes of the lanes that are sorted at a time: a cache of the host, or enough work for a GPU.
BATCH_BYTES = {"numpy": 1 << 22, "cupy": 1 << 26}
#: Fewest shares, times quantiles, of a lane of a NumPy chunk that is searched: a call takes as long as to compare them.
_SEARCHED_SHARES = 1 << 11


def lanes_last(block: Any, axes: Sequence[int]) -> tuple[Any, tuple[int, ...], int]:
    """A view of a chunk with the reduced axes last, the shape of the other axes, and the length of a lane."""
    kept = [axis for axis in range(block.ndim) if axis not in axes]
    shape = tuple(block.shape[axis] for axis in kept)
    return block.transpose(*kept, *axes), shape, math.prod(block.shape[axis] for axis in axes)


def result_shape(statistic: Any, shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """Shape of the statistics of an array: the dimensions of `q`, then those that are kept."""
    kept = [1 if axis in axes else size for axis, size in enumerate(shape) if keepdims or axis not in axes]
    return (*statistic.shape, *kept)


def has_nan(dtype: np.dtype[Any]) -> bool:
    """Tell whether keys can be NaN or NaT, which are sorted last."""
    return dtype.kind in "fcmM"


def batches(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Slices that divide a shape into parts of at most so many elements, contiguous in C order."""
    inner = math.prod(shape[1:])
    if math.prod(shape) <= most:
        yield ()
    elif inner <= most:
        step = most // inner
        yield from ((slice(start, start + step),) for start in range(0, shape[0], step))
    else:
        for index in range(shape[0]):
            yield from ((slice(index, index + 1), *rest) for rest in batches(shape[1:], most))


def reduce_sorted(rows: Any, statistic: Statistic, nans: Any, length: int) -> Any:
    """Find the statistic of each row, shape (quantiles, rows), from sorted rows with NaN last and their numbers."""
    # Rows have one column if lanes have no keys (`length` 0).
    counts = length - nans * statistic.skip_nan
    ranks = statistic.ranks(counts)
    columns = ranks.reshape(ranks.shape[0] * ranks.shape[1], len(rows)).T
    keys = np.take_along_axis(rows, columns, axis=1).T.reshape(ranks.shape)
    return statistic.result(keys, counts, nans)


class Picked(NamedTuple):
    """Hold what a part of each lane knows of the quantiles."""

    #: Shape (quantiles, *lanes): the first key whose share of the weight, with all before it, is a quantile; the last
    #: key where there is none.
    keys: Any
    found: Any  # shape (quantiles, *lanes): whether there is one
    counts: Any  # shape (*lanes,): the keys that take part
    nans: Any  # shape (*lanes,): the number of NaN
    totals: Any  # shape (*lanes,): weights of the whole lane


def check_weights(weights: Any) -> None:
    """Refuse negative weights, as NumPy does."""
    if (weights < 0).any():
        raise ValueError("Weights must be non-negative.")


def check_totals(totals: Any, counts: Any) -> None:
    """Refuse weights of lanes with keys whose total is zero or not finite, as NumPy does since 2.4."""
    if ((counts > 0) & ~((totals > 0) & (totals < np.inf))).any():
        raise ValueError("Weights included NaN, inf or were all zero.")


def reduce_weighted_lanes(
    block: Any, weights: Any, statistic: Statistic, axes: Sequence[int], keepdims: bool = False
) -> Any:
    """Find weighted quantiles of each lane of a chunk by "inverted_cdf", shape (*statistic.shape, *kept axes)."""
    # Weights are not negative, and broadcast to the chunk's shape.
    check_weights(weights)
    shape = result_shape(statistic, block.shape, axes, keepdims)
    weights = np.broadcast_to(weights, block.shape)
    if block.dtype.hasobject:
        check_totals(weights.sum(axis=tuple(axes), dtype=np.float64), block.size)
        found = statistic.by_numpy(block, tuple(axes), weights)
        return np.asarray(found, object).reshape(shape)[()]
    lanes, kept, length = lanes_last(block, axes)
    weights = lanes_last(weights, axes)[0]
    found = np.empty_like(block, shape=(math.prod(statistic.shape), *kept), dtype=statistic.dtype_of(block.dtype))
    lane_bytes = max(length * (block.dtype.itemsize + 24), 1)
    for batch in batches(kept, max(1, BATCH_BYTES[library_of(block)] // lane_bytes)):
        part = found[(slice(None), *batch)]
        size = (math.prod(part.shape[1:]), length)
        rows = lanes[batch].reshape(size).astype(block.dtype.newbyteorder("="), copy=False)
        part[...] = _reduce_rows(rows, weights[batch].reshape(size), statistic).reshape(part.shape)
    return found.reshape(shape)[()]


def _reduce_rows(rows: Any, weights: Any, statistic: Statistic) -> Any:
    """Weighted quantiles of each row, shape (quantiles, rows)."""
    count, length = rows.shape
    if length == 0:
        empty = np.zeros_like(rows, shape=(count, 1))
        return reduce_sorted(empty, statistic, np.zeros_like(empty, shape=count, dtype=np.int64), length)
    # NumPy's own order of equal keys, which decides how the sums of their weights are rounded.
    order = rows.argsort(axis=1)
    order += np.arange(0, rows.size, length, like=order)[:, None]
    keys = rows.reshape(-1)
    nans = _count_nans(rows, last=keys.take(order[:, -1:]))
    if statistic.skip_nan and nans.any():
        weights = _without_nan(rows, weights)
    shares = weights.reshape(-1).take(order).cumsum(axis=1, dtype=np.float64)
    totals, counts = shares[:, -1].copy(), length - nans * statistic.skip_nan
    below = _count_below(shares, totals, statistic)
    at = np.take_along_axis(order, _ranks(below, counts).T, 1)
    return combine_picked([Picked(keys.take(at).T, below < counts, counts, nans, totals)], statistic)


def sum_weights(keys: Any, weights: Any, statistic: Statistic) -> Any:
    """Give the weight of the part of each lane in the last axis that takes part, with that axis of size one."""
    if keys.shape[-1] == 0:
        return np.zeros_like(weights, shape=(*keys.shape[:-1], 1), dtype=np.float64)
    return _cumulative(keys, weights, statistic)[..., -1:]


def pick_keys(keys: Any, weights: Any, sums: Any, part: int, statistic: Statistic) -> Picked:
    """Pick the quantiles that are in one part of each lane, shape (*lanes, length), sorted with NaN last."""
    # `sums` are the weights of all parts, shape (*lanes, parts).
    ends = sums.cumsum(axis=-1)
    totals = ends[..., -1]
    length = keys.shape[-1]
    nans = _count_nans(keys, last=keys[..., -1:])
    counts = length - nans * statistic.skip_nan
    if length == 0:
        found = np.zeros_like(totals, shape=(math.prod(statistic.shape), *totals.shape), dtype=bool)
        return Picked(np.zeros_like(keys, shape=found.shape), found, counts, nans, totals)
    shares = _cumulative(keys, weights, statistic)
    if part:
        shares += ends[..., part - 1 : part]
    below = _count_below(shares, totals, statistic)
    picked = np.take_along_axis(keys, np.moveaxis(_ranks(below, counts), 0, -1), -1)
    return Picked(np.moveaxis(picked, -1, 0), below < counts, counts, nans, totals)


def _count_below(shares: Any, totals: Any, statistic: Statistic) -> Any:
    """Count the keys of each lane before its quantiles, shape (quantiles, *lanes), and lose the cumulative weights."""
    assert statistic.q is not None
    quantiles = statistic.q.reshape(-1)
    with np.errstate(invalid="ignore", divide="ignore"):  # `combine_picked` refuses such totals
        shares /= totals[..., None]
    if quantiles.dtype.kind == "f":
        shares = shares.astype(quantiles.dtype, copy=False)
    # The quantile 0 is the first key that has any weight.
    quantiles = np.maximum(quantiles, np.nextafter(shares.dtype.type(0), shares.dtype.type(1)))
    if len(quantiles) * shares.shape[-1] >= _SEARCHED_SHARES and isinstance(shares, np.ndarray):
        rows = shares.reshape(-1, shares.shape[-1])
        return np.array([row.searchsorted(quantiles) for row in rows]).T.reshape(-1, *totals.shape)
    below = np.empty_like(totals, shape=(len(quantiles), *totals.shape), dtype=np.int64)
    for number, quantile in enumerate(quantiles):
        below[number] = np.count_nonzero(shares < quantile, axis=-1)
    return below


def _ranks(below: Any, counts: Any) -> Any:
    return np.maximum(np.minimum(below, counts - 1), 0)


def combine_picked(parts: Sequence[Picked], statistic: Statistic) -> Any:
    """Combine the quantiles of each lane, shape (quantiles, *lanes), from all its parts in order."""
    counts, nans = sum(part.counts for part in parts), sum(part.nans for part in parts)
    totals = parts[0].totals
    check_totals(totals, counts)
    keys, found = parts[0].keys, parts[0].found
    for part in parts[1:]:
        # NumPy's `where` makes swapped byte orders native.
        keys = np.where(~found & (part.counts > 0), part.keys, keys).astype(keys.dtype, copy=False)
        found = found | part.found
    return statistic.result((keys, keys), counts, nans)


def _cumulative(keys: Any, weights: Any, statistic: Statistic) -> Any:
    """Cumulative weights of the keys that take part."""
    if statistic.skip_nan and has_nan(keys.dtype):
        weights = _without_nan(keys, weights)
    return weights.cumsum(axis=-1, dtype=np.float64)


def _without_nan(keys: Any, weights: Any) -> Any:
    return np.where(np.isnan(keys), np.zeros_like(weights, shape=()), weights)


def _count_nans(keys: Any, last: Any) -> Any:
    """Count the NaN along the last axis; `last` are the keys that a sort puts last."""
    if not has_nan(keys.dtype) or not np.isnan(last).any():
        # CuPy takes the shape `()` for none.
        return np.zeros_like(keys, shape=(*keys.shape[:-1], 1), dtype=np.int64)[..., 0]
    return np.isnan(keys).sum(axis=-1, dtype=np.int64)
