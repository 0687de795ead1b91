"""Arrays of the package `dask_array` for functions that work on those of `dask.array`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import dask.array as da

from .chunk import library_of
from .graph._dask import array_from_graph
from .graph.collection import named

F = TypeVar("F", bound=Callable[..., Any])


def for_both_packages(function: F) -> F:
    """Let a function of Dask arrays take arrays of `dask_array` too, and give such arrays if it gets any.

    What it makes has its name.
    """

    @functools.wraps(function)
    def converted(*args: Any, **options: Any) -> Any:
        found: list[Any] = []

        def of_dask(value: Any) -> Any:
            if not is_of_dask_array(value):
                return value
            found.append(value)
            return array_from_graph(value)

        # Who has such arrays has imported the package.
        if "dask_array" in sys.modules:
            args = _map_arrays(of_dask, args)
            options = {name: _map_arrays(of_dask, value) for name, value in options.items()}
        given = {value.name for value in (*args, *options.values()) if isinstance(value, da.Array)}

        def given_back(value: Any) -> Any:
            if isinstance(value, da.Array) and value.name not in given:
                value = named(value, function.__name__)
            return _of_dask_array(value) if found else value

        return _map_arrays(given_back, function(*args, **options))

    return converted  # type: ignore[return-value]


def is_of_dask_array(value: Any) -> bool:
    """Whether a value is an array of the package `dask_array`."""
    return library_of(value) == "dask_array" and hasattr(value, "__dask_graph__")


def _of_dask_array(value: Any) -> Any:
    """An array of `dask_array` for one of `dask.array`, whose graph is built when it is needed; other values as is."""
    if not isinstance(value, da.Array):
        return value
    return array_from_graph(value, sys.modules["dask_array"].core.from_graph)


def _map_arrays(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to the elements of lists and tuples, of any depth, or to a value that is neither."""
    if not isinstance(value, (list, tuple)):
        return function(value)
    items = [_map_arrays(function, item) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
