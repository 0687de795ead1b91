"""Lanes of one chunk as rows of a matrix, and their statistics from sorted rows, for NumPy and CuPy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..table import Statistic


def lanes_last(block: Any, axes: Sequence[int]) -> tuple[Any, tuple[int, ...], int]:
    """A view of a chunk with the reduced axes last, the shape of the other axes, and the length of a lane."""
    kept = [axis for axis in range(block.ndim) if axis not in axes]
    shape = tuple(block.shape[axis] for axis in kept)
    return block.transpose(*kept, *axes), shape, math.prod(block.shape[axis] for axis in axes)


def result_shape(statistic: Statistic, shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
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
    """Find the statistic of each row, shape (quantiles, rows), from sorted rows with NaN last and their numbers.

    Rows have one column if lanes have no keys (`length` 0).
    """
    counts = length - nans * statistic.skip_nan
    ranks = statistic.ranks(counts)
    columns = ranks.reshape(ranks.shape[0] * ranks.shape[1], len(rows)).T
    keys = np.take_along_axis(rows, columns, axis=1).T.reshape(ranks.shape)
    return statistic.result(keys, counts, nans)
