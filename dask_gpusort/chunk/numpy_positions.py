"""Elements of one NumPy chunk at given positions: read, or written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def positions_of(indices: Any, size: int, axis: int, mode: str = "raise") -> Any:
    """Convert indices to int64 positions from 0 to ``size - 1``, as `numpy.take` does; `axis` is for the error."""
    # If the axis is empty, every mode refuses an index.
    positions = indices.astype(np.int64, copy=False)
    if positions.size == 0:
        return positions
    if mode != "raise" and size == 0:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if mode == "wrap":
        return positions % size
    if mode == "clip":
        return positions.clip(0, size - 1)
    least, most = int(positions.min()), int(positions.max())
    if least < -size or most >= size:
        wrong = positions[(positions < -size) | (positions >= size)].reshape(-1)[0]
        raise IndexError(f"index {int(wrong)} is out of bounds for axis {axis} with size {size}")
    return positions if least >= 0 else np.where(positions < 0, positions + size, positions)


def take(block: np.ndarray, indices: np.ndarray, axis: int, mode: str = "raise") -> np.ndarray:
    """`numpy.take`; always an array."""
    positions = indices.astype(np.intp, copy=False).reshape(-1)
    if block.size == 0:  # NumPy's loop for "wrap" has no end if the axis is empty, and another one too
        positions = positions_of(positions, block.shape[axis], axis, mode)
    if block.flags.c_contiguous or mode != "raise":
        found: np.ndarray = block.take(positions, axis, mode=mode)  # type: ignore[call-overload]
    else:
        index: tuple[Any, ...] = (*(slice(None),) * axis, positions)
        found = block[index]  # NumPy's `take` would copy the whole chunk first
    return found.reshape((*block.shape[:axis], *indices.shape, *block.shape[axis + 1 :]))


def take_along(block: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """`numpy.take_along_axis`."""
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


def random_keys(start: int, count: int, seed: int) -> Any:
    """Give outputs of `numpy.random.Philox`, of 64 bits, from number `start` on."""
    skipped, offset = divmod(start, 4)  # it makes four outputs for each value of its counter
    return np.random.Philox(np.random.SeedSequence(seed)).advance(skipped).random_raw(offset + count)[offset:]
