"""Order statistics of lanes that are in one chunk, or fit one.

The strategies::

"blocks"     the reduced axes are in one chunk each     reduce the lanes of each chunk
"rechunk"    they are in several                        rechunk in bounded memory, then the same
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from ...chunk import complete, ops_for
from ...plan.select import LANES_BYTES
from ...table import Statistic
from ..input_checks import checked_chunk, only_chunk
from ..rechunk import chunk_limit, largest_chunk, rechunk, whole_axes
from ..sort.rows import check_length

#: The message of an array whose lanes cannot be made whole.
UNKNOWN_LANES = "a has chunks of unknown sizes, and several along the axis: call a.compute_chunk_sizes() first"


def reduce_block(
    block: Any, statistic: Statistic, expected: np.dtype[Any], lengths: dict[int, float], keepdims: bool
) -> Any:
    """Task: the statistic of each lane of one chunk, along the axes that have `lengths`."""
    block = only_chunk(block)
    checked_chunk(block, expected)
    for axis, length in lengths.items():
        check_length(block, axis, length)
    return complete(ops_for(block).reduce_lanes(block, statistic, tuple(lengths), keepdims))


def reduce_blocks(
    array: Any, statistic: Statistic, axes: Sequence[int], keepdims: bool, limit: float = LANES_BYTES
) -> Any:
    """Find the statistic of each lane of an array, shape (*statistic.shape, *kept axes), by chunks of whole lanes.

    A chunk made of several has `limit` bytes at most, unless these or a lane are larger.
    """
    dtype = statistic.dtype_of(array.dtype)
    lanes = whole_lanes(array, axes, limit)
    first = len(statistic.shape)
    kept = [first + axis for axis in range(array.ndim) if keepdims or axis not in axes]
    indices = (*range(first), *kept)
    meta = np.empty_like(array._meta, shape=(0,) * len(indices), dtype=dtype)
    return da.blockwise(
        reduce_block,
        indices,
        lanes,
        tuple(range(first, first + array.ndim)),
        statistic=statistic,
        expected=lanes.dtype,
        lengths={axis: lanes.shape[axis] for axis in sorted(axes)},
        keepdims=keepdims,
        new_axes=dict(enumerate(statistic.shape)),
        adjust_chunks={first + axis: 1 for axis in axes} if keepdims else None,
        concatenate=False,
        align_arrays=False,
        token="reduce-lanes",
        dtype=dtype,
        meta=meta,
    )


def whole_lanes(array: Any, axes: Sequence[int], limit: float = LANES_BYTES) -> Any:
    """The array with the reduced axes in one chunk each."""
    divided = [axis for axis in axes if array.numblocks[axis] > 1]
    if not divided:
        return array
    if any(math.isnan(array.shape[axis]) for axis in divided):
        raise ValueError(UNKNOWN_LANES)
    most = min(chunk_limit(array), max(limit, largest_chunk(array)))
    return rechunk(array, whole_axes(array, axes, array.dtype.itemsize, most), most)
