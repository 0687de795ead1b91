"""Fixtures for the GPU tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def guarded(gpu: Any) -> Any:
    """A function that makes guarded outputs. The canaries of all outputs are checked after the test."""
    return gpu.empty
