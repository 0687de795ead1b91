"""Tests of `argsort`: int64 positions in the whole array, with equal keys in input order."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort


@pytest.mark.parametrize("distribution", ours.DISTRIBUTIONS)
def test_positions_are_global_for_every_distribution(distribution):
    array = ours.make("f8", 1000, distribution)
    with groups(9):
        found = dask_gpusort.argsort(da.from_array(array, chunks=71), chunks=300)
        assert found.chunks == ((300, 300, 300, 100),)
        got = computed(found)
    np.testing.assert_array_equal(np.sort(got), np.arange(1000))
    np.testing.assert_array_equal(got, np.argsort(array, kind="stable"))


def test_equal_keys_keep_their_order_in_both_directions():
    x = da.zeros(300, chunks=(70, 0, 230), dtype="i4")
    with groups(4):
        for descending in (False, True):
            for exchange in ("join", "gather", "tasks"):
                got = computed(dask_gpusort.argsort(x, descending=descending, exchange=exchange))
                np.testing.assert_array_equal(got, np.arange(300))


def test_take_with_the_positions_sorts_the_array():
    array = ours.make("f4", 400, "special")
    x = da.from_array(array, chunks=50)
    with groups(3):
        positions, kept = dask.compute(dask_gpusort.argsort(x), dask_gpusort.sort(x, stable=True), scheduler="sync")
    oracle.assert_same_bits(array[positions], kept)


def test_positions_index_numpy_and_dask_arrays():
    array = ours.make("i8", 400)
    positions = dask_gpusort.argsort(da.from_array(array, chunks=50))
    oracle.assert_same_bits(array[computed(positions)], np.sort(array))
    ranks = dask_gpusort.argsort(positions)
    oracle.assert_same_bits(np.sort(array)[computed(ranks)], array)
