"""The tests of this folder run on the host alone."""

from __future__ import annotations

import pytest


@pytest.fixture
def device(host):
    """The host instead of a GPU."""
    return host
