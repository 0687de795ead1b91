"""Opt-in: make the sorts and the order statistics of other libraries use this package."""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from ..config import setting
from .replacements import TARGETS

_MISSING = object()


class Replaced(NamedTuple):
    """A function, or its code, that `register` has replaced."""

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
    if isinstance(function, CodeType):
        return function.co_qualname
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
    twins that skip NaN; `searchsorted`, `interp`, `isin`, `unique` and its kind, the set functions; `take`,
    `take_along_axis`. What calls NumPy's functions then uses this package too, such as xarray's `median` and `quantile`
    of Dask arrays. Without it NumPy's sorts compute the whole array, with a warning, and Dask's quantiles are
    approximate or need whole lanes. For `lexsort`, NumPy recognises Dask arrays in a tuple of keys, but not in a list.

    Parameters
    ----------
    *names : {"numpy", "array_api_compat", "scipy", "flox"}
        What is reached; all of it without names. A library that is imported later is reached then.

        - ``"numpy"``: NumPy's functions of Dask arrays, and the functions of `dask.array` and of the package
          ``dask_array``. The latter keep Dask's arguments: the third one of `dask.array.median` is `keepdims`, that of
          `numpy.median` is `out`.
        - ``"array_api_compat"``: its namespace of Dask, and copies of it in other libraries such as SciPy, with the
          arguments of the array API.
        - ``"scipy"``: rank tests, `rankdata`, `quantile` and the like of `scipy.stats`, also where they were imported
          by name before, and ``"array_api_compat"``, which they need. SciPy takes Dask arrays only if
          ``SCIPY_ARRAY_API=1`` is in the environment before its import; without it nothing of SciPy is replaced, nor in
          versions before 1.17.
        - ``"flox"``: `median` and `quantile` of xarray's ``groupby``, ``groupby_bins`` and ``resample``, for Dask
          arrays whose groups are in any chunks.

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
    if unknown := [name for name in names if name not in TARGETS]:
        known = ", ".join(map(repr, TARGETS))
        raise ValueError(f"names must be some of {known} (got {', '.join(map(repr, unknown))})")
    chosen = tuple(dict.fromkeys(each for name in names or TARGETS for each in (name, *TARGETS[name].needs)))
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
        The name, what was there (None if there was nothing), and what is there now: functions, or code of functions. It
        prints as a table.

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
            if _attribute(owner, name) is new
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
        if _is_wanted(target):
            continue
        if _attribute(owner, name) is function:
            _restore(owner, name, previous)
        del _replaced[owner, name]
    _reached.difference_update([pair for pair in _reached if not _is_wanted(pair[0])])
    for name, module in list(sys.modules.items()):
        # What a module still runs, in another thread, would replace ours: it is reached when it has run.
        if not getattr(getattr(module, "__spec__", None), "_initializing", False):
            _reach(name)
    hooked = any(map(_is_wanted, TARGETS))
    if hooked and _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    elif not hooked and _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)


def _is_wanted(target: str) -> bool:
    return _wanted[target] > 0


def _attribute(owner: Any, name: str) -> Any:
    """What an object itself has under a name, or `_MISSING`; a function has its code in no dictionary."""
    return getattr(owner, name, _MISSING) if isinstance(owner, FunctionType) else vars(owner).get(name, _MISSING)


def _restore(owner: Any, name: str, previous: Any) -> None:
    if previous is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, previous)


def _reach(name: str) -> None:
    """Replace the functions of a loaded module that are wanted; the lock is held."""
    module = sys.modules.get(name)
    for target, (_, replacements, _) in TARGETS.items():
        if module is None or (target, name) in _reached or not TARGETS[target].concerns(name):
            continue
        _restore_copies(module)
        if _is_wanted(target):
            for owner, attribute, function in replacements(module, functools.partial(_is_wanted, target)):
                previous = _attribute(owner, attribute)
                _replaced[owner, attribute] = target, previous, function
                setattr(owner, attribute, function)
            _reached.add((target, name))


def _restore_copies(module: ModuleType) -> None:
    """Restore what a module that was imported later has copied from a module that is reached."""
    originals = {id(new): old for _, old, new in _replaced.values()}
    for name, value in list(vars(module).items()):
        if id(value) in originals and (module, name) not in _replaced:
            _restore(module, name, originals[id(value)])


class _Finder:
    """Finder of modules that leaves each to the others, and replaces functions when one of a target has run."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module of a target by the other finders."""
        if not any(each.concerns(name) for each in TARGETS.values()):
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
