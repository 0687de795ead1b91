"""Tests of the first keys of rows of one chunk, against a stable sort."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours

from dask_gpusort.chunk import numpy_sorts
from dask_gpusort.order import Order


def check(array, count, axis, descending):
    got = numpy_sorts.first_indices(array, Order(array.dtype, descending, stable=True), count, axis)
    assert got.dtype == np.int64
    wanted = oracle.argsort(array, axis, descending=descending).take(range(min(count, array.shape[axis])), axis=axis)
    np.testing.assert_array_equal(np.sort(got, axis=axis), np.sort(wanted, axis=axis))
    # A stable sort of the selected keys restores the order, which it can only if equal keys are in order.
    keys = np.take_along_axis(array, got, axis)
    np.testing.assert_array_equal(
        np.take_along_axis(got, oracle.argsort(keys, axis, descending=descending), axis), wanted
    )


@given(ours.arrays(sizes=st.integers(0, 400)), st.integers(0, 50), st.booleans(), st.sampled_from([1, 2, 64]))
def test_rows_of_any_length_with_a_bound(array, count, descending, step):
    with mock.patch.multiple(numpy_sorts, _LONG_ROW=1, _LARGEST_SHARE=0.5, _STEP=step):
        check(array, count, 0, descending)


@pytest.mark.parametrize("batch", [1, 20])
@given(st.data(), st.integers(1, 9), st.booleans())
def test_rows_in_batches(batch, data, count, descending):
    array = data.draw(ours.arrays(shape=st.sampled_from([(30,), (6, 9), (3, 5, 7)])))
    with mock.patch.object(numpy_sorts, "_TOP_KEYS", batch):
        check(array, count, data.draw(st.integers(0, array.ndim - 1)), descending)


@example(np.array([[0.0, -0.0, 1.0, -0.0], [3.0, 2.0, 1.0, 1.0]]), 2, False)
@given(ours.arrays(shape=st.tuples(st.integers(1, 5), st.integers(1, 40))), st.integers(1, 50), st.booleans())
def test_first_keys_are_those_of_a_stable_sort(array, count, descending):
    before = array.copy()
    found = numpy_sorts.first_keys(array, Order(array.dtype, descending, stable=True), count)
    wanted = oracle.sort(array, 1, descending=descending)[:, :count]
    oracle.assert_same_bits(np.ascontiguousarray(found), np.ascontiguousarray(wanted))
    oracle.assert_same_bits(array, before)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", ["random", "sorted", "constant", "few", "nan", "periodic", "inverse"])
def test_long_rows_of_any_distribution(name, descending):
    size = 2 * numpy_sorts._LONG_ROW
    rng = np.random.default_rng(0)
    array = rng.standard_normal(size)
    if name == "sorted":
        array.sort()
    elif name == "constant":
        array[:] = 1
    elif name == "few":
        array = rng.integers(0, 3, size).astype(float)
    elif name == "nan":
        array[rng.permutation(size)[10:]] = np.nan
    elif name == "periodic":
        array[:: numpy_sorts._STEP] = 100
    elif name == "inverse":
        array[:: numpy_sorts._STEP] = -100
    for count in (1, 100, size // 8, size // 2):
        check(array, count, 0, descending)


def test_few_keys_of_long_rows_are_encoded():
    array = np.random.default_rng(0).standard_normal((8, 1 << 16))
    encoded = []
    encode = numpy_sorts.encode
    with mock.patch.object(numpy_sorts, "encode", lambda keys, order: encoded.append(keys.size) or encode(keys, order)):
        check(array, 500, 1, True)
    assert sum(encoded) < array.size / 16
