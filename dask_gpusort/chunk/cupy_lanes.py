"""Order statistics of the lanes of one CuPy chunk, along axes that are in one chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from ..order import Order
from ..table import Statistic
from .cupy_rows import sort_rows
from .lanes import has_nan, lanes_last, reduce_sorted, result_shape


def reduce_lanes(block: Any, statistic: Statistic, axes: Sequence[int], keepdims: bool = False) -> Any:
    """The statistic of each lane of a chunk; see `numpy_lanes.reduce_lanes`."""
    lanes, kept, length = lanes_last(block, axes)
    rows = cupy.ascontiguousarray(lanes).reshape(math.prod(kept), length)
    nans = cupy.isnan(rows).sum(axis=1) if has_nan(rows.dtype) else cupy.zeros(len(rows), np.int64)
    rows = sort_rows(rows, Order(rows.dtype), 1) if length else cupy.zeros((len(rows), 1), rows.dtype)
    found = reduce_sorted(rows, statistic, nans, length)
    return found.reshape(result_shape(statistic, block.shape, axes, keepdims))
