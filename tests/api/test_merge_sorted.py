"""Tests of `merge_sorted` and `is_sorted`: no chunk is sorted again, and unsorted input is detected."""

from __future__ import annotations

from unittest import mock

import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.chunk import numpy_ops


def test_no_chunk_is_sorted_again():
    x, y = da.arange(0, 100, 2, chunks=7), da.arange(1, 100, 2, chunks=11)
    with (
        groups(4),
        mock.patch.object(numpy_ops, "local_sort", side_effect=AssertionError("sorted")),
    ):
        found = dask_gpusort.merge_sorted(x, y)
        assert found.chunks == ((*x.chunks[0], *y.chunks[0]),)
        np.testing.assert_array_equal(computed(found), np.arange(100))


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


def test_is_sorted_by_a_key():
    x = da.from_array(np.array([0, -1, 1, -2, 3]), chunks=2)
    assert computed(dask_gpusort.is_sorted(x, key=np.abs))
    assert not computed(dask_gpusort.is_sorted(x, key=lambda block: (np.abs(block), -block.astype("f8"))))
    assert not computed(dask_gpusort.is_sorted(x, key=np.abs, descending=True))
    rows = da.from_array(np.array([[3, 2], [1, 2]]), chunks=1)
    for axis, wanted in ((0, True), (1, False)):
        found = dask_gpusort.is_sorted(rows, axis, key=lambda block: (-block, block.astype("f8")))
        assert computed(found) == wanted


def test_is_sorted_has_few_tasks():
    found = dask_gpusort.is_sorted(da.zeros((300, 300), chunks=100))
    assert len(dict(found.__dask_graph__())) < 40
