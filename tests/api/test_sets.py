"""Tests of the set functions against NumPy."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import computed

import dask_gpusort

FUNCTIONS = ["union1d", "intersect1d", "setdiff1d", "setxor1d"]


def check(name, x, y, first, second):
    found, expected = getattr(dask_gpusort, name)(x, y), getattr(np, name)(first, second)
    got = computed(found)
    assert found.dtype == got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.arange(12).reshape(3, 4), np.array([[3.0], [7.5]])),
        (np.array([1, 5, 2]), np.array([1.5, 5.0])),
        (np.array(["a", "bcd"]), np.array(["bcd", "longer"])),
        (np.zeros(0), np.array([np.nan, np.nan, 1.0])),
        (np.array([np.nan, 1, np.nan, 2]), np.array([2, np.nan])),
        (np.array(4), np.arange(6)),
    ],
)
def test_shapes_and_dtypes_differ(name, first, second):
    check(name, *(da.from_array(one, chunks=2) for one in (first, second)), first, second)


def test_a_difference_keeps_the_dtype_of_its_values():
    # They are compared as floats, which cannot hold all of them.
    first, second = np.array([2**53 + 1, 5, 2**53]), np.array([1.5, 5.0])
    check("setdiff1d", *(da.from_array(one, chunks=2) for one in (first, second)), first, second)


@pytest.mark.parametrize("unknown", [False, True])
def test_a_difference_of_unique_values_keeps_their_order(unknown):
    first, second = np.random.default_rng(0).permutation(90), np.arange(0, 200, 3)
    x, y = (ours.dask_array(one, chunks, unknown=unknown) for one, chunks in ((first, 20), (second, 9)))
    got = computed(dask_gpusort.setdiff1d(x, y, assume_unique=True))
    np.testing.assert_array_equal(got, np.setdiff1d(first, second, assume_unique=True))
    empty = da.from_array(first[:0], chunks=5)
    assert computed(dask_gpusort.setdiff1d(empty, y, assume_unique=True)).shape == (0,)
    np.testing.assert_array_equal(computed(dask_gpusort.setdiff1d(x, empty, assume_unique=True)), first)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unique_arrays_may_be_announced(name):
    if name == "union1d":
        pytest.skip("it has no such argument")
    first, second = np.arange(20), np.arange(10, 40)
    x, y = (da.from_array(one, chunks=7) for one in (first, second))
    got = computed(getattr(dask_gpusort, name)(x, y, assume_unique=True))
    np.testing.assert_array_equal(got, getattr(np, name)(first, second, assume_unique=True))


def test_groups_that_span_many_chunks():
    first, second = np.full(40, 3.0), np.concatenate([np.full(30, 3.0), np.full(20, np.nan)])
    x, y = (da.from_array(one, chunks=4) for one in (first, second))
    for name in FUNCTIONS:
        check(name, x, y, first, second)


def test_a_difference_of_integers_is_exact():
    # Their common dtype is float64.
    first, second = np.array([2**63 + 1, 2**63, 5], np.uint64), np.array([-1, 5, 2**63 - 1])
    x, y = (da.from_array(one, chunks=2) for one in (first, second))
    for unique in (False, True):
        wanted = sorted({2**63 + 1, 2**63}, reverse=unique)
        assert computed(dask_gpusort.setdiff1d(x, y, assume_unique=unique)).tolist() == wanted


@pytest.mark.parametrize("dtype", [">c8", ">c16", ">U5", ">f8"])
def test_big_endian_arrays_have_the_sets_of_native_ones(dtype):
    # NumPy counts NaN of big-endian complex numbers wrongly, so its answer for native ones is the oracle.
    first, second = (ours.make(dtype, size, "special", seed=1) for size in (40, 7))
    native = np.dtype(dtype).newbyteorder("=")
    for name in FUNCTIONS:
        expected = getattr(np, name)(first.astype(native), second.astype(native))
        found = getattr(dask_gpusort, name)(da.from_array(first, chunks=9), da.from_array(second, chunks=4))
        np.testing.assert_array_equal(computed(found), expected)
    assert computed(dask_gpusort.nunique(da.from_array(first, chunks=9))) == len(np.unique(first.astype(native)))
