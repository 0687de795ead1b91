"""Arrays of the package `dask_array` for functions that work on those of `dask.array`; names of what these make."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import dask.array as da

from ..chunk import library_of
from ..graph._dask import array_from_graph
from ..graph.collection import named

F = TypeVar("F", bound=Callable[..., Any])


def for_both_packages(function: F) -> F:
    """Let a function of Dask arrays take arrays of `dask_array` too, and give such arrays if it gets any."""

    @functools.wraps(function)
    def converted(*args: Any, **options: Any) -> Any:
        # Who has such arrays has imported the package.
        if "dask_array" not in sys.modules:
            return function(*args, **options)
        found: list[Any] = []

        def of_dask(value: Any) -> Any:
            if not is_of_dask_array(value):
                return value
            found.append(value)
            return array_from_graph(value)

        args = map_arrays(of_dask, args)
        options = {name: map_arrays(of_dask, value) for name, value in options.items()}
        result = function(*args, **options)
        return map_arrays(_of_dask_array, result) if found else result

    return converted  # type: ignore[return-value]


def with_its_name(function: F) -> F:
    """Give the arrays that a function makes its name; arrays that it is given and gives back keep theirs."""

    @functools.wraps(function)
    def naming(*args: Any, **options: Any) -> Any:
        given = {value.name for value in (*args, *options.values()) if isinstance(value, da.Array)}

        def name(value: Any) -> Any:
            is_made = isinstance(value, da.Array) and value.name not in given
            return named(value, function.__name__) if is_made else value

        return map_arrays(name, function(*args, **options))

    return naming  # type: ignore[return-value]


def is_of_dask_array(value: Any) -> bool:
    """Whether a value is an array of the package `dask_array`."""
    return library_of(value) == "dask_array" and hasattr(value, "__dask_graph__")


def _of_dask_array(value: Any) -> Any:
    """An array of `dask_array` for one of `dask.array`, whose graph is built when it is needed; other values as is."""
    if not isinstance(value, da.Array):
        return value
    return array_from_graph(value, sys.modules["dask_array"].core.from_graph)


def map_arrays(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to the elements of lists and tuples, of any depth, or to a value that is neither."""
    if not isinstance(value, (list, tuple)):
        return function(value)
    items = [map_arrays(function, item) for item in value]
    found: Any = items if isinstance(value, list) else tuple.__new__(type(value), items)
    for name, item in getattr(value, "__dict__", {}).items():  # of SciPy's named tuples, such as `zstatistic`
        vars(found)[name] = map_arrays(function, item)
    return found
