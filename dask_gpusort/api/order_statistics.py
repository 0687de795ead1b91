"""Medians, quantiles and percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arguments.arrays import checked_array, in_memory
from ..arguments.checks import checked_axes, checked_labels, checked_weights
from ..arguments.table import IN_PLACE, STRATEGY, STRATEGY_OF_GROUPS, WITH_GROUPS, WITH_MASKED
from ..builders.groups import build_grouped
from ..builders.masked import NUMBERS, build_masked_statistic, is_masked
from ..builders.statistics import build_statistic, build_weighted
from ..table.quantiles import Statistic

Axes = int | Sequence[int] | None


def quantile(
    a: Any,
    q: Any,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
    strategy: str = "auto",
) -> Any:
    """Quantiles of a Dask array, exact and lazy: `numpy.quantile` without a sort of the array.

    Parameters
    ----------
    a : dask array
        NumPy or CuPy chunks of real numbers, dates or time differences. Other arrays are converted by
        `dask.array.asanyarray`. Of Python objects, such as ``Fraction``, NumPy computes whole lanes. NumPy chunks may
        be masked (`numpy.ma`), without `weights` and `by`: then masked elements take no part.
    q : float or array of floats
        Quantiles, from 0 to 1. A list of them costs little more than one. They may be Python objects too: then results
        are exact, of dtype object where NumPy interpolates, and NumPy computes whole lanes.
    axis : int, tuple of int or None, default None
        Axes to reduce, chunked or not; None reduces all of them. Along all axes, chunk sizes may be unknown.
    out, overwrite_input
        For NumPy's signature; a lazy result has no place in memory, and its input is never overwritten.
    method : str
        NumPy's methods: "linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf",
        "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased".
    keepdims : bool, default False
        Whether reduced axes stay, with size 1.
    weights : array_like, optional
        Weights of the elements, not negative, for the method "inverted_cdf" alone: of the shape of `a`, or of its sizes
        along `axis`. Sizes of chunks must be known.
    by : array_like, optional
        Labels, in memory or lazy, of the sizes of `a` along `axis`: numbers, strings, dates. Each distinct label is a
        group, with a quantile of its own. Elements whose label is missing (NaN, NaT, None, pandas.NA) are in no group.
        Not with `weights` or `keepdims`.
    groups : array_like, optional
        The labels that are wanted, distinct, in any order; others are in no group. Without it the groups are all labels
        in sorted order, of whose number a lazy array knows nothing before it is computed.
    window : int, optional
        An odd number: each element is also in the groups of so many neighbours, itself included, by position along the
        one axis. At both ends there are fewer.
    strategy : {"auto", "blocks", "rechunk", "samples"}
        How the quantiles are found; see `explain_quantile`. "samples" searches a few long lanes in two passes over the
        chunks, "rechunk" makes lanes whole in bounded memory, "blocks" takes lanes that are whole in their chunks.
        With weights, "samples" sorts the lanes instead; with `by` it is called "sort".

    Returns
    -------
    dask array
        The shape of `q`, then that of the remaining axes. Values, dtype, and NaN are NumPy's. With `by` there is one
        more dimension, of the groups, at the place of the axis, or of the first of several. A group without elements
        gives NaN or NaT; where there may be such groups, integers become float64. Of a masked array it is masked
        where all elements are.

    Raises
    ------
    ValueError
        If `q` is out of range, the method or the strategy is unknown, or the strategy does not fit the chunks. If the
        shape of the weights does not fit; during the computation, if weights are negative, not finite or all zero.
    TypeError
        If the keys are complex, or have no arithmetic and the method interpolates, as strings and booleans; if `out` or
        `overwrite_input` is given. If the weights have another shape than `a`, and there is no axis.
    numpy.exceptions.AxisError
        If an axis is out of bounds.

    See Also
    --------
    nanquantile : without NaN
    explain_quantile : how it is computed, before anything runs

    Notes
    -----
    With "samples", counts of all keys check the brackets that the samples give. If a source changes between the two
    passes over it, or with a probability of 1e-15 if a sample misleads, RuntimeError is raised during the computation.

    Sums of weights are NumPy's for whole lanes. For lanes that are sorted, sums of chunks are added in float64: where
    these are not exact, unlike those of integers, their last bits can differ from NumPy's, and so can a quantile that
    is equal to the share of a sum. So too where equal keys have different weights, or where NaN are skipped.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> dask_gpusort.quantile(da.arange(12, chunks=2), [0.25, 0.5]).compute()
    array([2.75, 5.5 ])
    >>> dask_gpusort.quantile(da.arange(6, chunks=2), 0.5, by=["b", "a", "b", "a", "a", "c"]).compute()
    array([3., 1., 5.])
    """
    IN_PLACE.refuse(out=out, overwrite_input=bool(overwrite_input))
    return _reduce(a, _quantiles(q, method), axis, keepdims, strategy, weights, (by, groups, window))


def nanquantile(
    a: Any,
    q: Any,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
    strategy: str = "auto",
) -> Any:
    """Quantiles of a Dask array without its NaN, exact and lazy: `numpy.nanquantile`.

    Parameters
    ----------
    a, q, axis, out, overwrite_input, method, keepdims, weights, by, groups, window, strategy
        As for `quantile`.

    Returns
    -------
    dask array
        As `quantile`; NaN, with a warning during the computation, where there are NaN alone.

    Raises
    ------
    ValueError, TypeError, AxisError
        As `quantile`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([1.0, float("nan"), 3.0, 5.0], chunks=2)
    >>> dask_gpusort.nanquantile(x, [0.5, 1.0]).compute()
    array([3., 5.])
    """
    IN_PLACE.refuse(out=out, overwrite_input=bool(overwrite_input))
    return _reduce(a, _quantiles(q, method, skip_nan=True), axis, keepdims, strategy, weights, (by, groups, window))


def percentile(
    a: Any,
    q: Any,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
    strategy: str = "auto",
) -> Any:
    """Percentiles of a Dask array, exact and lazy: `numpy.percentile`.

    Parameters
    ----------
    a, axis, out, overwrite_input, method, keepdims, weights, by, groups, window, strategy
        As for `quantile`.
    q : float or array of floats
        Percentiles, from 0 to 100.

    Returns
    -------
    dask array
        As `quantile`.

    Raises
    ------
    ValueError, TypeError, AxisError
        As `quantile`.

    Notes
    -----
    `dask.array.percentile` is approximate, and takes one-dimensional arrays alone.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([[0, 10, 20], [2, 4, 6]], chunks=(1, 2))
    >>> dask_gpusort.percentile(x, 75, axis=1).compute()
    array([15.,  5.])
    """
    IN_PLACE.refuse(out=out, overwrite_input=bool(overwrite_input))
    return _reduce(a, _quantiles(q, method, percent=True), axis, keepdims, strategy, weights, (by, groups, window))


def nanpercentile(
    a: Any,
    q: Any,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
    strategy: str = "auto",
) -> Any:
    """Percentiles of a Dask array without its NaN, exact and lazy: `numpy.nanpercentile`.

    Parameters
    ----------
    a, axis, out, overwrite_input, method, keepdims, weights, by, groups, window, strategy
        As for `quantile`.
    q : float or array of floats
        Percentiles, from 0 to 100.

    Returns
    -------
    dask array
        As `nanquantile`.

    Raises
    ------
    ValueError, TypeError, AxisError
        As `quantile`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([[0.0, float("nan"), 20.0], [2.0, 4.0, 6.0]], chunks=(1, 2))
    >>> dask_gpusort.nanpercentile(x, 75, axis=1).compute()
    array([15.,  5.])
    """
    IN_PLACE.refuse(out=out, overwrite_input=bool(overwrite_input))
    statistic = _quantiles(q, method, skip_nan=True, percent=True)
    return _reduce(a, statistic, axis, keepdims, strategy, weights, (by, groups, window))


def median(
    a: Any,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
    *,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
    strategy: str = "auto",
) -> Any:
    """The median of a Dask array, exact and lazy: `numpy.median` without a sort of the array.

    Parameters
    ----------
    a, axis, out, overwrite_input, keepdims, by, groups, window, strategy
        As for `quantile`. The keys may be complex too.

    Returns
    -------
    dask array
        The shape of the remaining axes.

    Raises
    ------
    ValueError, TypeError, AxisError
        As `quantile`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> float(dask_gpusort.median(da.arange(12, chunks=2)))
    5.5
    """
    IN_PLACE.refuse(out=out, overwrite_input=bool(overwrite_input))
    return _reduce(a, Statistic.median(), axis, keepdims, strategy, None, (by, groups, window))


def nanmedian(
    a: Any,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
    *,
    by: Any = None,
    groups: Any = None,
    window: int | None = None,
    strategy: str = "auto",
) -> Any:
    """The median of a Dask array without its NaN, exact and lazy: `numpy.nanmedian`.

    Parameters
    ----------
    a, axis, out, overwrite_input, keepdims, by, groups, window, strategy
        As for `quantile`. The keys may be complex too.

    Returns
    -------
    dask array
        As `median`; NaN, with a warning during the computation, where there are NaN alone.

    Raises
    ------
    ValueError, TypeError, AxisError
        As `quantile`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.from_array([1.0, float("nan"), 3.0, 8.0], chunks=2)
    >>> float(dask_gpusort.nanmedian(x))
    3.0
    """
    IN_PLACE.refuse(out=out, overwrite_input=bool(overwrite_input))
    return _reduce(a, Statistic.median(skip_nan=True), axis, keepdims, strategy, None, (by, groups, window))


def _quantiles(q: Any, method: str, **options: bool) -> Statistic:
    return Statistic.quantiles(in_memory(q, "q"), method, **options)


def _reduce(
    a: Any,
    statistic: Statistic,
    axis: Axes,
    keepdims: bool,
    strategy: str,
    weights: Any,
    grouping: tuple[Any, Any, Any],
) -> Any:
    array = checked_array(a, masked="" if statistic.objects else NUMBERS)
    axes = checked_axes(axis, array.ndim)
    labels = checked_labels(*grouping, array, axis)
    if labels is not None:
        WITH_GROUPS.refuse(keepdims=bool(keepdims), weights=weights)
        WITH_MASKED.refuse(by=is_masked(array))
        return build_grouped(array, statistic, axes, labels, STRATEGY_OF_GROUPS.checked(strategy))
    if array.size == 0 and statistic.skip_nan:
        statistic, weights = Statistic.median(skip_nan=True), None  # of nothing, NumPy gives a mean for any `q`
    if statistic.q is not None and any(array.shape[dim] == 0 for dim in axes):
        raise IndexError("index -1 is out of bounds for axis 0 with size 0: a has no elements along the reduced axes")
    how = axes, bool(keepdims), STRATEGY.checked(strategy)
    build = build_masked_statistic if is_masked(array) else build_statistic
    if weights is None:
        return build(array, statistic, *how)
    WITH_MASKED.refuse(weights=is_masked(array))
    checked = checked_weights(weights, array, axis, statistic.method)
    return build_weighted(array, checked, statistic, *how)
