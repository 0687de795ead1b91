"""Tests of `merge_sorted` and `is_sorted`: no chunk is sorted again, and unsorted input is detected."""

from __future__ import annotations

import math
from unittest import mock

import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.sorting import check_sizes, computed, groups

import dask_gpusort
from dask_gpusort.chunk import numpy_ops


@pytest.mark.parametrize("exchange", ["auto", "join", "gather", "tasks"])
def test_empty_chunks(exchange):
    one, few = da.from_array(np.array([5]), chunks=((0, 1),)), da.from_array(np.array([1, 2, 3]), chunks=((2, 0, 1),))
    for arrays in ((one,), (one, one), (few, one), (one, one[:0], few)):
        expected = np.sort(np.concatenate([array.compute() for array in arrays]))
        np.testing.assert_array_equal(dask_gpusort.merge_sorted(*arrays, exchange=exchange).compute(), expected)


def test_no_chunk_is_sorted_again():
    x, y = da.arange(0, 100, 2, chunks=7), da.arange(1, 100, 2, chunks=11)
    with (
        groups(4),
        mock.patch.object(numpy_ops, "local_sort", side_effect=AssertionError("sorted")),
    ):
        found = dask_gpusort.merge_sorted(x, y)
        assert found.chunks == ((*x.chunks[0], *y.chunks[0]),)
        np.testing.assert_array_equal(computed(found), np.arange(100))


def test_output_chunks_and_dtypes():
    x, y = da.arange(10, chunks=3, dtype="i4"), da.arange(0, 5, 0.5, chunks=4)
    with groups(3):
        found = dask_gpusort.merge_sorted(x, y, chunks=8)
        assert found.chunks == ((8, 8, 4),)
        check_sizes(found)
    oracle.assert_same_bits(computed(found), np.sort(np.concatenate([computed(x), computed(y)])))


def test_merge_by_a_key():
    array = np.arange(60) - 30
    by = np.argsort(np.abs(array), kind="stable")
    x = da.from_array(array[by], chunks=9)
    with groups(3):
        for key in (np.abs, lambda block: (np.abs(block), np.zeros(block.shape, "f8"))):
            found = dask_gpusort.merge_sorted(x, x, key=key)
            twice = np.tile(array[by], 2)
            oracle.assert_same_bits(computed(found), twice[np.argsort(np.abs(twice), kind="stable")])


@pytest.mark.parametrize("dtype", ["i8", "f4", "S5", "c16", ours.PLAIN_RECORD], ids=str)
@pytest.mark.parametrize("size", [10, 200_000])
def test_message_names_the_unsorted_chunk(dtype, size):
    array = oracle.sort(ours.make(dtype, size, "bits"))
    array[[size // 2, size - 2]] = array[[size - 2, size // 2]]
    first = int(np.flatnonzero(np.diff(oracle.argsort(array)) != 1)[0])
    x, y = da.from_array(oracle.sort(array), chunks=-1), da.from_array(array, chunks=((0, size, 0),))
    found = dask_gpusort.merge_sorted(x, x[:0], y)
    with pytest.raises(ValueError, match=r"chunk 1 of array 2 is not sorted: element (\d+) comes before") as caught:
        computed(found)
    assert first <= int(str(caught.value).split("element ")[1].split()[0]) <= size // 2 + 1


@pytest.mark.parametrize("chunks", [1, 3, 100, ((50, 0, 49, 0, 1),)])
def test_a_descent_between_chunks_is_found(chunks):
    for descent in (1, 50, 99):
        array = np.arange(100.0)
        array[descent] = array[descent - 1] - 0.5
        assert not computed(dask_gpusort.is_sorted(da.from_array(array, chunks=chunks)))
    assert computed(dask_gpusort.is_sorted(da.arange(100.0, chunks=chunks)))


def test_is_sorted_by_a_key():
    x = da.from_array(np.array([0, -1, 1, -2, 3]), chunks=2)
    assert computed(dask_gpusort.is_sorted(x, key=np.abs))
    assert not computed(dask_gpusort.is_sorted(x, key=lambda block: (np.abs(block), -block.astype("f8"))))
    assert not computed(dask_gpusort.is_sorted(x, key=np.abs, descending=True))
    rows = da.from_array(np.array([[3, 2], [1, 2]]), chunks=1)
    for axis, wanted in ((0, True), (1, False)):
        found = dask_gpusort.is_sorted(rows, axis, key=lambda block: (-block, block.astype("f8")))
        assert computed(found) == wanted


def test_missing_values_are_sorted_only_at_the_end():
    x = da.from_array(np.array([1.0, 2.0, math.nan, -math.nan]), chunks=1)
    assert computed(dask_gpusort.is_sorted(x))
    assert not computed(dask_gpusort.is_sorted(x[::-1]))
    assert computed(dask_gpusort.is_sorted(da.from_array(np.array([0.0, -0.0, 0.0]), chunks=1), descending=True))


def test_is_sorted_is_lazy_and_refuses_invalid_arguments(raise_if_computes):
    with raise_if_computes():
        found = dask_gpusort.is_sorted(da.zeros((300, 300), chunks=100))
        assert len(dict(found.__dask_graph__())) < 40
        with pytest.raises(np.exceptions.AxisError):
            dask_gpusort.is_sorted(da.zeros(3), 1)
        with pytest.raises(ValueError, match="no fields"):
            dask_gpusort.is_sorted(da.zeros(3), order="x")


@pytest.mark.parametrize(("left", "right"), [("u4", "f8"), ("f8", "u4"), ("i4", "u4"), ("S2", "U5"), (">f8", "<f8")])
def test_an_empty_array_counts_in_the_dtype(left, right):
    for first, second in ((0, 3), (3, 0), (0, 0)):
        pair = np.arange(first).astype(left), np.arange(second).astype(right)
        wanted = np.concatenate(pair)
        merged = dask_gpusort.merge_sorted(*(da.from_array(one, chunks=-1) for one in pair))
        assert merged.dtype == wanted.dtype
        np.testing.assert_array_equal(computed(merged), wanted, strict=True)
