"""The public functions that join arrays by their elements; they check their arguments, then make the graph."""

from __future__ import annotations

from typing import Any

from ..arguments.arrays import checked_sides
from ..arguments.joins import checked_as_of, checked_labels_of_both, checked_values_of
from ..builders.as_of import build_as_of


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
