"""Every public name has examples, and the examples of docstrings run as they are written."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.marks import for_each

import dask_gpusort

pytest.importorskip("xarray")

REFERENCE = Path(__file__).parents[2] / "docs" / "api.rst"


def public_names() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions of the package, and methods of the accessors, with their names in the reference."""
    for name in dask_gpusort.__all__:
        yield name, getattr(dask_gpusort, name)
    accessors = import_module("dask_gpusort.xarray")
    for owner in ("DataArray", "Dataset", "DataTree"):
        for name, method in inspect.getmembers(getattr(accessors, f"{owner}Accessor"), inspect.isfunction):
            if not name.startswith("_"):
                yield f"{owner}.gpusort.{name}", method


def test_the_reference_has_every_public_name_once() -> None:
    listed = [line.strip() for line in REFERENCE.read_text().splitlines() if line.startswith("   ") and ":" not in line]
    assert sorted(filter(None, listed)) == sorted(name for name, _ in public_names())


@for_each(public_names())
def test_a_public_name_has_examples(name: str, function: Callable[..., Any]) -> None:
    assert "\nExamples\n--------\n>>> " in inspect.getdoc(function)


@for_each({function.__module__ for _, function in public_names()})
def test_examples_run(module: str) -> None:
    found = doctest.testmod(import_module(module))
    assert found.attempted
    assert not found.failed


def test_completion_shows_the_public_names_alone() -> None:
    assert sorted(dir(dask_gpusort)) == sorted([*dask_gpusort.__all__, "__version__"])
