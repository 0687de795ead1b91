"""The public functions that join arrays by their elements; they check their arguments, then make the graph."""

from __future__ import annotations

from typing import Any

from ..arguments.arrays import checked_sides
from ..arguments.joins import checked_as_of, checked_join, checked_labels_of_both, checked_values_of
from ..arguments.table import HOW
from ..builders.as_of import build_as_of
from ..builders.pairs import build_pairs


def join_indices(left: Any, right: Any, how: str = "inner") -> tuple[Any, ...]:
    """Rows of two Dask arrays, or of several, whose elements are equal, lazily: an equi-join, many to many.

    Parameters
    ----------
    left : dask array, shape (n,), or sequence of dask arrays, shape (n,) each
        Numbers of at most 64 bits, dates, bytes or strings of fixed width. Rows of several arrays are equal if their
        elements are in each array; these must have NumPy chunks.
    right : dask array, shape (m,), or sequence of dask arrays, shape (m,) each
        As many arrays. Dtypes may be others than those of `left` if their elements can be equal.
    how : {"inner", "left", "right", "outer"}
        Whether rows that are in no pair are left out, or kept from one side or from both.

    Returns
    -------
    tuple of two dask arrays of int64, shape (pairs,)
        Rows of `left` and rows of `right`, of the same chunks, whose sizes are unknown until they are computed. A row
        that is in no pair has -1 beside it. They ascend by the row of `left`, then by that of `right`, as those of
        ``pandas.merge`` with ``sort=False``; with "right" the other way round. With "outer" the rows of `right` that
        are in no pair follow, ascending, where pandas sorts all.

    Raises
    ------
    ValueError
        If an array has another number of dimensions than one, or unknown chunk sizes; if arrays of one side differ in
        size, or the sides in their number of arrays; if `how` is unknown.
    TypeError
        If dtypes cannot be equal, or are no numbers, dates or strings; if the chunks are of different libraries; if
        there are several arrays of CuPy chunks.

    See Also
    --------
    take : elements of other arrays at the rows
    merge_asof : joins by the nearest element

    Notes
    -----
    Missing elements, NaN and NaT, equal each other, as in pandas. Integers and floats are compared as floats.

    Each chunk of `left` makes one chunk of the result; with "right" each of `right`, with "outer" each of both. A chunk
    of elements that occur often on the other side makes a large one, which `explain` cannot count; smaller chunks help.
    `take` reads the last row for -1: replace what is read there.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> readings, stations = da.from_array([7, 3, 7, 5], chunks=2), da.from_array([3, 7, 7, 9], chunks=2)
    >>> dask.compute(*dask_gpusort.join_indices(readings, stations))
    (array([0, 0, 1, 2, 2]), array([1, 2, 0, 1, 2]))
    >>> dask.compute(*dask_gpusort.join_indices(readings, stations, "outer"))
    (array([ 0,  0,  1,  2,  2,  3, -1]), array([ 1,  2,  0,  1,  2, -1,  3]))
    """
    how = HOW.checked(how)
    return build_pairs(*checked_join(left, right), how)


def merge_asof(
    left: Any,
    right: Any,
    values: Any = None,
    by: Any = None,
    *,
    direction: str = "backward",
    tolerance: Any = None,
    allow_exact_matches: bool = True,
) -> Any:
    """Values at the nearest elements of a Dask array for each of another one, lazily: ``pandas.merge_asof``.

    Parameters
    ----------
    left : dask array
        Numbers or dates, in any order, of any shape and chunks.
    right : dask array, shape (n,)
        Numbers or dates, in ascending order, NaN last; with `by` in any order.
    values : dask array or sequence of dask arrays, shape (n, ...), optional
        What there is at the elements of `right`. Without it the result is rows of `right`.
    by : pair of dask arrays or array_like, optional
        Labels of `left` and of `right`, of their shapes: numbers, dates or strings. An element is joined with one of
        the same label. Missing labels equal each other. For NumPy chunks.
    direction : {"backward", "forward", "nearest"}
        Whether the last element of `right` that is not greater is taken, the first one that is not less, or of these
        two the nearer one, of two that are as near the first.
    tolerance : number or numpy.timedelta64, optional
        The greatest distance, of dates a time difference.
    allow_exact_matches : bool, default True
        Whether elements that are equal are joined.

    Returns
    -------
    dask array, or tuple of dask arrays
        The values, of the shape and the chunks of `left`, and behind them of the other dimensions of `values`; a tuple
        for a sequence. Where no element is near, they are NaN or NaT, so integers and booleans become float64. Without
        `values` rows of `right` (int64), and -1.

    Raises
    ------
    ValueError
        If `right` has another number of dimensions than one, or unknown chunk sizes; if the shapes of `values` or `by`
        do not fit; if `direction` is unknown, or `tolerance` negative.
    TypeError
        If `left` and `right` are no numbers or dates, or the labels cannot be equal; if `values` have no NaN, as
        strings; if `tolerance` is no difference of `left` and `right`.

    See Also
    --------
    searchsorted : all positions of equal elements
    take : values at rows

    Notes
    -----
    NaN are joined with nothing; pandas refuses them. The values are read at the rows that a search has found, so a
    cluster moves each element of `left` twice, and three times with `tolerance`, `by` or another direction.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> trades, quotes = da.from_array([1, 5, 10], chunks=2), da.from_array([1, 2, 3, 6, 7], chunks=2)
    >>> bid = da.from_array([11.0, 12.0, 13.0, 16.0, 17.0], chunks=5)
    >>> dask_gpusort.merge_asof(trades, quotes, bid).compute()
    array([11., 13., 17.])
    >>> dask_gpusort.merge_asof(trades, quotes, bid, direction="forward").compute()
    array([11., 16., nan])
    >>> dask_gpusort.merge_asof(trades, quotes, by=(["a", "a", "b"], ["a", "a", "b", "a", "a"])).compute()
    array([0, 1, 2])
    """
    first, second = checked_sides(left, right, ("left", "right"))
    as_of = checked_as_of(first, second, direction, tolerance, bool(allow_exact_matches))
    moved, several = checked_values_of(values, second)
    labels = checked_labels_of_both(by, first, second)
    found = build_as_of(first, second, moved, labels, as_of)
    return found if several else found[0]
