"""Elements of one CuPy chunk at given positions: the steps of `numpy_positions`, under the same names.

CuPy wraps indices that are out of range, so they are checked, which waits for the device. Threads of the device
write in any order, so of several values for a position the last one is found first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import cupyx
import numpy as np

from .. import kernels
from .cupy_sorts import concatenate_chunks
from .numpy_positions import positions_of, take_nothing


def take(block: Any, indices: Any, axis: int, mode: str = "raise") -> Any:
    """`numpy.take`; indices on the host are checked there, and nothing waits for the device."""
    if block.size == 0:
        return take_nothing(block, indices, axis, mode)
    on_device = isinstance(indices, cupy.ndarray)
    if on_device and mode == "raise" and axis == 0 and kernels.value_type(block) is not None:
        flat = cupy.ascontiguousarray(indices, dtype=np.int64).reshape(-1)
        found = cupy.empty((len(flat), *block.shape[1:]), block.dtype)
        if kernels.gather_in_range(block, flat, found):
            return found.reshape(*indices.shape, *block.shape[1:])
    return cupy.take(block, cupy.asarray(positions_of(indices, block.shape[axis], axis, mode)), axis)


def take_along(block: Any, indices: Any, axis: int) -> Any:
    """`numpy.take_along_axis`."""
    return cupy.take_along_axis(block, positions_of(indices, block.shape[axis], axis), axis)


def put_along(block: Any, indices: Any, values: Any, axis: int) -> None:
    """Write to a chunk as `numpy.put_along_axis`. Of several values for a position the last in C order stays."""
    positions = positions_of(indices, block.shape[axis], axis)
    grid = cupy.arange(block.size, dtype=np.int64).reshape(block.shape)
    if not (block.size and positions.size):
        return
    shape = list(map(max, block.shape, positions.shape))
    shape[axis] = positions.shape[axis]
    reached = cupy.broadcast_to(positions, shape)
    lanes = cupy.broadcast_to(grid, [size if dim != axis else block.shape[axis] for dim, size in enumerate(shape)])
    flat = cupy.take_along_axis(lanes, reached, axis).reshape(-1)
    whole = cupy.ascontiguousarray(block)
    put(whole.reshape(-1), flat, cupy.broadcast_to(values, shape).reshape(-1))
    if whole is not block:
        block[...] = whole


def put(block: Any, positions: Any, rows: Any) -> None:
    """Write rows to a chunk at positions along the first axis. Of several rows for a position the last one stays."""
    if not len(positions):
        return
    # Counted from one, as zero is a position without a row. CUDA has no atomic maximum of int64 that CuPy takes.
    numbers = cupy.arange(1, len(positions) + 1, dtype=np.uint64)
    last = cupy.zeros(len(block), np.uint64)
    cupyx.scatter_max(last, positions, numbers)
    stays = last[positions] == numbers
    block[positions[stays]] = rows[stays]


def concatenate_along(blocks: Sequence[Any], axis: int) -> Any:
    """Join arrays of one dtype along an axis, always in new memory."""
    if axis > 0:
        return cupy.concatenate(blocks, axis)
    joined, copied = concatenate_chunks(blocks)
    return joined if copied else joined.copy()
