"""Elements of one NumPy chunk at given positions: read, or written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def take(block: np.ndarray, indices: np.ndarray, axis: int, mode: str = "raise") -> np.ndarray:
    """`numpy.take`; always an array."""
    positions = indices.astype(np.intp, copy=False).reshape(-1)
    found: np.ndarray = block.take(positions, axis, mode=mode)  # type: ignore[call-overload]
    return found.reshape((*block.shape[:axis], *indices.shape, *block.shape[axis + 1 :]))


def take_along(block: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """`numpy.take_along_axis`."""
    if block.ndim == 1 and block.size:
        return take(block, indices, axis)  # in half the time
    return np.take_along_axis(block, indices, axis)


def put_along(block: np.ndarray, indices: np.ndarray, values: np.ndarray, axis: int) -> None:
    """Write to a chunk as `numpy.put_along_axis`. Of several values for a position the last in C order stays."""
    # NumPy follows the memory, so both arrays are stored in C order.
    np.put_along_axis(block, np.ascontiguousarray(indices), np.ascontiguousarray(values), axis)


def put(block: np.ndarray, positions: np.ndarray, rows: np.ndarray) -> None:
    """Write rows to a chunk at positions along the first axis. Of several rows for a position the last one stays."""
    block[positions] = rows


def concatenate_along(blocks: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Join arrays of one dtype along an axis, always in new memory."""
    return np.concatenate(blocks, axis, dtype=blocks[0].dtype)
