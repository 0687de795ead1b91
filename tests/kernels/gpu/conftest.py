"""Fixtures for the GPU tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.gpu_data import Guarded


@pytest.fixture(scope="session")
def cp() -> Any:
    """The module CuPy. Tests with the marker ``gpu`` are skipped without a device."""
    import cupy

    return cupy


@pytest.fixture
def guarded(cp: Any) -> Iterator[Any]:
    """A function that makes guarded outputs. The canaries of all outputs are checked after the test."""
    made: list[Guarded] = []

    def make(n: int, dtype: Any) -> Any:
        made.append(Guarded(cp, n, dtype))
        return made[-1].array

    yield make
    for output in made:
        output.check()
