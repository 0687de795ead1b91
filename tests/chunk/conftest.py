"""Fixtures of the steps on one chunk."""

from __future__ import annotations

import pytest
from support.codes import BLOCK_KEYS, TIE_KEYS

from dask_gpusort.chunk import numpy_radix, numpy_words
from dask_gpusort.keys import codes as key_codes


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that arrays of a test have several."""
    for module in (key_codes, numpy_radix, numpy_words):
        monkeypatch.setattr(module, "BLOCK_KEYS", BLOCK_KEYS)
    monkeypatch.setattr(numpy_radix, "_TIE_BLOCK", TIE_KEYS)
    monkeypatch.setattr(numpy_radix, "_LEAST_REPAIRED", BLOCK_KEYS)
    monkeypatch.setattr(numpy_words, "_TIED_KEYS", TIE_KEYS)
