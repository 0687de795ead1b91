"""Opt-in: make the sorts and the order statistics of other libraries use this package."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from dask.base import is_dask_collection

from . import api
from .arguments import refuse_in_place
from .config import setting
from .graph._dask import is_valid_chunk_type

_MISSING = object()


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


def _array_function(previous: Callable[..., Any]) -> Callable[..., Any]:
    """`dask.array.Array.__array_function__`, by which NumPy's functions call those of `_OF_NUMPY`.

    Dask's own calls the function of the same name in `dask.array`, whose arguments can be others than NumPy's.
    """

    @functools.wraps(previous)
    def array_function(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = _BY_FUNCTION.get(func) if _wanted["numpy"] else None  # others may have wrapped this method
        if function is None or not all(issubclass(type(self), each) or is_valid_chunk_type(each) for each in types):
            return previous(self, func, types, args, kwargs)
        return function(*args, **kwargs)

    return array_function


@functools.cache
def _warn_of_flox() -> None:
    """Warn once in a process that groups do not go to flox."""
    warnings.warn(
        "dask_gpusort.register: medians and quantiles of groups of Dask arrays are computed by xarray without flox, "
        "exactly and along any chunks; call unregister, or register without the name 'flox', to use flox",
        UserWarning,
        stacklevel=5,
    )


def _flox_reduce(previous: Callable[..., Any]) -> Callable[..., Any]:
    """`_flox_reduce` of xarray's groups, which leaves medians and quantiles of Dask arrays to xarray's own loop.

    This does what `xarray.set_options(use_flox=False)` does, without an option of the whole process.
    """

    @functools.wraps(previous)
    def flox_reduce(self: Any, dim: Any, keep_attrs: bool | None = None, **kwargs: Any) -> Any:
        func, source = kwargs.get("func"), self._obj
        variables = source.data_vars.values() if hasattr(source, "data_vars") else [source]
        lazy = any(is_dask_collection(one.variable) for one in variables)
        if not _wanted["flox"] or func not in ("median", "quantile") or not lazy or getattr(self, "_by_chunked", False):
            return previous(self, dim, keep_attrs, **kwargs)
        _warn_of_flox()
        # Arguments of flox alone: xarray adds `method` for medians.
        options = {key: value for key, value in kwargs.items() if key not in ("func", "method", "engine", "reindex")}
        if func == "median":
            from xarray.core.duck_array_ops import median

            return self.reduce(median, dim=dim, keep_attrs=keep_attrs, **options)
        dim = (self._group_dim,) if dim is None else dim
        return self.map(type(source).quantile, shortcut=False, dim=dim, keep_attrs=keep_attrs, **options)

    return flox_reduce


#: An object, the name of one of its attributes, and what is put there.
_Replacement = tuple[Any, str, Callable[..., Any]]


def _for_dask(module: ModuleType) -> Iterator[_Replacement]:
    for name, function in _OF_DASK.items():
        yield module, name, function
    yield module.Array, "__array_function__", _array_function(module.Array.__array_function__)


def _for_array_api(module: ModuleType) -> Iterator[_Replacement]:
    for name, function in _OF_ARRAY_API.items():
        yield module, name, function


def _for_flox(module: ModuleType) -> Iterator[_Replacement]:
    owner = getattr(module, "GroupBy" if module.__name__.endswith("groupby") else "Resample", None)
    if previous := vars(owner).get("_flox_reduce") if owner else None:
        yield owner, "_flox_reduce", _flox_reduce(previous)


class _Target(NamedTuple):
    """Replacements in each module of these names; one that begins with a dot is the end of a name."""

    modules: tuple[str, ...]
    replacements: Callable[[ModuleType], Iterator[_Replacement]]

    def concerns(self, name: str) -> bool:
        """Tell whether a module of this name is one of the target's."""
        return any(name.endswith(each) if each.startswith(".") else name == each for each in self.modules)


#: What `register` knows, by its names.
_TARGETS = {
    "numpy": _Target(("dask.array", "dask_array"), _for_dask),
    "array_api_compat": _Target(("array_api_compat.dask.array", ".array_api_compat.dask.array"), _for_array_api),
    "flox": _Target(("xarray.core.groupby", "xarray.core.resample"), _for_flox),
}


class Replaced(NamedTuple):
    """A function that `register` has replaced."""

    name: str
    old: Any
    new: Any


class ReplacedFunctions(list[Replaced]):
    """Functions that `register` has replaced; they print as a table."""

    def __repr__(self) -> str:
        rows = [(one.name, _name_of(one.old), _name_of(one.new)) for one in self]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _name_of(function: Any) -> str:
    return "-" if function is None else f"{function.__module__}.{getattr(function, '__qualname__', function)}"


#: How many calls of `register` want each target; each `unregister` makes a new one.
_wanted: Counter[str] = Counter()
#: Pairs of a target and a module that have been replaced.
_reached: set[tuple[str, str]] = set()
#: For each object and name: the target, what was there (`_MISSING` for nothing), and what stands in its place.
_replaced: dict[tuple[Any, str], tuple[str, Any, Any]] = {}
_lock = threading.Lock()


class Registration:
    """What `register` returns: a context manager that takes its call back at exit."""

    def __init__(self, wanted: Counter[str], names: Sequence[str]) -> None:
        self._wanted, self._names = wanted, names

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *error: object) -> None:
        with _lock:
            names, self._names = self._names, ()
            self._wanted.subtract(names)  # without effect after `unregister`
            _update()


def register(*names: str) -> Registration:
    """Make functions of other libraries lazy and exact for Dask arrays.

    These are `sort`, `argsort`, `lexsort`, `partition`, `argpartition`; `median`, `quantile`, `percentile` and their
    twins that skip NaN; `searchsorted`, `isin`, `unique` and its kind, the set functions; `take`, `take_along_axis`.
    What calls NumPy's functions then uses this package too, such as xarray's `median` and `quantile` of Dask arrays.
    Without it NumPy's sorts compute the whole array, with a warning, and Dask's quantiles are approximate or need whole
    lanes. For `lexsort`, NumPy recognises Dask arrays in a tuple of keys, but not in a list.

    Parameters
    ----------
    *names : {"numpy", "array_api_compat", "flox"}
        What is reached; all of it without names. A library that is imported later is reached then.

        - ``"numpy"``: NumPy's functions of Dask arrays, and the functions of `dask.array` and of the package
          ``dask_array``. The latter keep Dask's arguments: the third one of `dask.array.median` is `keepdims`, that of
          `numpy.median` is `out`.
        - ``"array_api_compat"``: its namespace of Dask, and copies of it in other libraries such as SciPy, with the
          arguments of the array API.
        - ``"flox"``: xarray's medians and quantiles of groups of Dask arrays do not go to flox. A first one warns.

    Returns
    -------
    context manager
        At exit this call is taken back, and no other. Without ``with`` it lasts until `unregister`.

    Raises
    ------
    ValueError
        If a name is unknown.

    See Also
    --------
    unregister, registered

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import dask_gpusort
    >>> with dask_gpusort.register():
    ...     ordered = np.sort(da.from_array([3, 1, 2], chunks=2))
    >>> ordered.chunks
    ((2, 1),)
    >>> ordered.compute()
    array([1, 2, 3])
    """
    if unknown := [name for name in names if name not in _TARGETS]:
        known = ", ".join(map(repr, _TARGETS))
        raise ValueError(f"names must be some of {known} (got {', '.join(map(repr, unknown))})")
    chosen = tuple(dict.fromkeys(names or _TARGETS))
    with _lock:
        _wanted.update(chosen)
        try:
            _update()
        except BaseException:
            _wanted.subtract(chosen)
            _update()
            raise
        return Registration(_wanted, chosen)


def unregister() -> None:
    """Undo all calls of `register`; what others have put in place of its functions since then stays.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_gpusort
    >>> before = da.median
    >>> registration = dask_gpusort.register()
    >>> da.median is before
    False
    >>> dask_gpusort.unregister()
    >>> da.median is before
    True
    """
    global _wanted
    with _lock:
        _wanted = Counter()
        _update()


def registered() -> ReplacedFunctions:
    """Functions that `register` has replaced until now.

    Returns
    -------
    list of named tuples
        The name, the function that was there (None if there was none), and the one that is there now. It prints as a
        table.

    See Also
    --------
    register

    Examples
    --------
    >>> import dask_gpusort
    >>> with dask_gpusort.register("numpy"):
    ...     names = [each.name for each in dask_gpusort.registered()]
    >>> names[:2]
    ['dask.array.sort', 'dask.array.argsort']
    >>> dask_gpusort.registered() == []
    True
    """
    with _lock:
        return ReplacedFunctions(
            Replaced(f"{_path_of(owner)}.{name}", None if old is _MISSING else old, new)
            for (owner, name), (_, old, new) in _replaced.items()
            if vars(owner).get(name) is new
        )


def _path_of(owner: Any) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"


def register_as_set() -> None:
    """Register what the setting `gpusort.register` names."""
    if names := setting("register"):
        register(*([] if names is True else names))


def _update() -> None:
    """Replace what is wanted and loaded, and restore what is wanted no more; the lock is held."""
    for (owner, name), (target, previous, function) in list(_replaced.items()):
        if _wanted[target] > 0:
            continue
        if vars(owner).get(name) is function:
            if previous is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, previous)
        del _replaced[owner, name]
    _reached.difference_update([pair for pair in _reached if not _wanted[pair[0]] > 0])
    for name, module in list(sys.modules.items()):
        # What a module still runs, in another thread, would replace ours: it is reached when it has run.
        if not getattr(getattr(module, "__spec__", None), "_initializing", False):
            _reach(name)
    hooked = any(count > 0 for count in _wanted.values())
    if hooked and _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    elif not hooked and _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)


def _reach(module: str) -> None:
    """Replace the functions of a loaded module that are wanted; the lock is held."""
    for target, (_, replacements) in _TARGETS.items():
        loaded = sys.modules.get(module)
        if not _wanted[target] > 0 or (target, module) in _reached or not _TARGETS[target].concerns(module):
            continue
        for owner, name, function in replacements(loaded) if loaded else ():
            _replace(target, owner, name, function)
        _reached.add((target, module))


def _replace(target: str, owner: Any, name: str, function: Callable[..., Any]) -> None:
    previous = vars(owner).get(name, _MISSING)
    # A module that is imported later copies functions that are replaced already.
    for _, old, new in _replaced.values():
        if new is previous:
            previous = old
            break
    _replaced[owner, name] = target, previous, function
    setattr(owner, name, function)


class _Finder:
    """Finder of modules that leaves each to the others, and replaces functions when one of a target has run."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module of a target by the other finders."""
        if not any(each.concerns(name) for each in _TARGETS.values()):
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Loader that replaces functions after another one has run the module."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with its own loader, and replace its functions."""
        module.__spec__.loader = module.__loader__ = self._loader  # type: ignore[union-attr]
        self._loader.exec_module(module)
        with _lock:
            _reach(module.__name__)


_FINDER: Any = _Finder()
