"""Order statistics of the lanes of one CuPy chunk, along axes that are in one chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..keys import code_dtype
from ..order import Order
from ..table import Statistic
from .cupy_rows import sort_rows
from .lanes import has_nan, lanes_last, reduce_sorted, result_shape

#: Most quantiles that are selected; for more, lanes are sorted. Each read of the keys selects 16 ranks, and a sort
#: takes some five reads and writes.
_SELECTED_QUANTILES = 32


def reduce_lanes(block: Any, statistic: Statistic, axes: Sequence[int], keepdims: bool = False) -> Any:
    """Give the statistic of each lane of a chunk; see `numpy_lanes.reduce_lanes`."""
    lanes, kept, length = lanes_last(block, axes)
    few = math.prod(statistic.shape) <= _SELECTED_QUANTILES
    if block.size and few and code_dtype(block.dtype) is not None:
        found = _by_selection(*_matrix(block, lanes, axes, length), statistic)
    else:
        found = _by_sort(cupy.ascontiguousarray(lanes).reshape(math.prod(kept), length), statistic)
    return found.reshape(result_shape(statistic, block.shape, axes, keepdims))


def _matrix(block: Any, lanes: Any, axes: Sequence[int], length: int) -> tuple[Any, int]:
    """The lanes as columns of a matrix if they are in memory so, else as rows; and the axis of the matrix to reduce."""
    if block.flags.c_contiguous and tuple(axes) == tuple(range(len(axes))):
        return block.reshape(length, -1), 0
    return cupy.ascontiguousarray(lanes).reshape(-1, length), 1


def _by_selection(keys: Any, axis: int, statistic: Statistic) -> Any:
    lanes, length = keys.shape[1 - axis], keys.shape[axis]
    if statistic.skip_nan and has_nan(keys.dtype):
        nans = kernels.select_rows(keys, cupy.empty((lanes, 0), np.int64), axis)[1]
        counts = length - nans
        ranks = statistic.ranks(counts)
    else:
        # The same of all lanes: computed on the host.
        counts = cupy.full(1, length, np.int64)
        ranks = cupy.asarray(statistic.ranks(np.array([length])))
        ranks = cupy.broadcast_to(ranks, (*ranks.shape[:-1], lanes))
    # Both neighbours of a quantile are side by side, where the second one costs little.
    selected, nans = kernels.select_rows(keys, cupy.ascontiguousarray(ranks.T.reshape(lanes, -1)), axis)
    return statistic.result(selected.reshape(lanes, -1, 2).T, counts, nans)


def _by_sort(rows: Any, statistic: Statistic) -> Any:
    length = rows.shape[1]
    nans = cupy.isnan(rows).sum(axis=1) if has_nan(rows.dtype) else cupy.zeros(len(rows), np.int64)
    rows = sort_rows(rows, Order(rows.dtype), 1) if length else cupy.zeros((len(rows), 1), rows.dtype)
    return reduce_sorted(rows, statistic, nans, length)
