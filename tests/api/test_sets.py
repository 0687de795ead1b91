"""Tests of the set functions against NumPy."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
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


@pytest.mark.parametrize("order", ["=", ">"])
def test_a_difference_of_integers_is_exact(order):
    # Their common dtype is float64.
    first, second = np.array([2**64 - 1, 2**63, 5], np.uint64), np.array([-1, 5, 2**63 - 1])
    x, y = (da.from_array(one.astype(one.dtype.newbyteorder(order)), chunks=2) for one in (first, second))
    for unique in (False, True):
        wanted = sorted({2**64 - 1, 2**63}, reverse=unique)
        assert computed(dask_gpusort.setdiff1d(x, y, assume_unique=unique)).tolist() == wanted
        assert computed(dask_gpusort.setdiff1d(y, x, assume_unique=unique)).tolist() == [-1, 2**63 - 1]
