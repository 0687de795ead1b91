"""Tests of the plan of reads and writes at positions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_gpusort.plan import Workers
from dask_gpusort.plan.positions import Addressed, bundle_chunks, choose_addressing

MIB = 1 << 20

LONG = Addressed(chunks=64, size=64 * MIB, lanes=1, itemsize=8, indices=64 * MIB, limit=128 * MIB)


@pytest.mark.parametrize(
    ("array", "shared", "memory", "wanted"),
    [
        (replace(LONG, chunks=1), False, 0, "blocks"),
        (LONG, True, 1024 * MIB, "gather"),
        (LONG, True, 256 * MIB, "exchange"),
        (LONG, False, math.inf, "exchange"),
        (replace(LONG, indices=MIB), True, math.inf, "exchange"),
        (replace(LONG, indices=math.nan), True, math.inf, "gather"),
        (replace(LONG, size=MIB, lanes=64), False, 0, "rechunk"),
        (replace(LONG, size=MIB, lanes=64), True, 256 * MIB, "rechunk"),
        (replace(LONG, indices=MIB, index_bytes=16), True, 600 * MIB, "gather"),
        (replace(LONG, index_bytes=16), True, 600 * MIB, "exchange"),
        (replace(LONG, size=0), False, 0, "gather"),
        (replace(LONG, size=math.nan), True, math.inf, "blocks"),
    ],
)
def test_strategy(array, shared, memory, wanted):
    assert choose_addressing(array, shared, memory)[0] == wanted


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.none() | st.integers(1, 20))
def test_bundles_cover_all_chunks_in_order(sizes, wanted):
    bundles = bundle_chunks(sizes, 8, Workers(2, MIB, processes=2), wanted)
    assert [chunk for number in range(len(bundles)) for chunk in bundles.chunks(number)] == list(range(len(sizes)))
    assert all(bundles.chunks(number) for number in range(len(bundles)))


def test_bundles_fit_the_memory():
    bundles = bundle_chunks([1 << 10] * 1000, 32, Workers(2, 10 * MIB, processes=2))
    assert max(len(bundles.chunks(number)) for number in range(len(bundles))) * (1 << 10) * 32 <= 1.01 * MIB


def test_bundles_of_unknown_sizes_have_about_equal_numbers_of_chunks():
    bundles = bundle_chunks([math.nan] * 12, 8, Workers(2), 4)
    assert [len(bundles.chunks(number)) for number in range(len(bundles))] == [3, 3, 3, 3]
