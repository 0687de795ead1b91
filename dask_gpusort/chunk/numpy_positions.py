"""Elements of one NumPy chunk at given positions: read, or written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def positions_of(indices: Any, size: int, axis: int, mode: str = "raise", each: float = 1) -> Any:
    """Convert indices to int64 positions from 0 to ``size - 1``, as `numpy.take` does; `axis` is for the error.

    `each` are the elements at a position, nan if unknown: if the axis is empty, and there are some, every mode refuses
    an index.
    """
    positions = indices.astype(np.int64, copy=False)
    if positions.size == 0:
        return positions
    if mode != "raise" and size == 0:
        if each > 0:
            raise IndexError("cannot do a non-empty take from an empty axes.")
        return np.zeros_like(positions)
    if mode == "wrap":
        return positions % size
    if mode == "clip":
        return positions.clip(0, size - 1)
    least, most = int(positions.min()), int(positions.max())
    if least < -size or most >= size:
        wrong = positions[(positions < -size) | (positions >= size)].reshape(-1)[0]
        raise IndexError(f"index {int(wrong)} is out of bounds for axis {axis} with size {size}")
    return positions if least >= 0 else np.where(positions < 0, positions + size, positions)


def take_nothing(block: Any, indices: Any, axis: int, mode: str) -> Any:
    """`numpy.take` of a chunk without elements, for which NumPy's own loop for "wrap" has no end."""
    shape = (*block.shape[:axis], *indices.shape, *block.shape[axis + 1 :])
    positions_of(indices, block.shape[axis], axis, mode, math.prod(block.shape[:axis] + block.shape[axis + 1 :]))
    return np.empty_like(block, shape=shape)


def take(block: np.ndarray, indices: np.ndarray, axis: int, mode: str = "raise") -> Any:
    """`numpy.take`; always an array."""
    if block.size == 0:
        return take_nothing(block, indices, axis, mode)
    positions = indices.astype(np.intp, copy=False).reshape(-1)
    # Before 2.3, NumPy's `block[index]` reads the wrong elements of strided StringDType.
    if block.flags.c_contiguous or mode != "raise" or block.dtype.kind == "T":
        found: np.ndarray = block.take(positions, axis, mode=mode)  # type: ignore[call-overload]
    else:
        index: tuple[Any, ...] = (*(slice(None),) * axis, positions)
        found = block[index]  # NumPy's `take` would copy the whole chunk first
    return found.reshape((*block.shape[:axis], *indices.shape, *block.shape[axis + 1 :]))


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
