"""Tests of `take` and `topk`: sequences of indices, empty axes, and how often the source is read."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import positions as ours_at
from support.sorting import check_sizes, computed

import dask_gpusort


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("indices", [3, [], [True, False], range(11)], ids=repr)
def test_sequences_of_indices(indices, axis):
    array = np.arange(240).reshape(12, 20)
    found = dask_gpusort.take(da.from_array(array, chunks=(5, 7)), indices, axis)
    check_sizes(found)
    np.testing.assert_array_equal(computed(found), np.take(array, indices, axis), strict=True)


def counted(array, chunks):
    """An array in chunks, and the sizes of those that are read."""
    read = []
    x = da.from_array(array, chunks=chunks).map_blocks(lambda block: read.append(len(block)) or block, meta=array[:0])
    return x, read


def test_few_indices_in_memory_read_few_chunks():
    x, read = counted(np.arange(400), 10)
    assert computed(dask_gpusort.take(x, [[3, 399], [0, -1]])).tolist() == [[3, 399], [0, 399]]
    assert len(read) == 2


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap"])
def test_an_empty_axis(mode):
    x = da.from_array(np.zeros((0, 3)), chunks=((0,), (0, 3)))
    for indices in (da.zeros(2, dtype=int), da.zeros(0, dtype=int)):
        if indices.size:
            with pytest.raises(IndexError):
                computed(dask_gpusort.take(x, indices, 0, mode=mode))
        else:
            assert computed(dask_gpusort.take(x, indices, 0, mode=mode)).shape == (0, 3)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("shape", [(0, 2, 0, 2), (2, 0, 3), (0, 0)])
def test_an_empty_result_of_an_empty_axis(shape, mode):
    array = np.zeros(shape)
    for axis in range(array.ndim):
        # NumPy's loop for "wrap" has no end.
        try:
            wanted = np.take(array, [[5, -7]], axis, mode="clip").shape
        except IndexError:
            wanted = None
        for indices in (np.array([[5, -7]]), da.from_array([[5, -7]], chunks=1)):
            if wanted is None:
                with pytest.raises(IndexError, match="non-empty take from an empty axes"):
                    computed(dask_gpusort.take(da.from_array(array), indices, axis, mode))
            else:
                assert computed(dask_gpusort.take(da.from_array(array), indices, axis, mode)).shape == wanted


def test_a_scalar():
    assert computed(dask_gpusort.take(da.from_array(5), da.zeros(3, dtype=int))).tolist() == [5, 5, 5]


def test_indices_of_an_unknown_number():
    x, line = da.from_array(np.arange(40.0), chunks=7), da.arange(40, chunks=6)
    for exchange in ("auto", "gather", "tasks"):
        found = ours_at.built(dask_gpusort.take, exchange, 3, x, line[line % 3 == 0])
        assert computed(found).tolist() == list(range(0, 40, 3))


def test_random_orders_that_are_computed_together():
    """Tasks of orders of other sizes, chunks or seeds have other names."""
    asked = [(n, chunks, seed) for n in (9, 10) for chunks in (3, 4) for seed in (0, 1)]
    found = dask.compute(*(dask_gpusort.permutation(*one) for one in asked))
    for (n, _, seed), order in zip(asked, found, strict=True):
        keys = np.random.Philox(np.random.SeedSequence(seed)).random_raw(n)
        np.testing.assert_array_equal(order, np.argsort(keys))


def test_largest_keys_and_positions_computed_together_read_each_chunk_once():
    x, read = counted(np.arange(40.0), 4)
    both = dask.compute(dask_gpusort.topk(x, 3), dask_gpusort.argtopk(x, 3), scheduler="synchronous")
    assert [found.tolist() for found in both] == [[39, 38, 37]] * 2
    assert read == [4] * 10
