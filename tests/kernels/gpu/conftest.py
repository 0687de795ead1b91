"""Fixtures for the GPU tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import pytest


@pytest.fixture
def client(gpus: Any) -> Iterator[Any]:
    """The client of the cluster of a module's fixture `gpus`, which computes what the test asks for."""
    with gpus.as_current(), dask.config.set(scheduler="distributed"):
        yield gpus
