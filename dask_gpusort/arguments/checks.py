"""Checks of scalars, options and labels that are not rows of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_tuple

from ..builders.groups import Labels
from ..builders.request import Options
from ..chunk.labels import are_missing, on_host
from ..config import setting
from ..graph.inputs import check_library
from .arrays import checked_array, in_memory, known_size, without_labels
from .table import (
    DEVICE,
    EXCHANGE,
    KIND_OF_ISIN,
    SEED,
    SORT_KIND,
    SORT_METHOD,
    WINDOW,
    WITH_LESS,
    WITHOUT_LABELS,
    Integer,
)


def checked_options(
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    stable: bool | None = None,
    descending: bool | None = False,
    key: Callable[[Any], Any] | None = None,
    less: Callable[[Any, Any], Any] | str | None = None,
    method: str = "auto",
    exchange: str = "auto",
) -> Options:
    """Check the options that all sorts share, as `dask_gpusort.sort` documents them."""
    asks_stable = _asks_stable(kind, stable)
    if less is not None:
        WITH_LESS.refuse(key=key, order=order or None, descending=bool(descending))
    SORT_METHOD.checked(method)
    EXCHANGE.checked(exchange)
    if not (order is None or isinstance(order, (str, list, tuple))):
        raise ValueError(f"unsupported order value: {order!r}: give the name of a field, or a list of names")
    fields = None if order is None else (order,) if isinstance(order, str) else tuple(order)
    return Options(asks_stable, checked_directions(descending, 1)[0], fields, method, exchange, key, less)


def on_device(options: Options, device: Any) -> Options:
    """Set the device of a sort; None follows the setting ``gpusort.device``."""
    found = DEVICE.checked(device)
    return replace(options, device=setting("device") if found is None else found)


def _asks_stable(kind: str | None, stable: bool | None) -> bool:
    if kind is None:
        return bool(stable)
    # NumPy looks at the first letter alone: "q", "m" and "merge" are kinds too.
    by_letter = {name[0]: name for name in SORT_KIND.allowed}
    name = SORT_KIND.checked(by_letter.get(kind[:1].lower(), kind) if isinstance(kind, str) else kind)
    if stable is not None:
        raise ValueError("`kind` and keyword parameters can't be provided at the same time: use only `stable`")
    return name in ("mergesort", "stable")


def checked_seed(seed: Any) -> int:
    """Check a seed, or draw one."""
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    return SEED.checked(seed)


def checked_axis(axis: Any, ndim: int, *, flattens: bool = False, several: bool = False, where: str = "") -> int:
    """Count the axis from the first dimension."""
    # `flattens` and `several` say whether the function also takes None, or a tuple of axes, and `where` of which
    # argument the axis is part: for error messages.
    instead = "an integer" + ", a tuple of them" * several + " or None, which takes all elements" * flattens
    number = Integer(f"axis{where}", instead).checked(axis)
    if ndim == 0:
        remedy = "use axis=None to flatten it" if flattens else "give it one, with reshape(1)"
        raise AxisError(f"axis {number} is out of bounds for array of dimension 0: {remedy}")
    if not -ndim <= number < ndim:
        raise AxisError(number, ndim, f"use an axis from {-ndim} to {ndim - 1}{where}")
    return number % ndim


def checked_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """List the reduced axes, ascending, counted from the first dimension; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    several = isinstance(axis, Iterable) and not isinstance(axis, str) and getattr(axis, "ndim", 1) == 1
    given = axis if several else (axis,)
    found = sorted(checked_axis(one, ndim, flattens=True, several=True) for one in given)
    if len(set(found)) < len(found):
        raise ValueError(f"repeated axis in `axis` argument: name each axis once (got {axis})")
    return tuple(found)


def checked_weights(weights: Any, array: Any, axis: Any, method: str) -> Any:
    """Make weights a Dask array of as many dimensions as an array, that broadcasts to its shape.

    They have the array's shape, or the sizes along the axes, in their order.
    """
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}. Give method='inverted_cdf'")
    checked = checked_array(weights, "weights")
    if checked.dtype.kind == "O":
        checked = checked.astype(np.float64)  # as NumPy adds them
    if checked.dtype.kind not in "biuf":
        raise TypeError(f"weights must be real numbers, not {checked.dtype}")
    for name, one in {"a": array, "weights": checked}.items():
        if any(map(math.isnan, one.shape)):
            raise ValueError(f"{name} has unknown sizes, which weights need: call {name}.compute_chunk_sizes()")
    check_library({"a": array, "weights": checked})
    if checked.shape == array.shape:
        return checked
    if axis is None:
        raise TypeError(
            "Axis must be specified when shapes of a and weights differ. "
            f"(got shapes {array.shape} and {checked.shape}: give axis=)"
        )
    axes = normalize_axis_tuple(axis, array.ndim, "axis")
    if checked.shape != tuple(array.shape[dim] for dim in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis. "
            f"(got shape {checked.shape} for a of shape {array.shape} and axis={axis})"
        )
    ascending = checked.transpose(np.argsort(axes).tolist())
    return ascending[tuple(slice(None) if dim in axes else None for dim in range(array.ndim))]


def checked_labels(by: Any, groups: Any, window: Any, array: Any, axis: Any) -> Labels | None:
    """Number the labels of the axes, in ascending order; None without labels."""
    if by is None:
        WITHOUT_LABELS.refuse(groups=groups, window=window)
        return None
    by = checked_array(by, "by") if is_dask_collection(by) else _labels_in_memory(by, "by")
    axes = tuple(range(array.ndim)) if axis is None else normalize_axis_tuple(axis, array.ndim, "axis")
    if not axes:
        raise ValueError(f"by has a label for each element along the axis, and axis={axis} is none: give an axis")
    sizes = tuple(array.shape[dim] for dim in axes)
    lazy = is_dask_collection(by)
    if not lazy and any(map(math.isnan, sizes)):
        raise ValueError("a has chunks of unknown sizes, and by is in memory: call a.compute_chunk_sizes() first")
    if by.ndim != len(axes) or any(
        one != size and not (lazy and (math.isnan(one) or math.isnan(size)))
        for one, size in zip(by.shape, sizes, strict=True)
    ):
        raise ValueError(
            f"by of shape {by.shape} does not fit a of shape {array.shape} with axis={axis}: "
            f"give labels of shape {sizes}"
        )
    number = 1 if window is None else WINDOW.checked(window)
    if number < 1 or number % 2 == 0:
        raise ValueError(f"window must be an odd positive number of elements, not {number}: give 1 or 3, for example")
    if number > 1 and len(axes) != 1:
        raise ValueError(f"window has neighbours along one axis, and axis={axis} are {len(axes)}: give one axis")
    # No element has more neighbours; where sizes are unknown, tasks find them.
    reached = [max(2 * int(size) - 1, 1) for size in (*by.shape, *sizes) if not math.isnan(size)]
    number = min([number, *reached])
    return Labels.of(by.transpose(np.argsort(axes).tolist()), _checked_groups(groups, by.dtype), number)


#: Kinds of dtypes whose elements can be equal.
_COMPARABLE = ("biufc", "UT", "S", "M", "m")


def _checked_groups(groups: Any, labels: np.dtype[Any]) -> np.ndarray | None:
    """Groups as a NumPy array of one dimension, that can be equal to labels of a dtype."""
    if groups is None:
        return None
    if is_dask_collection(groups):
        raise TypeError("groups must be in memory, as they give the result its size: call groups.compute() first")
    found = _labels_in_memory(groups, "groups")
    if found.ndim != 1:
        raise ValueError(f"groups must be of one dimension, not {found.ndim}: give a list of labels")
    kinds = {found.dtype.kind, labels.kind}
    if found.size and "O" not in kinds and not any(kinds <= set(kind) for kind in _COMPARABLE):
        raise TypeError(
            f"groups of {found.dtype} are never equal to labels of {labels}: give groups of the type of the labels"
        )
    if are_missing(found).any():
        raise ValueError("groups has missing labels, whose elements are in no group: leave them out")
    if len(np.unique(found)) < len(found):
        raise ValueError("groups has a label twice: give each label once, as numpy.unique does")
    return found.astype(labels) if not found.size or labels.kind == "T" else found


def _labels_in_memory(labels: Any, name: str) -> np.ndarray:
    """Labels, or what is made of them, as a NumPy array."""
    given = on_host(in_memory(without_labels(labels, name), name))
    found = np.asarray(given)
    if found.dtype.kind == "f" and not hasattr(given, "dtype"):
        # NumPy rounds integers to floats if some need uint64 and others do not.
        exact = np.asarray(given, object)
        found = exact if all(isinstance(one, Integral) for one in exact.flat) else found
    return found


def checked_kth(kth: Any) -> tuple[int, ...]:
    """Check the ranks of a partition."""
    ranks = np.asarray(in_memory(kth, "kth"))
    if ranks.dtype.kind == "b":
        raise ValueError("Booleans unacceptable as partition index: give kth as integers")
    if ranks.dtype.kind not in "iu":
        raise TypeError(f"Partition index must be integer: kth is {kth!r}")
    if ranks.ndim > 1:
        raise ValueError(f"kth must be an integer or a sequence of them, not an array of {ranks.ndim} dimensions")
    return tuple(ranks.reshape(-1).tolist())


def axis_or_none(axis: Any, ndim: int) -> int | None:
    """As `checked_axis`; None, which flattens the array, stays None."""
    return None if axis is None else checked_axis(axis, ndim, flattens=True)


def is_scalar_row(array: Any, axis: Any) -> bool:
    """Whether NumPy's indirect sorts, and `take`, use an array without dimensions as a row of one element."""
    return array.ndim == 0 and axis is not None and Integer("axis").checked(axis) in (0, -1)


def resolved_chunks(chunks: Any, axis: int | None, ndim: int) -> Any:
    """The argument ``chunks`` with a dict of axes as a tuple, None for each axis not named."""
    if not isinstance(chunks, dict):
        return chunks
    ndim = 1 if axis is None else ndim
    given = {checked_axis(dim, ndim, where=" in chunks"): size for dim, size in chunks.items()}
    return tuple(given.get(dim) for dim in range(ndim))


def checked_directions(descending: bool | Sequence[bool] | None, count: int) -> list[bool]:
    """Tell whether each of several keys descends."""
    descending = in_memory(descending, "descending")
    if not isinstance(descending, Iterable) or getattr(descending, "ndim", 1) == 0:
        return [bool(descending)] * count
    directions = list(map(bool, descending))
    if len(directions) != count:
        raise ValueError(f"{len(directions)} directions in `descending` for {count} keys: give one for each")
    return directions


def checked_sorter(sorter: Any, array: Any) -> Any:
    """Make the positions that sort an array a Dask array, if there are any."""
    if sorter is None:
        return None
    checked = checked_array(sorter, "sorter")
    if checked.dtype.kind not in "iu":
        raise TypeError(f"sorter must only contain integers (got {checked.dtype})")
    if checked.ndim != 1 or not (checked.size == array.size or math.isnan(checked.size + array.size)):
        raise ValueError(
            f"sorter.size must equal a.size, in one dimension (got shapes {checked.shape} and {array.shape})"
        )
    check_library({"a": array, "sorter": checked})
    return checked


def checked_by_values(kind: Any, *dtypes: np.dtype[Any]) -> bool | None:
    """Tell whether `isin` keeps integers as a set of values; None if that is left open."""
    KIND_OF_ISIN.checked(kind)
    if kind == "table" and not all(dtype.kind in "biu" for dtype in dtypes):
        raise ValueError(
            "The 'table' method is only supported for boolean or integer arrays. Please select 'sort' or None for kind."
        )
    return None if kind is None else kind == "table"


def checked_points(x: Any, xp: Any, fp: Any, period: float | None) -> list[Any]:
    """Make the arrays of an interpolation Dask arrays of numbers of one library."""
    names = "x", "xp", "fp"
    arrays = [checked_array(one, name) for one, name in zip((x, xp, fp), names, strict=True)]
    for name, array, dtype in zip(names, arrays, ("float64", "float64", "complex128"), strict=True):
        if not np.can_cast(array.dtype, dtype):
            raise TypeError(
                f"{name} cannot be cast safely from {array.dtype} to {dtype}: give {name}.astype({dtype!r})"
            )
        if name != "x" and array.ndim != 1:
            raise ValueError(f"{name} must have one dimension, got {array.ndim}: give {name}.ravel()")
        if name != "x" and period is not None:
            known_size(array, 0, name)
    check_library(dict(zip(names, arrays, strict=True)))
    _, points, values = (array.size for array in arrays)
    if points != values and not math.isnan(points + values):
        raise ValueError(f"fp and xp are not of the same length ({values} and {points}): give each point a value")
    if points == 0:
        raise ValueError("array of sample points is empty: give xp and fp at least one element")
    if period == 0:
        raise ValueError("period must be a non-zero value: give None where nothing repeats")
    return arrays


def checked_number(name: str, value: Any, *, real: bool = True) -> Any:
    """Convert a number of any type to one of Python; None stays None."""
    found: Any = value[()] if getattr(value, "ndim", None) == 0 else value
    kind: Any = Real if real else Complex
    if not (found is None or isinstance(found, kind)) or isinstance(found, np.timedelta64):
        raise TypeError(f"{name} must be a {'real ' * real}number, not {value!r}")
    return None if found is None else float(found) if real else complex(found)
