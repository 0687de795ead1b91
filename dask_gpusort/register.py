"""Opt-in: make the sorts and the order statistics of NumPy and `dask.array` use this package."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da

from . import api
from .arguments import refuse_in_place

_previous: dict[str, Any] = {}


def _sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> Any:
    """`numpy.sort` for Dask arrays; see `dask_gpusort.sort`."""
    return api.sort(a, axis, kind=kind, order=order, stable=stable, descending=descending)


def _argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: str | Sequence[str] | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> Any:
    """`numpy.argsort` for Dask arrays; see `dask_gpusort.argsort`."""
    return api.argsort(a, axis, kind=kind, order=order, stable=stable, descending=descending)


def _lexsort(keys: Any, axis: int = -1) -> Any:
    """`numpy.lexsort` for Dask arrays; see `dask_gpusort.lexsort`."""
    return api.lexsort(keys, axis)


def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """`numpy.take` for Dask arrays; see `dask_gpusort.take`."""
    refuse_in_place("take", out, None)
    return api.take(a, indices, axis, mode)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """One of NumPy's reductions for Dask arrays; arguments that only Dask's own function has are dropped.

    `dask.array.percentile` takes `internal_method`, the name of an approximation; exact quantiles need none.
    """

    @functools.wraps(function)
    def reduction(*args: Any, internal_method: str | None = None, **options: Any) -> Any:
        return function(*args, **options)

    return reduction


_SORTS = {
    "sort": _sort,
    "argsort": _argsort,
    "lexsort": _lexsort,
    "partition": api.partition,
    "argpartition": api.argpartition,
}
_REDUCTIONS = (api.median, api.nanmedian, api.quantile, api.nanquantile, api.percentile, api.nanpercentile)
#: Functions with NumPy's own arguments.
_SAME = (
    api.searchsorted,
    api.isin,
    api.unique,
    api.unique_all,
    api.unique_counts,
    api.unique_inverse,
    api.unique_values,
    api.union1d,
    api.intersect1d,
    api.setdiff1d,
    api.setxor1d,
    api.take_along_axis,
)
_OURS = {
    **_SORTS,
    "take": _take,
    **{function.__name__: function for function in _SAME},
    **{function.__name__: _reduction(function) for function in _REDUCTIONS},
}


def register() -> None:
    """Make functions of NumPy lazy and exact for Dask arrays, and put them into `dask.array`.

    These are `sort`, `argsort`, `lexsort`, `partition`, `argpartition`; `median`, `quantile`, `percentile` and their
    twins that skip NaN; `searchsorted`, `isin`, `unique` and its kind, the set functions; `take`, `take_along_axis`.
    What calls NumPy's functions then uses this package too, such as xarray's `median` and `quantile` of Dask arrays.
    Without it NumPy's sorts compute the whole array, with a warning, and Dask's quantiles are approximate or need whole
    lanes. A repeated call has no effect. For `lexsort`, NumPy recognises Dask arrays in a tuple of keys, but not in a
    list. `take` without an axis flattens the array, as in NumPy, where `dask.array.take` uses the first axis.

    See Also
    --------
    unregister

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import dask_gpusort
    >>> dask_gpusort.register()
    >>> ordered = np.sort(da.from_array([3, 1, 2], chunks=2))
    >>> ordered.chunks
    ((2, 1),)
    >>> ordered.compute()
    array([1, 2, 3])
    >>> dask_gpusort.unregister()
    """
    for name, function in _OURS.items():
        if name not in _previous:
            # NumPy calls Dask, which looks up the function's name in dask.array.
            _previous[name] = getattr(da, name, None)
            setattr(da, name, function)


def unregister() -> None:
    """Undo `register`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> before = da.median
    >>> dask_gpusort.register()
    >>> da.median is before
    False
    >>> dask_gpusort.unregister()
    >>> da.median is before
    True
    """
    for name, previous in list(_previous.items()):
        if previous is None:
            delattr(da, name)
        else:
            setattr(da, name, previous)
        del _previous[name]
