"""The public functions that tell the plan of another one, before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..graph.explain import explained
from ..graph.explanation import Explanation
from . import order_statistics, positions, ranks, search, sets, sorts, stores


def explain(function: Any = None, /, *arguments: Any, detail: bool = False, **options: Any) -> Explanation:
    """What a call of a function will do, before anything runs.

    Parameters
    ----------
    function : function of this package, or dask array
        The function whose call is explained; an array, which is sorted.
    *arguments, **options
        Its arguments, as in the call.
    detail : bool, default False
        Whether the printed text has all decisions, too.

    Returns
    -------
    Explanation
        Printed in a few lines: whether the memory suffices, how often the source is read, tasks, and how elements
        leave their chunks. Its attribute `detail` has all decisions, a line each.

    Raises
    ------
    TypeError
        If the function is none of this package, or makes no Dask array.
    AxisError, IndexError, TypeError, ValueError
        As the function.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.zeros(10_000_000, chunks=1_000_000)
    >>> dask_gpusort.explain(x).fits
    True
    >>> print(dask_gpusort.explain(dask_gpusort.argsort, x, descending=True).detail)  # doctest: +ELLIPSIS
    keys      float64, descending, stable
    path      ...
    exchange  gather
    cost      ... read and written, 0 messages, ... counted
    steps     sort-local ..., sort-merge ...
    """
    if not callable(function):  # the array of a sort, which may be given by its name too
        arguments = () if function is None else (function, *arguments)
        function = sorts.sort
    if not str(getattr(function, "__module__", "")).startswith(__package__) or not hasattr(function, "__name__"):
        raise TypeError(f"function must be one of dask_gpusort, or give an array to sort, not {function!r}")
    if function is stores.to_zarr:  # which would write
        raise TypeError("function must not be to_zarr, which has no plan: explain the function that makes its array")
    return explained(function, *arguments, detail=detail, **options)


def _as(function: Callable[..., Any]) -> Callable[[Callable[..., Explanation]], Callable[..., Explanation]]:
    """Show the parameters of a function, and `detail`, as those of the one that explains it."""

    def shown(explains: Callable[..., Explanation]) -> Callable[..., Explanation]:
        detail = inspect.Parameter("detail", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")
        own = inspect.signature(function)
        parameters = [*own.parameters.values(), detail]
        explains.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=parameters, return_annotation="Explanation"
        )
        return explains

    return shown


@_as(order_statistics.quantile)
def explain_quantile(a: Any, q: Any = 0.5, *arguments: Any, **options: Any) -> Explanation:
    """What `quantile` and the like will do; see `explain`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.zeros((365, 300, 400), chunks=(10, 300, 400))
    >>> print(dask_gpusort.explain_quantile(x, 0.5, axis=0).detail)
    lanes     120,000 of 365 keys, each in 37 chunks
    strategy  rechunk: so that lanes are whole, then a row kernel on each chunk
    moves     every key once, 334.17 MiB, and what is found of it
    steps     reduce-lanes 72.00 MiB
    """
    return explain(order_statistics.quantile, a, q, *arguments, **options)


@_as(ranks.rank)
def explain_rank(*arguments: Any, **options: Any) -> Explanation:
    r"""What `rank` will do; see `explain`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.zeros(1000, chunks=1000)
    >>> print(*dask_gpusort.explain_rank(x).detail.splitlines()[:2], sep="\n")
    lanes     1 of 1,000 keys, each in 1 chunk
    strategy  blocks: lanes are whole in their chunks
    """
    return explain(ranks.rank, *arguments, **options)


@_as(sets.unique)
def explain_unique(*arguments: Any, **options: Any) -> Explanation:
    r"""What `unique` will do; see `explain`. With an axis, a key is a subarray.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.zeros(1000, chunks=1000)
    >>> print(*dask_gpusort.explain_unique(x).detail.splitlines()[:2], sep="\n")
    keys      1,000 in 1 chunk
    strategy  blocks: lanes are whole in their chunks
    """
    return explain(sets.unique, *arguments, **options)


@_as(search.searchsorted)
def explain_searchsorted(*arguments: Any, **options: Any) -> Explanation:
    r"""What `searchsorted` will do, of the keys `a` and the needles `v`; see `explain`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> a = da.arange(4000, chunks=1000)
    >>> v = da.zeros(4000, chunks=4000)
    >>> print(*dask_gpusort.explain_searchsorted(a, v).detail.splitlines()[:2], sep="\n")
    keys      31.25 kiB in 4 chunks
    needles   31.25 kiB in 1 chunk
    """
    return explain(search.searchsorted, *arguments, **options)


@_as(search.isin)
def explain_isin(*arguments: Any, **options: Any) -> Explanation:
    r"""What `isin` will do, of the keys `test_elements` and the needles `element`; see `explain`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.zeros(4000, chunks=1000)
    >>> test = da.arange(4000, chunks=1000)
    >>> print(*dask_gpusort.explain_isin(x, test).detail.splitlines()[:3], sep="\n")
    keys      31.25 kiB in 4 chunks
    needles   31.25 kiB in 4 chunks
    strategy  join: all keys are one array, because they are few
    """
    return explain(search.isin, *arguments, **options)


@_as(positions.take)
def explain_take(*arguments: Any, **options: Any) -> Explanation:
    r"""What `take` will do; see `explain`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.zeros(1000, chunks=1000)
    >>> indices = da.arange(4000, chunks=1000)
    >>> print(*dask_gpusort.explain_take(x, indices).detail.splitlines()[:3], sep="\n")
    lanes     1 of 1,000 elements, in 1 chunk
    indices   4,000
    strategy  blocks: lanes are whole in their chunks
    """
    return explain(positions.take, *arguments, **options)


@_as(positions.take_along_axis)
def explain_take_along_axis(*arguments: Any, **options: Any) -> Explanation:
    r"""What `take_along_axis` will do; an exchange is that of one lane. See `explain`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> x = da.zeros(1000, chunks=1000)
    >>> indices = da.arange(4000, chunks=1000)
    >>> print(*dask_gpusort.explain_take_along_axis(x, indices).detail.splitlines()[:3], sep="\n")
    lanes     1 of 1,000 elements, in 1 chunk
    indices   4,000
    strategy  blocks: lanes are whole in their chunks
    """
    return explain(positions.take_along_axis, *arguments, **options)
