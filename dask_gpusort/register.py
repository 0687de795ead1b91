"""Opt-in: make the sorts of NumPy and `dask.array` use this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da

from . import api

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


_OURS = {"sort": _sort, "argsort": _argsort, "lexsort": _lexsort}


def register() -> None:
    """Make `sort`, `argsort` and `lexsort` of NumPy lazy for Dask arrays, and add them to `dask.array`.

    Without it NumPy's functions compute the whole array, with a warning. A repeated call has no effect. For `lexsort`,
    NumPy recognises Dask arrays in a tuple of keys, but not in a list.

    See Also
    --------
    unregister
    """
    for name, function in _OURS.items():
        if name not in _previous:
            # NumPy calls Dask, which looks up the function's name in dask.array.
            _previous[name] = getattr(da, name, None)
            setattr(da, name, function)


def unregister() -> None:
    """Undo `register`."""
    for name, previous in list(_previous.items()):
        if previous is None:
            delattr(da, name)
        else:
            setattr(da, name, previous)
        del _previous[name]
