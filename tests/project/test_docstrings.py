"""Every public name has examples, and the examples of docstrings run as they are written."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import dask_gpusort

pytest.importorskip("xarray")

MODULES = (
    "api.order_statistics",
    "api.partitions",
    "api.positions",
    "api.ranks",
    "api.search",
    "api.sets",
    "api.sorts",
    "api.top_k",
    "gpu_cluster",
    "register",
    "xarray",
)


def public_names() -> Iterator[Any]:
    """Functions of the package, and methods of the accessors."""
    for name in dask_gpusort.__all__:
        yield pytest.param(getattr(dask_gpusort, name), id=name)
    accessors = import_module("dask_gpusort.xarray")
    for accessor in (accessors.DataArrayAccessor, accessors.DatasetAccessor):
        for name, method in inspect.getmembers(accessor, inspect.isfunction):
            if not name.startswith("_"):
                yield pytest.param(method, id=f"{accessor.__name__}.{name}")


@pytest.mark.parametrize("function", list(public_names()))
def test_a_public_name_has_examples(function: Callable[..., Any]) -> None:
    assert function.__module__.removeprefix("dask_gpusort.") in MODULES
    assert "\nExamples\n--------\n>>> " in inspect.getdoc(function)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    found = doctest.testmod(import_module(f"dask_gpusort.{name}"))
    assert found.attempted
    assert not found.failed
