"""`take` with indices in memory: of few ones Dask reads only the chunks that they name."""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np

from ...chunk import library_of, ops_for
from ...chunk.numpy_positions import positions_of
from ..inputs import flatten
from ..rechunk import rechunk
from .build import build_take
from .choice import plan_slices


def take_known(array: Any, indices: Any, axis: int | None, mode: str) -> Any:
    """Take elements of a Dask array as `numpy.take` does, of indices in an array in memory."""
    array, positions, axis = _checked(array, indices, axis, mode)
    if plan_slices(array, positions, axis) is None:
        return build_take(array, da.from_array(positions, asarray=False), axis, mode)
    found = array[(*(slice(None),) * axis, positions.reshape(-1))]
    if positions.ndim == 1:
        return found
    shape = (*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :])
    return rechunk(found, {axis: -1}).reshape(shape)


def _checked(array: Any, indices: Any, axis: int | None, mode: str) -> tuple[Any, Any, int]:
    """The array or its elements in C order, the indices as positions if the size of the axis is known, and the axis."""
    array, axis = flatten(array, axis)
    size = array.shape[axis]
    if library_of(indices) != library_of(array._meta):
        indices = ops_for(array._meta).from_host(np.atleast_1d(indices)).reshape(indices.shape)
    return array, indices if math.isnan(size) else positions_of(indices, int(size), axis, mode), axis
