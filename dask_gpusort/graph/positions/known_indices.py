"""`take` with indices in memory: of few ones Dask reads only the chunks that they name."""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np

from ...chunk import library_of, ops_for
from ...chunk.index_range import positions_of
from ...plan.positions import FEW_INDICES
from ..inputs import flatten
from ..rechunk import rechunk
from .build import build_take


def take_known(array: Any, indices: Any, axis: int | None, mode: str) -> Any:
    """`numpy.take` of a Dask array, of indices in an array in memory.

    Raises
    ------
    IndexError
        If an index is out of range, and the size of the axis is known.
    """
    array, axis = flatten(array, axis)
    size = array.shape[axis]
    if library_of(indices) != library_of(array._meta):
        indices = ops_for(array._meta).from_host(np.atleast_1d(indices)).reshape(indices.shape)
    if math.isnan(size):
        return build_take(array, da.from_array(indices, asarray=False), axis, mode)
    positions = positions_of(indices, int(size), axis, mode)
    # Under query planning Dask does not take a list of positions.
    if positions.size * FEW_INDICES > size or not array.size or da.array_expr_enabled():
        return build_take(array, da.from_array(positions, asarray=False), axis, mode)
    found = array[(*(slice(None),) * axis, positions.reshape(-1))]
    if positions.ndim == 1:
        return found
    shape = (*array.shape[:axis], *positions.shape, *array.shape[axis + 1 :])
    return rechunk(found, {axis: -1}).reshape(shape)
