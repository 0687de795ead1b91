"""Tests of `sort_by_key`: values, or whole rows of values, move with their keys into the keys' chunks."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.sorting import groups

import dask_gpusort


def compute_all(found):
    return dask.compute(*found, scheduler="synchronous")


@pytest.mark.parametrize("chunks", [-1, 4])
@pytest.mark.parametrize("unknown", [(False, True), (True, False)])
def test_only_keys_or_only_values_of_unknown_sizes(unknown, chunks):
    keys, values = np.random.default_rng(0).permutation(10), np.arange(10)
    arrays = [da.from_array(array, chunks=chunks) for array in (keys, values)]
    arrays = [ours.forget_sizes(array) if forget else array for array, forget in zip(arrays, unknown, strict=True)]
    found = compute_all(dask_gpusort.sort_by_key(*arrays))
    np.testing.assert_array_equal(found, [np.arange(10), np.argsort(keys)])


def test_values_with_different_unknown_chunks_are_refused_at_compute_time():
    keys = ours.dask_array(np.arange(10), ((4, 6),), unknown=True)
    values = ours.dask_array(np.arange(10), ((5, 5),), unknown=True)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        compute_all(dask_gpusort.sort_by_key(keys, values))


def test_keys_may_also_be_values():
    keys = ours.make("f4", 90, "special")
    x = da.from_array(keys, chunks=20)
    with groups(2):
        got = compute_all(dask_gpusort.sort_by_key(x, x, x))
    for one in got:
        oracle.assert_same_bits(one, oracle.sort(keys))


def test_several_keys_move_whole_rows_as_lexsort_orders_them():
    keys = [ours.make("i4", 90, "few", seed) for seed in (1, 2)]
    rows = np.arange(180).reshape(90, 2)
    first, second = (da.from_array(key, chunks=25) for key in keys)
    found = dask_gpusort.sort_by_key((first, second), da.from_array(rows, chunks=(40, 1)))
    oracle.assert_same_bits(compute_all(found)[2], rows[np.lexsort(keys[::-1])])
    alone = dask_gpusort.sort_by_key([first], descending=True)
    oracle.assert_same_bits(compute_all(alone)[0], oracle.sort(keys[0], descending=True))
    # Lists of numbers are one key.
    assert [list(one) for one in compute_all(dask_gpusort.sort_by_key([3, 1, 2], [0, 1, 2]))] == [[1, 2, 3], [1, 2, 0]]


def test_rows_of_nothing_keep_their_dtypes():
    """Dask names rechunked arrays without elements alike whose records differ."""
    keys, values = np.empty((0, 4), "i1,f8"), np.empty((0, 4), "V9")
    x, y = (da.from_array(one, chunks=(1, 2)) for one in (keys, values))
    found = dask.compute(*dask_gpusort.sort_by_key(x, y, axis=1), scheduler="sync")
    assert [one.dtype for one in found] == [keys.dtype, values.dtype]
