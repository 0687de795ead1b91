"""Checks of the arguments of joins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..builders.as_of import with_missing
from ..builders.searches import equality_dtype
from ..chunk import library_of
from ..chunk.as_of import AsOf
from ..graph.inputs import check_library
from ..order import Order
from .arrays import checked_array, checked_arrays, known_size
from .checks import checked_number
from .table import DIRECTION

#: Kinds of dtypes of numbers and dates that have distances.
_WITH_DISTANCES = "biufmM"


def checked_as_of(left: Any, right: Any, direction: str, tolerance: Any, exact: bool) -> AsOf:
    """Say which element of one array belongs to one of another."""
    if right.ndim != 1:
        raise ValueError(f"right must have one dimension, got {right.ndim}: give right.ravel()")
    dtype = _common_dtype(left.dtype, right.dtype)
    if dtype is None or dtype.kind not in _WITH_DISTANCES or not Order(dtype).coded:
        raise TypeError(
            f"left of {left.dtype} and right of {right.dtype} must both be numbers, or dates, of at most 64 bits: "
            "give left.astype(dtype) or right.astype(dtype)"
        )
    most = None if tolerance is None else _checked_tolerance(tolerance, dtype)
    checked: Any = DIRECTION.checked(direction)
    return AsOf(Order(dtype, stable=True), checked, exact, most, known_size(right, 0, "right"))


def _common_dtype(one: np.dtype[Any], other: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype in which elements of two arrays are compared; None if that would round, or they are never equal."""
    found = equality_dtype(one, other)
    if found is None or ({one.kind, other.kind} & {*"mM"} and one.kind != other.kind):
        return None
    return found if found == np.result_type(one, other) else None


def _checked_tolerance(tolerance: Any, dtype: np.dtype[Any]) -> float:
    """The greatest distance; of dates and integers the number of their units."""
    if dtype.kind in "mM":
        unit = np.dtype(dtype.str.replace("M8", "m8"))
        try:
            found = np.timedelta64(getattr(tolerance, "asm8", tolerance))
            least, most = found.astype(np.int64), int(found.astype(unit).astype(np.int64))
        except (TypeError, ValueError):
            found = np.timedelta64(0)
        if np.datetime_data(found.dtype)[0] == "generic" and not np.isnat(found):
            raise TypeError(
                f"tolerance must be a time difference for elements of {dtype}, not {tolerance!r}: give "
                "numpy.timedelta64(1, 's'), for example"
            )
    else:
        least = most = checked_number("tolerance", tolerance)
    if not least >= 0:
        raise ValueError(f"tolerance must be 0 or more (got {tolerance!r}): give a distance")
    return most if dtype.kind == "f" or most == math.inf else math.floor(most)


def checked_values_of(values: Any, right: Any) -> tuple[list[Any] | None, bool]:
    """Make values Dask arrays, which have one for each element of `right`, and tell whether they are several."""
    if values is None:
        return None, False
    several = isinstance(values, (list, tuple))
    arrays = checked_arrays(values, "values") if several else [checked_array(values, "values")]
    for number, array in enumerate(arrays):
        name = f"values {number}" if several else "values"
        if not array.ndim or array.shape[0] != right.size:
            raise ValueError(
                f"{name} of shape {array.shape} do not fit right of shape {right.shape}: give a row for each"
            )
        check_library({"right": right, name: array})
        with_missing(array.dtype)
    return arrays, several


def checked_labels_of_both(by: Any, left: Any, right: Any) -> Sequence[Any]:
    """Make labels of two arrays Dask arrays of their shapes; none without labels."""
    sides = left, right
    if by is None:
        return ()
    if not isinstance(by, Iterable) or len(by := list(by)) != 2:
        raise TypeError("by must be a pair of arrays: give (labels of left, labels of right)")
    labels = [checked_array(one, f"by {number}") for number, one in enumerate(by)]
    for name, one, own in zip(("left", "right"), labels, sides, strict=True):
        check_library({"by": one, name: own})
        if one.ndim != own.ndim or any(
            a != b for a, b in zip(one.shape, own.shape, strict=True) if not np.isnan(a + b)
        ):
            raise ValueError(
                f"by has labels of shape {one.shape} for {name}, which has shape {own.shape}: give as many"
            )
    if library_of(left._meta) != "numpy":
        raise TypeError("by is for NumPy chunks: move all arrays there with map_blocks(cupy.asnumpy), or leave by out")
    label_dtype(labels[0], labels[1], "by has labels of {} and of {}")
    return labels


def label_dtype(one: Any, other: Any, what: str) -> np.dtype[Any]:
    """The dtype in which arrays are compared for equality; `what` begins the error, with braces for the dtypes."""
    dtype = _common_dtype(one.dtype, other.dtype)
    if dtype is None or not (Order(dtype).coded or dtype.kind in "SU"):
        both = what.format(one.dtype, other.dtype)
        raise TypeError(
            f"{both}: give both as numbers of one dtype of at most 64 bits, dates or strings of fixed width"
        )
    return dtype


def checked_join(left: Any, right: Any) -> tuple[list[dict[str, Any]], list[np.dtype[Any]]]:
    """Make both sides of an equi-join as many Dask arrays, by name, and find the dtypes in which these are compared."""
    first, second = sides = [_named_columns("left", left), _named_columns("right", right)]
    check_library({**first, **second})
    if len(first) != len(second):
        raise ValueError(f"left has {len(first)} arrays and right {len(second)}: give as many of each")
    if len(first) > 1 and library_of(next(iter(first.values()))._meta) != "numpy":
        raise TypeError("several arrays must have NumPy chunks: move them there with map_blocks(cupy.asnumpy)")
    pairs = zip(first.items(), second.items(), strict=True)
    what = "{} of {{}} and {} of {{}} cannot be joined"
    return sides, [label_dtype(one, other, what.format(a, b)) for (a, one), (b, other) in pairs]


def _named_columns(side: str, given: Any) -> dict[str, Any]:
    several = isinstance(given, (tuple, list)) and any(getattr(one, "ndim", 0) for one in given)
    named = [(f"{side}[{number}]", one) for number, one in enumerate(given)] if several else [(side, given)]
    arrays = {name: checked_array(one, name) for name, one in named}
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"{name} must have one dimension, got {array.ndim}: give {name}.ravel()")
        known_size(array, 0, name)
    if len({*(sizes := [array.size for array in arrays.values()])}) > 1:
        raise ValueError(f"arrays of {side} have sizes {sizes}: give arrays of one size")
    return arrays
