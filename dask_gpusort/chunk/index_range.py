"""Indices as positions of an axis, with NumPy's errors. One code for NumPy and CuPy."""

from __future__ import annotations

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
