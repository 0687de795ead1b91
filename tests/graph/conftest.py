"""Fixtures of the tests of graphs."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def workers_start_fast(workers_fork_from_a_server: None) -> None:
    """Of all clusters but those of scripts."""
