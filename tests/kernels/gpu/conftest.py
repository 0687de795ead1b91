"""Fixtures of the GPU tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.gpu_data import Guarded


@pytest.fixture(scope="session")
def cp() -> Any:
    """CuPy; without a device its tests are skipped."""
    import cupy

    return cupy


@pytest.fixture
def guarded(cp: Any) -> Iterator[Any]:
    """Makes guarded outputs, and checks the canaries of all of them at the end."""
    made: list[Guarded] = []

    def make(n: int, dtype: Any) -> Any:
        made.append(Guarded(cp, n, dtype))
        return made[-1].array

    yield make
    for output in made:
        output.check()
