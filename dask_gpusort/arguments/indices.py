"""Checks of the arguments of reads and writes at positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dask.base import is_dask_collection

from ..chunk import library_of
from ..graph._dask import flatten as elements_of
from ..graph.inputs import check_library, flatten
from .arrays import check_known_axis, checked_array, refuse_masked, without_labels
from .checks import axis_or_none


def checked_take_indices(indices: Any, array: Any = None) -> Any:
    """Make indices of `take` a Dask array, or in memory an array."""
    indices = without_labels(indices, "indices")
    known = indices if library_of(indices) in ("numpy", "cupy", "dask") else np.asarray(indices)
    refuse_masked(known, "indices")
    if known.size == 0 and not hasattr(indices, "dtype"):
        known = known.astype(np.intp)  # of an empty list
    if not np.can_cast(known.dtype, np.intp, "same_kind"):
        raise TypeError(
            f"Cannot cast array data from {known.dtype!r} to {np.dtype(np.intp)!r} according to the rule 'same_kind': "
            "give indices as integers"
        )
    if array is not None:
        check_library({"a": array, "indices": known})
    return known.astype(np.intp) if known.dtype.kind == "b" else known


def checked_along(array: Any, indices: Any, axis: Any) -> tuple[Any, Any, int]:
    """The array, or the flattened one for no axis, indices of `take_along_axis` as a Dask array, and the axis."""
    axis, checked = axis_or_none(axis, array.ndim), checked_array(indices, "indices")
    if axis is None and checked.ndim != 1:
        raise ValueError("when axis=None, `indices` must have a single dimension.")
    array, axis = flatten(array, axis)
    check_known_axis(array, axis, "arr")
    if checked.dtype.kind not in "iu":
        raise IndexError(f"`indices` must be an integer array, not {checked.dtype}")
    if checked.ndim != array.ndim:
        raise ValueError(
            "`indices` and `arr` must have the same number of dimensions "
            f"(got shapes {checked.shape} and {array.shape})"
        )
    check_library({"arr": array, "indices": checked})
    return array, checked, axis


def check_broadcast(shape: Sequence[float], indices: Sequence[float], axis: int) -> tuple[float, ...]:
    """Find the shape of the elements that indices name."""
    pairs = list(enumerate(zip(shape, indices, strict=True)))
    if any(
        dim != axis and 1 not in (own, other) and own != other and own == own and other == other
        for dim, (own, other) in pairs
    ):
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together: indices of shape {tuple(indices)} do "
            f"not fit an array of shape {tuple(shape)} beside axis {axis}"
        )
    found = tuple(own if dim != axis and other == 1 else other for dim, (own, other) in pairs)
    if shape[axis] == 0 and math.prod(found) > 0:
        raise IndexError(f"indices are out of bounds for axis {axis} with size 0: give indices without elements")
    return found


def checked_values(values: Any, array: Any, shape: Sequence[float]) -> Any:
    """Make values of `put_along_axis` a Dask array that broadcasts to a shape."""
    checked = checked_array(values, "values", scalars=True)
    if not hasattr(values, "dtype") and not any(map(is_dask_collection, elements_of([values], (list, tuple)))):
        checked = checked_array(_converted(values, array.dtype), "values")
    if not is_dask_collection(values) and library_of(array._meta) == "cupy":
        checked = checked.map_blocks(np.asarray, like=array._meta, dtype=checked.dtype, meta=array._meta)
    check_library({"arr": array, "values": checked})
    if not np.can_cast(checked.dtype, array.dtype, "unsafe"):
        raise TypeError(f"values of {checked.dtype} cannot be cast to {array.dtype}, which arr has: give others")
    sizes = zip(reversed(checked.shape), reversed(shape), strict=False)
    fits = all(own in (1, other) or math.isnan(own) or math.isnan(other) for own, other in sizes)
    extra = checked.shape[: max(checked.ndim - len(shape), 0)]
    if not fits or any(size != 1 for size in extra):
        raise ValueError(
            f"shape mismatch: value array of shape {checked.shape} could not be broadcast to indexing result of "
            f"shape {tuple(shape)}"
        )
    return checked[(0,) * len(extra)]


def _converted(values: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Convert Python objects as NumPy does when it writes them: arrays are cast, but these must fit."""
    try:
        return np.asarray(values, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        kind = type(error) if type(error) in (OverflowError, TypeError) else ValueError
        raise kind(
            f"values do not fit arr of {dtype}: {error}; give others, or numpy.asarray(values).astype(arr.dtype)"
        ) from error
