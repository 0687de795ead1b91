"""Distinct values, and sets of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments.arrays import checked_array, checked_sides
from ..arguments.checks import axis_or_none
from ..arguments.table import WITH_MASKED
from ..builders.distinct import (
    Unique,
    build_common,
    build_difference,
    build_set,
    build_union,
    build_unique,
    build_unique_subarrays,
)
from ..builders.masked import ORDERED, build_masked_unique, is_masked

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
        NumPy or CuPy chunks, of known or unknown sizes. Other arrays are converted by `dask.array.asanyarray`. Masked
        elements of NumPy chunks (`numpy.ma`) are one masked value, the last one; then counts alone may be wanted.
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
        If the chunks cannot be sorted; with an axis, if the subarrays cannot be compared. If chunks are masked, and an
        index, an inverse or an axis is given.
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
    array = checked_array(ar, "ar", masked=ORDERED)
    wanted = Unique(bool(return_index), bool(return_inverse), bool(return_counts), bool(equal_nan))
    checked = _axis_of_subarrays(array, axis)
    if is_masked(array):
        WITH_MASKED.refuse(return_index=wanted.index, return_inverse=wanted.inverse, axis=checked)
        found = build_masked_unique(array, wanted)
        return found if wanted.counts else found[0]
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
