"""Tests of `argsort`: int64 positions in the whole array, with equal keys in input order."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
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
