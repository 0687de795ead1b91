"""What `register` puts into other libraries, as the rows of `table` say."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from .. import api
from ..graph._dask import is_valid_chunk_type
from . import scipy_stats
from .signatures import Arguments, adapted
from .table import ROWS, Row

#: Tells whether a call of `register` still wants this: others may have wrapped what was put in place.
IsWanted = Callable[[], bool]
#: An object, the name of one of its attributes, and what is put there.
Replacement = tuple[Any, str, Any]


def _functions(arguments_of: Callable[[Row], Arguments | None]) -> dict[str, Callable[..., Any]]:
    """Functions by their names, with the arguments of a library that each row has for it."""
    given = {name: arguments_of(row) for name, row in ROWS.items()}
    return {name: adapted(getattr(api, name), arguments) for name, arguments in given.items() if arguments is not None}


#: What NumPy's functions of these names call for Dask arrays.
_OF_NUMPY = _functions(lambda row: row.numpy)
#: What is put into `dask.array`.
_OF_DASK = _functions(lambda row: row.dask or row.numpy)
#: What is put into namespaces of the array API.
_OF_ARRAY_API = _functions(lambda row: row.array_api or row.dask or row.numpy)
_BY_FUNCTION = {getattr(np, name): function for name, function in _OF_NUMPY.items()}


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
            for name in (name for name, row in ROWS.items() if row.groups):
                yield owner, name, _of_groups(getattr(owner, name), is_wanted)


def _for_scipy(module: ModuleType, is_wanted: IsWanted) -> Iterator[Replacement]:
    # Without its variable of the environment SciPy takes Dask arrays for arrays of NumPy; 1.17 has `spearmanrho` first.
    switched_on = getattr(sys.modules.get("scipy._lib._array_api"), "SCIPY_ARRAY_API", False)
    if not switched_on or not hasattr(module, "spearmanrho"):
        return
    for ours, row in ROWS.items():
        for name, serving in row.scipy.items():
            function = getattr(module, name, None) or getattr(module._stats_py, name)
            if not hasattr(function, "__signature__"):  # which is told from the code
                yield function, "__signature__", inspect.signature(function)
            if isinstance(serving, Arguments):
                serving = scipy_stats.without_scipy(adapted(getattr(api, ours), serving))
            yield function, "__code__", scipy_stats.code_with(serving, function)


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
