"""Distinct subarrays along an axis: each becomes a record, whose fields are its elements in C order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...chunk import library_of
from ..input_checks import checked_chunk
from ..rechunk import rechunk
from .distinct import Unique, build_unique


def to_records(block: Any, dtype: np.dtype[Any]) -> Any:
    """Task: the subarrays of one chunk along its first axis, as records."""
    checked_chunk(block, dtype["f0"])
    flat = np.ascontiguousarray(block.astype(dtype["f0"], copy=False)).reshape(-1)
    return flat.view(dtype)


def from_records(block: Any, shape: tuple[int, ...]) -> Any:
    """Task: records as subarrays of a shape."""
    return block.view(block.dtype["f0"]).reshape(len(block), *shape)


def as_records(array: Any, axis: int) -> tuple[Any, Any]:
    """Make records of the subarrays along an axis, and give the array with the axis first."""
    if library_of(array._meta) != "numpy" or array.dtype.kind in "OT":
        raise TypeError(
            f"subarrays of {library_of(array._meta)} chunks of {array.dtype} are not compared: use axis=None, or NumPy "
            "chunks of dtypes of fixed width"
        )
    moved = array.transpose(_axis_first(array, axis))
    shape = moved.shape[1:]
    if any(map(math.isnan, shape)) or 0 in shape:
        raise ValueError(
            f"a has subarrays of shape {shape} along axis {axis}: give no empty axis, and of unknown "
            "sizes call a.compute_chunk_sizes() first"
        )
    whole = rechunk(moved, dict.fromkeys(range(1, moved.ndim), -1))
    dtype = np.dtype([(f"f{number}", array.dtype) for number in range(math.prod(shape))])
    records = whole.map_blocks(
        to_records,
        dtype,
        drop_axis=list(range(1, moved.ndim)),
        chunks=(whole.chunks[0],),
        dtype=dtype,
        meta=np.empty(0, dtype),
    )
    return records, moved


def build_unique_subarrays(array: Any, wanted: Unique, axis: int) -> tuple[Any, ...]:
    """The distinct subarrays along an axis, as `build_unique`; raises what `as_records` raises."""
    records, moved = as_records(array, axis)
    shape = moved.shape[1:]
    values, *others = build_unique(records, wanted)
    found = values.map_blocks(
        from_records,
        shape,
        new_axis=list(range(1, moved.ndim)),
        chunks=(values.chunks[0], *((size,) for size in shape)),
        dtype=array.dtype,
        meta=np.empty((0,) * moved.ndim, array.dtype),
    )
    return found.transpose(np.argsort(_axis_first(array, axis)).tolist()), *others


def _axis_first(array: Any, axis: int) -> list[int]:
    return [axis, *(dim for dim in range(array.ndim) if dim != axis)]
