"""Partitions: the keys at some ranks in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arguments.arrays import checked_array
from ..arguments.checks import axis_or_none, checked_kth, checked_options, is_scalar_row
from ..arguments.table import SELECT_KIND
from ..builders.partitions import Want, build_partition


def partition(
    a: Any,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: str | Sequence[str] | None = None,
) -> Any:
    """A Dask array with the keys at some ranks in place, lazily: `numpy.partition` without a sort of the array.

    Behind each of these keys are the keys that are no less, before it those that are no greater.

    Parameters
    ----------
    a : dask array
        NumPy or CuPy chunks of any dtype that `sort` takes. Other arrays are converted by `dask.array.asanyarray`.
    kth : int or sequence of ints
        Ranks, counted from the end if negative. The keys there are those of the sorted array. NaN are last.
    axis : int or None, default -1
        Axis along which to partition; None partitions the flattened array.
    kind : {"introselect"}
        NumPy's only kind; it has no effect.
    order : str or list of str, optional
        Fields of a structured dtype to compare first; the remaining fields break ties.

    Returns
    -------
    dask array
        Same shape, dtype and chunks. The order of the other keys is unspecified, but the same every time.

    Raises
    ------
    ValueError
        If a rank is out of bounds, or the number of keys along the axis is unknown; if `kind` or `order` is unknown.
    TypeError
        If the ranks are no integers, or the chunks cannot be sorted.
    numpy.exceptions.AxisError
        If the axis is out of bounds, or the array has no dimension.

    See Also
    --------
    argpartition : the positions of the same keys, where these do not tie
    topk, quantile, sort

    Notes
    -----
    Keys at the ranks of long rows in several chunks come from random samples and counts of all keys, as for `quantile`.
    Then only a sort by few buckets is left, in which equal ones keep the order of the input. Rows that fit a chunk are
    partitioned by NumPy. Other rows are sorted: those of strings, records, objects, complex numbers or CuPy chunks, for
    more than 4 ranks (`argpartition`: 16), and where the source does not fit in memory.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5, 1, 7, 3, 2], chunks=2)
    >>> dask_gpusort.partition(x, 2)[2].compute()
    np.int64(3)
    """
    return _partition(a, kth, "keys", axis, kind, order)


def argpartition(
    a: Any,
    kth: int | Sequence[int],
    axis: int | None = -1,
    kind: str = "introselect",
    order: str | Sequence[str] | None = None,
) -> Any:
    """The positions of the keys in a partition of a Dask array, lazily: `numpy.argpartition`.

    Parameters
    ----------
    a, kth, axis, kind, order
        As for `partition`.

    Returns
    -------
    dask array of int64
        Positions along the axis in the whole array. An array without dimensions has one position, as in NumPy.

    Raises
    ------
    ValueError, TypeError, AxisError
        As `partition`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([5, 1, 7, 3, 2], chunks=2)
    >>> dask_gpusort.argpartition(x, 2)[2].compute()
    np.int64(3)
    """
    return _partition(a, kth, "positions", axis, kind, order)


def _partition(a: Any, kth: Any, want: Want, axis: int | None, kind: str, order: str | Sequence[str] | None) -> Any:
    SELECT_KIND.checked(kind)
    array = checked_array(a)
    scalar = want == "positions" and is_scalar_row(array, axis)
    checked = None if scalar else axis_or_none(axis, array.ndim)
    return build_partition(array, checked_kth(kth), want, checked, checked_options(order=order).order)
