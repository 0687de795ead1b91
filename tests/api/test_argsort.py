"""Tests of `argsort`: int64 positions in the whole array, with equal keys in input order."""

from __future__ import annotations

import math

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort


@given(st.data(), ours.arrays(), ours.groups, ours.tables)
def test_one_dimension(data, array, count, table):
    chunks = data.draw(ours.chunkings(array.shape))
    options = data.draw(ours.options(array.dtype))
    stable = data.draw(st.sampled_from((None, False, True)))
    with groups(count, table):
        found = dask_gpusort.argsort(ours.dask_array(array, chunks), stable=stable, **options)
        assert found.dtype == np.int64
        assert found.chunks == chunks
        got = computed(found)
    oracle.assert_same_bits(got, oracle.argsort(array, descending=options["descending"]))


@given(st.data(), ours.arrays(), ours.groups)
def test_unknown_chunk_sizes(data, array, count):
    chunks = data.draw(ours.chunkings(array.shape))
    with groups(count):
        found = dask_gpusort.argsort(ours.dask_array(array, chunks, unknown=True))
        assert all(map(math.isnan, found.chunks[0]))
        oracle.assert_same_bits(computed(found), oracle.argsort(array))


@given(st.data(), ours.arrays(shape=st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_any_axis(data, array):
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    descending = data.draw(st.booleans())
    limit = data.draw(st.sampled_from(("128MiB", "128MiB", "8B")))
    with groups(data.draw(ours.groups)), dask.config.set({"array.chunk-size": limit}):
        x = ours.dask_array(array, data.draw(ours.chunkings(array.shape)))
        found = dask_gpusort.argsort(x, axis, descending=descending)
        assert found.chunks == x.chunks
        assert found.dtype == np.int64
        oracle.assert_same_bits(computed(found), oracle.argsort(array, axis, descending=descending))


@given(st.data(), ours.arrays(shape=st.lists(st.integers(0, 5), max_size=3).map(tuple)))
def test_axis_none_gives_positions_in_c_order(data, array):
    x = ours.dask_array(array, data.draw(ours.chunkings(array.shape)))
    found = dask_gpusort.argsort(x, None)
    oracle.assert_same_bits(computed(found), oracle.argsort(array, None))


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


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_local_schedulers(scheduler):
    array = ours.make("i2", 3000, "zipf")
    with dask.config.set(scheduler=scheduler), groups(5):
        got = dask_gpusort.argsort(da.from_array(array, chunks=250)).compute()
    np.testing.assert_array_equal(got, np.argsort(array, kind="stable"))
