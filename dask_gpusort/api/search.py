"""The public functions that search for elements; they check their arguments, then make the graph."""

from __future__ import annotations

from typing import Any, Literal

from ..arguments.arrays import checked_sides
from ..arguments.checks import checked_by_values, checked_number, checked_points, checked_sorter
from ..arguments.table import SIDE
from ..builders.masked import ORDERED, build_masked_search, is_masked
from ..builders.searches import build_interp, build_membership, build_search

#: Arguments of `isin`; either may be one element.
_SIDES = ("element", "test_elements")


def searchsorted(a: Any, v: Any, side: Literal["left", "right"] = "left", sorter: Any = None) -> Any:
    """Positions at which elements keep a sorted Dask array sorted, lazily: `numpy.searchsorted`.

    Parameters
    ----------
    a : dask array, shape (n,)
        NumPy or CuPy chunks, of known or unknown sizes, in ascending order as `sort` gives it, NaN last. Chunks may be
        empty. Other arrays are converted by `dask.array.asanyarray`.
    v : dask array or array_like
        Elements to search for, in any order, of any shape and chunks, of known or unknown sizes. Where they are masked
        (`numpy.ma`), so are the positions.
    side : {"left", "right"}
        Whether a position is before or behind the elements of `a` that are equal.
    sorter : array_like of int, shape (n,), optional
        Positions that sort `a`, such as those of `argsort`. Then all of `a` is joined in one task.

    Returns
    -------
    dask array of int64
        Positions in the whole of `a`, with the shape and the chunks of `v`.

    Raises
    ------
    ValueError
        If `a` or `sorter` has another number of dimensions than one, their sizes differ, or `side` is unknown; during
        the computation, if `sorter` has positions out of range.
    TypeError
        If `sorter` has no integers; if `a` and `v` have no common dtype, or chunks of different libraries.

    See Also
    --------
    isin : whether elements are among others
    explain_searchsorted : how elements are searched for, before anything runs
    dask.array.searchsorted : compares every chunk of `v` with every chunk of `a`, and takes no `sorter`

    Notes
    -----
    An array `a` up to a quarter of a worker's memory is joined once, and each chunk of `v` is searched for in one task.
    A larger one is searched group by group of chunks: the elements of `v` move to the group that bounds them, and the
    results back.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([1, 3, 3, 7], chunks=2)
    >>> dask_gpusort.searchsorted(x, da.from_array([3, 0, 9], chunks=2)).compute()
    array([1, 0, 4])
    """
    array, needles = checked_sides(a, v, ("a", "v"), ("v",), masked=ORDERED)
    if array.ndim != 1:
        what = "too deep" if array.ndim else "of too small depth"
        raise ValueError(f"object {what} for desired array: `a` must have one dimension, got {array.ndim}")
    how = SIDE.checked(side), checked_sorter(sorter, array)
    if is_masked(needles):
        return build_masked_search(array, needles, *how)
    return build_search(array, needles, *how)


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Literal["sort", "table"] | None = None,
) -> Any:
    """Whether each element of a Dask array is among others, lazily: `numpy.isin`.

    Parameters
    ----------
    element : dask array or array_like
        NumPy or CuPy chunks, of known or unknown sizes.
    test_elements : dask array or array_like
        Any shape and chunks.
    assume_unique : bool, default False
        For NumPy's signature; it has no effect, because nothing is gained by it.
    invert : bool, default False
        Whether the result says which elements are not among the others.
    kind : {None, "sort", "table"}
        "sort" searches in the sorted `test_elements`. "table" keeps integers as an array of bool, one for each value
        from the least to the greatest. By default their range decides, at most 2^26 values.

    Returns
    -------
    dask array of bool
        The shape and the chunks of `element`. NaN and NaT are equal to nothing.

    Raises
    ------
    ValueError
        If `kind` is unknown, or "table" for others than integers and booleans.
    TypeError
        If the chunks are of different libraries, cannot be sorted, or have dtypes that NumPy does not compare.

    See Also
    --------
    searchsorted
    explain_isin : how elements are looked up, before anything runs
    dask.array.isin : compares every chunk of `element` with every chunk of `test_elements`

    Notes
    -----
    Integers of different dtypes are compared exactly, where `numpy.isin` may round int64 and uint64 to float64.
    Numbers, bytes, text and dates never equal each other, where `numpy.isin` compares many elements in a common dtype.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([[0, 2], [4, 6]], chunks=1)
    >>> dask_gpusort.isin(x, [1, 2, 4, 8]).compute()
    array([[False,  True],
           [ True, False]])
    """
    array, test = checked_sides(element, test_elements, _SIDES, _SIDES)
    by_values = checked_by_values(kind, array.dtype, test.dtype)
    return build_membership(array, test, bool(invert), by_values)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Values at elements, interpolated linearly between points, lazily: `numpy.interp`.

    Parameters
    ----------
    x : dask array or array_like of real numbers
        Where to interpolate, in any order, of any shape and chunks, of known or unknown sizes.
    xp : dask array or array_like of real numbers, shape (n,)
        Where the points are, in ascending order and without NaN; with a period in any order. Chunks may be empty.
    fp : dask array or array_like of real or complex numbers, shape (n,)
        The values at the points. Chunks may differ from those of `xp`; of unknown sizes, both have as many.
    left, right : number, optional
        The value before the first point and behind the last one; by default that of the first, and of the last point.
        With a period they have no effect.
    period : number, optional
        Not 0. Then `x` and `xp` are taken modulo its absolute value, and `xp` is sorted.

    Returns
    -------
    dask array of float64 or complex128
        The shape and the chunks of `x`. Of NaN it is NaN.

    Raises
    ------
    ValueError
        If `xp` or `fp` has another number of dimensions than one, or no elements; if their sizes differ, or are unknown
        with a period; if `period` is 0.
    TypeError
        If NumPy does not convert `x`, `xp` or `fp` safely to float64, or `fp` to complex128; if `left`, `right` or
        `period` is no number; if the chunks are of different libraries.

    See Also
    --------
    searchsorted : what one task holds, and what moves, are the same

    Notes
    -----
    With a period, NumPy converts more dtypes, and of points that are equal modulo it takes any one, where this takes
    the last one in their order. CuPy chunks are interpolated by `cupy.interp`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> xp, fp = da.from_array([1, 2, 4], chunks=2), da.from_array([10.0, 20.0, 0.0], chunks=2)
    >>> dask_gpusort.interp(da.from_array([3, 1.5, 9], chunks=2), xp, fp).compute()
    array([10., 15.,  0.])
    """
    period = checked_number("period", period)
    array, xp, fp = checked_points(x, xp, fp, period)
    if period:
        return build_interp(array, xp, fp, period=abs(period))
    ends = (checked_number(*one, real=fp.dtype.kind != "c") for one in (("left", left), ("right", right)))
    return build_interp(array, xp, fp, *ends)
