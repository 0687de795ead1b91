"""Distinct values, and sets of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arguments.arrays import checked_array, checked_sides
from ..arguments.checks import axis_or_none, check_choice, checked_axes, checked_grouping, refuse_with_groups
from ..builders.distinct import (
    Unique,
    build_common,
    build_difference,
    build_nunique,
    build_set,
    build_union,
    build_unique,
    build_unique_subarrays,
)
from ..builders.groups import Labels, build_grouped
from ..builders.modes import build_mode, build_nunique_along
from ..chunk.reducers import count_distinct, most_common
from ..chunk.tie_groups import NAN_POLICIES

_EMPTY = np.empty(0)
#: NumPy's classes of results, which have no public names.
_All, _Counts, _Inverse = (type(f(_EMPTY)) for f in (np.unique_all, np.unique_counts, np.unique_inverse))


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct values of a Dask array, lazily: `numpy.unique`.

    Parameters
    ----------
    ar : dask array
        NumPy or CuPy chunks, of known or unknown sizes. Other arrays are converted by `dask.array.asanyarray`.
    return_index : bool, default False
        Whether the first position of each value in the flattened array is wanted, or its first index along `axis`.
    return_inverse : bool, default False
        Whether the position of each element among the distinct values is wanted.
    return_counts : bool, default False
        Whether the number of times that each value occurs is wanted.
    axis : int or None, default None
        None for the values of the flattened array. With an axis, the distinct subarrays along it, of NumPy chunks:
        subarrays are made whole in a chunk.
    equal_nan : bool, default True
        Whether all NaN are one value, and all NaT; else each of them is one.
    sorted : bool, default True
        For NumPy's signature: values are always sorted.

    Returns
    -------
    dask array, or tuple of dask arrays
        The values, ascending, then what is wanted, in the order of the arguments; indices, inverse and counts are
        int64. The inverse has the shape of `ar` and its chunks; with an axis one dimension. All others have unknown
        chunk sizes: call ``compute_chunk_sizes()`` where they must be known.

    Raises
    ------
    TypeError
        If the chunks are masked, or cannot be sorted; with an axis, if the subarrays cannot be compared.
    ValueError
        If an index is wanted, `ar` has several dimensions, and chunk sizes are unknown.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    See Also
    --------
    nunique : the number of distinct values
    explain_unique : how distinct values are found, before anything runs
    dask.array.unique : one task collects all values, and another array is as large as the product of values and keys

    Notes
    -----
    Each chunk is reduced to its own distinct values; integers and dates of a narrow range are counted, not sorted. Only
    distinct values move between chunks.

    Of equal values that differ in their bits, such as -0.0 and 0.0, the first one of the first chunk is returned. NaN
    that are not one value are numbered in the order of the array; if it has several dimensions, and no index is wanted,
    in that of the chunks.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([3, 1, 3, 2], chunks=2)
    >>> values, counts = dask_gpusort.unique(x, return_counts=True)
    >>> dask.compute(values, counts)
    (array([1, 2, 3]), array([1, 1, 2]))
    """
    array = checked_array(ar, "ar")
    wanted = Unique(bool(return_index), bool(return_inverse), bool(return_counts), bool(equal_nan))
    checked = _axis_of_subarrays(array, axis)
    found = build_unique(array, wanted) if checked is None else build_unique_subarrays(array, wanted, checked)
    return found if len(found) > 1 else found[0]


def _axis_of_subarrays(array: Any, axis: int | None) -> int | None:
    """The axis along which subarrays are compared; None if single keys are."""
    checked = axis_or_none(axis, array.ndim)
    return None if array.ndim == 1 else checked


def unique_all(x: Any) -> Any:
    """The distinct values of a Dask array with indices, inverse and counts: `numpy.unique_all`.

    Parameters
    ----------
    x : dask array
        As for `unique`.

    Returns
    -------
    named tuple of dask arrays
        ``values``, ``indices``, ``inverse_indices`` and ``counts``. Each NaN is a value of its own, as the array API
        standard says.

    Raises
    ------
    TypeError, ValueError
        As `unique`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> found = dask_gpusort.unique_all(da.from_array([3, 1, 3, 2], chunks=2))
    >>> found.values.compute()
    array([1, 2, 3])
    >>> found.indices.compute()
    array([1, 3, 0])
    >>> found.inverse_indices.compute()
    array([2, 0, 2, 1])
    >>> found.counts.compute()
    array([1, 1, 2])
    """
    return _All(*build_unique(checked_array(x, "x"), Unique(True, True, True, equal_nan=False)))


def unique_counts(x: Any) -> Any:
    """The distinct values of a Dask array and how often they occur: `numpy.unique_counts`.

    Parameters
    ----------
    x : dask array
        As for `unique`.

    Returns
    -------
    named tuple of dask arrays
        ``values`` and ``counts``, as of `unique_all`.

    Raises
    ------
    TypeError
        As `unique`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> found = dask_gpusort.unique_counts(da.from_array([3, 1, 3, 2], chunks=2))
    >>> found.values.compute()
    array([1, 2, 3])
    >>> found.counts.compute()
    array([1, 1, 2])
    """
    return _Counts(*build_unique(checked_array(x, "x"), Unique(counts=True, equal_nan=False)))


def unique_inverse(x: Any) -> Any:
    """The distinct values of a Dask array and the position of each element among them: `numpy.unique_inverse`.

    Parameters
    ----------
    x : dask array
        As for `unique`.

    Returns
    -------
    named tuple of dask arrays
        ``values`` and ``inverse_indices``, as of `unique_all`.

    Raises
    ------
    TypeError
        As `unique`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> found = dask_gpusort.unique_inverse(da.from_array([30, 10, 30, 20], chunks=2))
    >>> found.values.compute()
    array([10, 20, 30])
    >>> found.inverse_indices.compute()
    array([2, 0, 2, 1])
    """
    return _Inverse(*build_unique(checked_array(x, "x"), Unique(inverse=True, equal_nan=False)))


def unique_values(x: Any) -> Any:
    """The distinct values of a Dask array: `numpy.unique_values`.

    Parameters
    ----------
    x : dask array
        As for `unique`.

    Returns
    -------
    dask array
        Ascending; each NaN is a value of its own.

    Raises
    ------
    TypeError
        As `unique`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.unique_values(da.from_array([3, 1, 3, 2], chunks=2)).compute()
    array([1, 2, 3])
    """
    return build_unique(checked_array(x, "x"), Unique(equal_nan=False))[0]


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
    grouping = checked_grouping(by, groups, window, array, axis)
    if by is not None:
        return build_grouped(array, count_distinct(equal_nan), axes, Labels.of(*grouping))
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
    check_choice("nan_policy", nan_policy, NAN_POLICIES)
    grouping = checked_grouping(by, groups, window, array, axis)
    if by is None:
        return ModeResult(*build_mode(array, nan_policy, axes, bool(keepdims)))
    refuse_with_groups(keepdims=keepdims)
    labels = Labels.of(*grouping)
    return ModeResult(*(build_grouped(array, found, axes, labels) for found in most_common(nan_policy)))


def union1d(ar1: Any, ar2: Any) -> Any:
    """The distinct values of two Dask arrays: `numpy.union1d`.

    Parameters
    ----------
    ar1, ar2 : dask arrays
        Of any dimensions, both of NumPy or both of CuPy chunks; they are flattened.

    Returns
    -------
    dask array
        Ascending, of the common dtype, in chunks of unknown sizes.

    Raises
    ------
    TypeError
        If the chunks cannot be sorted, or are of two libraries.
    ValueError
        If an array has several dimensions and unknown chunk sizes.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.union1d(da.arange(4, chunks=2), da.arange(2, 6, chunks=3)).compute()
    array([0, 1, 2, 3, 4, 5])
    """
    return build_union(*checked_sides(ar1, ar2, ("ar1", "ar2")))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The values that two Dask arrays have in common: `numpy.intersect1d`.

    Parameters
    ----------
    ar1, ar2 : dask arrays
        As for `union1d`.
    assume_unique : bool, default False
        Whether each array has distinct values. This saves nothing here.
    return_indices : bool, default False
        Whether the first position of each value in both flattened arrays is wanted. The sizes of the chunks of `ar1`
        must be known.

    Returns
    -------
    dask array, or tuple of dask arrays
        The values as of `union1d`, without NaN; with `return_indices`, the positions in `ar1`, then in `ar2`.

    Raises
    ------
    TypeError, ValueError
        As `union1d`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.intersect1d(da.arange(5, chunks=2), da.arange(3, 9, chunks=4)).compute()
    array([3, 4])
    """
    sides = checked_sides(ar1, ar2, ("ar1", "ar2"))
    return build_common(*sides) if return_indices else build_set(*sides, "both")


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values of one Dask array that another one lacks: `numpy.setdiff1d`.

    Parameters
    ----------
    ar1, ar2 : dask arrays
        As for `union1d`.
    assume_unique : bool, default False
        As in NumPy, the values of `ar1` then stay in their order, and are not made distinct.

    Returns
    -------
    dask array
        Of the dtype of `ar1`, in chunks of unknown sizes; ascending and distinct, unless `assume_unique` is set. Values
        are compared as in `isin`. NaN differ from each other, so that one of them is kept.

    Raises
    ------
    TypeError, ValueError
        As `union1d`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.setdiff1d(da.arange(5, chunks=2), da.arange(3, 9, chunks=4)).compute()
    array([0, 1, 2])
    """
    return build_difference(*checked_sides(ar1, ar2, ("ar1", "ar2")), bool(assume_unique))


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values that only one of two Dask arrays has: `numpy.setxor1d`.

    Parameters
    ----------
    ar1, ar2 : dask arrays
        As for `union1d`.
    assume_unique : bool, default False
        Whether each array has distinct values. This saves nothing here.

    Returns
    -------
    dask array
        As of `union1d`. NaN of both arrays differ.

    Raises
    ------
    TypeError, ValueError
        As `union1d`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.setxor1d(da.arange(4, chunks=2), da.arange(2, 6, chunks=3)).compute()
    array([0, 1, 4, 5])
    """
    return build_set(*checked_sides(ar1, ar2, ("ar1", "ar2")), "one")
