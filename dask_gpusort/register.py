"""Opt-in: make the sorts and the order statistics of NumPy and `dask.array` use this package."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da
import numpy as np

from . import api
from .arguments import refuse_in_place
from .graph._dask import is_valid_chunk_type

#: What was replaced, by its owner and its name, `_MISSING` if there was nothing; and what stands in its place.
_replaced: dict[tuple[Any, str], tuple[Any, Any]] = {}
_MISSING = object()
_lock = threading.Lock()


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


def _unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """`numpy.unique` for Dask arrays; see `dask_gpusort.unique`."""
    return api.unique(ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan, sorted=sorted)


def _take_of_dask(a: Any, indices: Any, axis: int | None = 0) -> Any:
    """`dask.array.take`; see `dask_gpusort.take`."""
    return api.take(a, indices, axis)


def _median_of_dask(a: Any, axis: Any = None, keepdims: bool = False, out: None = None, **options: Any) -> Any:
    """`dask.array.median`, exact along any axes; see `dask_gpusort.median`."""
    return api.median(a, axis, out, keepdims=keepdims, **options)


def _nanmedian_of_dask(a: Any, axis: Any = None, keepdims: bool = False, out: None = None, **options: Any) -> Any:
    """`dask.array.nanmedian`, exact along any axes; see `dask_gpusort.nanmedian`."""
    return api.nanmedian(a, axis, out, keepdims=keepdims, **options)


def _percentile_of_dask(
    a: Any, q: Any, method: str = "linear", internal_method: str = "default", *, axis: Any = None, **options: Any
) -> Any:
    """`dask.array.percentile`, exact: `internal_method`, an approximation, has no effect."""
    return api.percentile(a, q, axis, method=method, **options)


#: What NumPy's functions of these names call for Dask arrays: functions with NumPy's own arguments.
_OF_NUMPY: dict[str, Callable[..., Any]] = {
    "sort": _sort,
    "argsort": _argsort,
    "lexsort": _lexsort,
    "take": _take,
    "unique": _unique,
    **{
        function.__name__: function
        for function in (
            api.partition,
            api.argpartition,
            api.median,
            api.nanmedian,
            api.quantile,
            api.nanquantile,
            api.percentile,
            api.nanpercentile,
            api.searchsorted,
            api.isin,
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
    },
}
#: What is put into `dask.array`: functions with Dask's own arguments, or NumPy's if Dask has no such function.
_OF_DASK: dict[str, Callable[..., Any]] = {
    **_OF_NUMPY,
    "take": _take_of_dask,
    "median": _median_of_dask,
    "nanmedian": _nanmedian_of_dask,
    "percentile": _percentile_of_dask,
}
_BY_FUNCTION = {getattr(np, name): function for name, function in _OF_NUMPY.items()}


def _array_function(previous: Callable[..., Any]) -> Callable[..., Any]:
    """`dask.array.Array.__array_function__`, by which NumPy's functions call those of `_OF_NUMPY`.

    Dask's own calls the function of the same name in `dask.array`, whose arguments can be others than NumPy's.
    """

    @functools.wraps(previous)
    def array_function(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = _BY_FUNCTION.get(func) if _replaced else None  # others may have wrapped this method
        if function is None or not all(issubclass(type(self), each) or is_valid_chunk_type(each) for each in types):
            return previous(self, func, types, args, kwargs)
        return function(*args, **kwargs)

    return array_function


def register() -> None:
    """Make functions of NumPy lazy and exact for Dask arrays, and put them into `dask.array`.

    These are `sort`, `argsort`, `lexsort`, `partition`, `argpartition`; `median`, `quantile`, `percentile` and their
    twins that skip NaN; `searchsorted`, `isin`, `unique` and its kind, the set functions; `take`, `take_along_axis`.
    What calls NumPy's functions then uses this package too, such as xarray's `median` and `quantile` of Dask arrays.
    Without it NumPy's sorts compute the whole array, with a warning, and Dask's quantiles are approximate or need whole
    lanes. A repeated call has no effect. For `lexsort`, NumPy recognises Dask arrays in a tuple of keys, but not in a
    list.

    Functions of `dask.array` keep Dask's arguments, and those of NumPy have NumPy's: the third one of
    `dask.array.median` is `keepdims`, that of `numpy.median` is `out`.

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
    with _lock:
        if _replaced:
            return
        try:
            for name, function in _OF_DASK.items():
                _replace(da, name, function)
            _replace(da.Array, "__array_function__", _array_function(da.Array.__array_function__))
        except BaseException:
            _restore()
            raise


def unregister() -> None:
    """Undo `register`; what others have put in place of its functions since then stays.

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
    with _lock:
        _restore()


def _replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
    _replaced[owner, name] = vars(owner).get(name, _MISSING), function
    setattr(owner, name, function)


def _restore() -> None:
    for (owner, name), (previous, function) in list(_replaced.items()):
        if vars(owner).get(name) is function:
            if previous is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, previous)
        del _replaced[owner, name]
