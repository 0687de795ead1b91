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
        (np.array(4), np.arange(6)),
    ],
)
def test_shapes_and_dtypes_differ(name, first, second):
    check(name, *(da.from_array(one, chunks=2) for one in (first, second)), first, second)


def test_a_difference_keeps_the_dtype_of_its_values():
    # They are compared as floats, which cannot hold all of them.
    first, second = np.array([2**53 + 1, 5, 2**53]), np.array([1.5, 5.0])
    check("setdiff1d", *(da.from_array(one, chunks=2) for one in (first, second)), first, second)
