"""What `register` puts into other libraries: functions with the arguments of each."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from .. import api
from ..arguments.table import IN_PLACE
from ..graph._dask import is_valid_chunk_type
from . import scipy_stats

#: Tells whether a call of `register` still wants this: others may have wrapped what was put in place.
IsWanted = Callable[[], bool]
#: An object, the name of one of its attributes, and what is put there.
Replacement = tuple[Any, str, Any]


def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """`numpy.take`; see `dask_gpusort.take`."""
    IN_PLACE.refuse(out=out)
    return api.take(a, indices, axis, mode)


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
    function.__name__.removeprefix("_"): function
    for function in (
        api.sort,
        api.argsort,
        api.lexsort,
        api.partition,
        api.argpartition,
        api.median,
        api.nanmedian,
        api.quantile,
        api.nanquantile,
        api.percentile,
        api.nanpercentile,
        api.searchsorted,
        api.interp,
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
        _take,
        api.take_along_axis,
    )
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


def _sort_of_array_api(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """`sort` of the array API; see `dask_gpusort.sort`."""
    return api.sort(x, axis, stable=stable, descending=descending)


def _argsort_of_array_api(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """`argsort` of the array API; see `dask_gpusort.argsort`."""
    return api.argsort(x, axis, stable=stable, descending=descending)


def _take_of_array_api(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """`take` of the array API; see `dask_gpusort.take`."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"axis must be given for an array of {x.ndim} dimensions")
    return api.take(x, indices, axis)


def _take_along_axis_of_array_api(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """`take_along_axis` of the array API; see `dask_gpusort.take_along_axis`."""
    return api.take_along_axis(x, indices, axis)


#: What is put into namespaces of the array API; functions that are not of this standard have Dask's arguments.
_OF_ARRAY_API: dict[str, Callable[..., Any]] = {
    **_OF_DASK,
    "sort": _sort_of_array_api,
    "argsort": _argsort_of_array_api,
    "take": _take_of_array_api,
    "take_along_axis": _take_along_axis_of_array_api,
}


def _array_function(previous: Callable[..., Any], is_wanted: IsWanted) -> Callable[..., Any]:
    """`dask.array.Array.__array_function__`, by which NumPy's functions call those of `_OF_NUMPY`.

    Dask's own calls the function of the same name in `dask.array`, whose arguments can be others than NumPy's.
    """

    @functools.wraps(previous)
    def array_function(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = _BY_FUNCTION.get(func) if is_wanted() else None
        if function is None or not all(issubclass(type(self), each) or is_valid_chunk_type(each) for each in types):
            return previous(self, func, types, args, kwargs)
        return function(*args, **kwargs)

    return array_function


def _of_groups(previous: Callable[..., Any], is_wanted: IsWanted) -> Callable[..., Any]:
    """A method of xarray's groups, exact and lazy for Dask arrays along any chunks."""

    @functools.wraps(previous)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        if not is_wanted():
            return previous(self, *args, **options)
        from .labelled_groups import reduce_groups  # xarray need not be installed

        return reduce_groups(previous, self, *args, **options)

    return method


def _for_dask(module: ModuleType, is_wanted: IsWanted) -> Iterator[Replacement]:
    for name, function in _OF_DASK.items():
        yield module, name, function
    yield module.Array, "__array_function__", _array_function(module.Array.__array_function__, is_wanted)


def _for_array_api(module: ModuleType, is_wanted: IsWanted) -> Iterator[Replacement]:
    for name, function in _OF_ARRAY_API.items():
        yield module, name, function


def _for_groups(module: ModuleType, is_wanted: IsWanted) -> Iterator[Replacement]:
    for each in ("DataArrayGroupBy", "DatasetGroupBy", "DataArrayResample", "DatasetResample"):
        if owner := vars(module).get(each):
            for name in ("median", "quantile"):
                yield owner, name, _of_groups(getattr(owner, name), is_wanted)


def _for_scipy(module: ModuleType, is_wanted: IsWanted) -> Iterator[Replacement]:
    # Without its variable of the environment SciPy takes Dask arrays for arrays of NumPy; 1.17 has `spearmanrho` first.
    switched_on = getattr(sys.modules.get("scipy._lib._array_api"), "SCIPY_ARRAY_API", False)
    for name in scipy_stats.NAMES if switched_on and hasattr(module, "spearmanrho") else ():
        function = getattr(module, name, None) or getattr(module._stats_py, name)
        if not hasattr(function, "__signature__"):  # which is told from the code
            yield function, "__signature__", inspect.signature(function)
        yield function, "__code__", scipy_stats.serving(function)


class Target(NamedTuple):
    """Replacements in each module of these names; one that begins with a dot is the end of a name."""

    modules: tuple[str, ...]
    replacements: Callable[[ModuleType, IsWanted], Iterator[Replacement]]
    #: Other targets without which this one does not work.
    needs: tuple[str, ...] = ()

    def concerns(self, name: str) -> bool:
        """Tell whether a module of this name is one of the target's."""
        return any(name.endswith(each) if each.startswith(".") else name == each for each in self.modules)


#: What `register` knows, by its names.
TARGETS = {
    "numpy": Target(("dask.array", "dask_array"), _for_dask),
    "array_api_compat": Target(("array_api_compat.dask.array", ".array_api_compat.dask.array"), _for_array_api),
    "scipy": Target(("scipy.stats",), _for_scipy, ("array_api_compat",)),
    "flox": Target(("xarray.core.groupby", "xarray.core.resample"), _for_groups),
}
