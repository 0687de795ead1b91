"""Along axes or of groups: the most common value, and the number of distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..arguments.arrays import checked_array
from ..arguments.checks import checked_axes, checked_labels
from ..arguments.table import NAN_POLICY, WITH_GROUPS
from ..builders.distinct import build_nunique
from ..builders.groups import build_grouped
from ..builders.modes import build_mode, build_nunique_along
from ..chunk.reducers import count_distinct, most_common


def nunique(
    a: Any,
    axis: int | Sequence[int] | None = None,
    *,
    equal_nan: bool = True,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
) -> Any:
    """The number of distinct values of a Dask array, of its lanes, or of groups of their elements, lazily.

    Parameters
    ----------
    a, equal_nan
        As for `unique`.
    axis : int, tuple of int or None, default None
        Axes to reduce, chunked or not; None reduces all of them.
    by, groups, window
        As for `quantile`: the distinct values of each group are counted.

    Returns
    -------
    dask array of int64
        The shape of the remaining axes. With `by` there is one more dimension, of the groups, at the place of the axis,
        or of the first of several; a group without elements gives 0.

    Raises
    ------
    TypeError
        As `unique`.
    ValueError
        If lanes are in several chunks of unknown sizes. If labels do not fit, or groups may be larger than a chunk.
    numpy.exceptions.AxisError
        If an axis is out of bounds.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([3, 1, 3, 2], chunks=2)
    >>> dask_gpusort.nunique(x).compute()
    np.int64(3)
    >>> dask_gpusort.nunique(x, by=["a", "b", "a", "b"]).compute()
    array([1, 2])
    """
    array, equal_nan = checked_array(a), bool(equal_nan)
    axes = checked_axes(axis, array.ndim)
    labels = checked_labels(by, groups, window, array, axis)
    if labels is not None:
        return build_grouped(array, count_distinct(equal_nan), axes, labels)
    return build_nunique(array, equal_nan) if axis is None else build_nunique_along(array, equal_nan, axes)


class ModeResult(NamedTuple):
    """The result of `mode`, by name or in this order, as that of SciPy."""

    mode: Any
    count: Any


def mode(
    a: Any,
    axis: int | Sequence[int] | None = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
) -> Any:
    """The most common value along an axis of a Dask array, or of each group, and its count: `scipy.stats.mode`.

    Parameters
    ----------
    a : dask array
        NumPy or CuPy chunks of any dtype that `sort` takes; SciPy takes numbers. Other arrays are converted by
        `dask.array.asanyarray`.
    axis : int, tuple of int or None, default 0
        Axes to reduce, chunked or not; None reduces all of them, also of chunks of unknown sizes.
    nan_policy : {"propagate", "omit", "raise"}
        Whether NaN and NaT are a value, as in SciPy all of them the same; are left out; or raise ValueError, during the
        computation.
    keepdims : bool, default False
        Whether reduced axes stay, with size 1.
    by, groups, window
        As for `quantile`: each group has a mode. Not with `keepdims`.

    Returns
    -------
    ModeResult
        ``mode``, of the dtype of `a`, and ``count`` (int64): Dask arrays of the shape of the remaining axes. Of values
        that are as common, the smallest. With `by` there is one more dimension, of the groups, at the place of the
        axis, or of the first of several. A group without elements gives NaN or NaT, and 0; where there may be such
        groups, integers become float64. So do lanes without elements.

    Raises
    ------
    ValueError
        If the policy is unknown. If lanes are in several chunks of unknown sizes. If labels do not fit, or groups may
        be larger than a chunk.
    TypeError
        If the chunks cannot be sorted. If groups may be empty, and there is no NaN of the dtype, as of strings.
    numpy.exceptions.AxisError
        If an axis is out of bounds.

    See Also
    --------
    unique : all values, with their counts

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([3, 1, 3, 2, 2, 2], chunks=2)
    >>> dask_gpusort.mode(x).mode.compute(), dask_gpusort.mode(x).count.compute()
    (np.int64(2), np.int64(3))
    >>> dask_gpusort.mode(x, by=["a", "a", "a", "b", "b", "b"]).mode.compute()
    array([3, 2])
    """
    array = checked_array(a)
    axes = checked_axes(axis, array.ndim)
    NAN_POLICY.checked(nan_policy)
    labels = checked_labels(by, groups, window, array, axis)
    if labels is None:
        return ModeResult(*build_mode(array, nan_policy, axes, bool(keepdims)))
    WITH_GROUPS.refuse(keepdims=bool(keepdims))
    return ModeResult(*(build_grouped(array, found, axes, labels) for found in most_common(nan_policy)))
