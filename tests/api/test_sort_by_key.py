"""Tests of `sort_by_key`: values, or whole rows of values, move with their keys into the keys' chunks."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.sorting import computed, groups

import dask_gpusort


def compute_all(found):
    return dask.compute(*found, scheduler="synchronous")


def test_every_output_has_the_requested_chunks():
    keys = ours.make("i8", 100)
    values = np.arange(200).reshape(100, 2)
    for count in (None, 5):
        with groups(count):
            found = dask_gpusort.sort_by_key(da.from_array(keys, chunks=9), da.from_array(values, chunks=10), chunks=33)
            assert [darr.chunks[0] for darr in found] == [(33, 33, 33, 1)] * 2
            got = compute_all(found)
        oracle.assert_same_bits(got[1], values[np.argsort(keys, kind="stable")])


def test_keys_and_values_with_the_same_mask():
    keys = da.from_array(ours.make("f8", 300), chunks=40)
    values = da.arange(300, chunks=40)
    mask = keys > 0
    got = compute_all(dask_gpusort.sort_by_key(keys[mask], values[mask]))
    kept = computed(keys)[computed(mask)]
    np.testing.assert_array_equal(got[1], np.flatnonzero(computed(mask))[np.argsort(kept, kind="stable")])


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


def test_no_values():
    (found,) = dask_gpusort.sort_by_key(da.from_array(np.array([2, 1, 0]), chunks=2))
    assert computed(found).tolist() == [0, 1, 2]


def test_a_key_function_orders_but_is_not_returned():
    keys = ours.make("i4", 120)
    values = np.arange(120)
    with groups(3):
        found = dask_gpusort.sort_by_key(
            da.from_array(keys, chunks=11), da.from_array(values, chunks=50), key=lambda block: block % 10
        )
        assert len(found) == 2
        got = compute_all(found)
    positions = np.argsort(keys % 10, kind="stable")
    oracle.assert_same_bits(got[0], keys[positions])
    oracle.assert_same_bits(got[1], values[positions])


def test_computing_one_output():
    keys = ours.make("i8", 100)
    values = np.arange(100)
    with groups(3):
        found = dask_gpusort.sort_by_key(da.from_array(keys, chunks=9), da.from_array(values, chunks=9))
    oracle.assert_same_bits(computed(found[1]), np.argsort(keys, kind="stable"))
    oracle.assert_same_bits(computed(found[0].blocks[2:4]), np.sort(keys)[18:36])


def test_keys_may_also_be_values():
    keys = ours.make("f4", 90, "special")
    x = da.from_array(keys, chunks=20)
    with groups(2):
        got = compute_all(dask_gpusort.sort_by_key(x, x, x))
    for one in got:
        oracle.assert_same_bits(one, oracle.sort(keys))


def several_by_numpy(keys, values, descending, axis=-1):
    """Keys and values in the order of the keys, the first one most significant, and of the input."""
    shape = keys[0].shape
    ranks = []
    for key, down in zip(keys, descending, strict=True):
        rank = np.unique(key, return_inverse=True)[1].reshape(shape)
        missing = key != key
        ranks.append(np.where(missing, key.size, -rank if down else rank))
    positions = np.lexsort(ranks[::-1], axis=axis)
    return [np.take_along_axis(array, positions, axis) for array in (*keys, *values)]


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks", "join"])
@pytest.mark.parametrize("descending", [False, True, (True, False, False)])
@pytest.mark.parametrize("dtypes", [("i1", "u2", "i1"), ("f8", "U2", ">i4"), ("M8[s]", "S3", "O")])
def test_several_keys_the_first_one_most_significant(dtypes, descending, exchange, unknown):
    keys = [ours.make(dtype, 200, "few", seed) for seed, dtype in enumerate(dtypes)]
    values = [np.arange(200), np.arange(200.0)]
    arrays = [ours.dask_array(array, ((70, 0, 60, 70),), unknown=unknown) for array in (*keys, *values)]
    with groups(3):
        found = dask_gpusort.sort_by_key(tuple(arrays[:3]), *arrays[3:], descending=descending, exchange=exchange)
        got = compute_all(found)
    directions = (descending,) * 3 if isinstance(descending, bool) else descending
    expected = several_by_numpy(keys, values, directions)
    for one, array, darr in zip(got, expected, found, strict=True):
        oracle.assert_same_bits(one, array)
        assert darr.dtype == array.dtype
    assert np.array_equal(found[0].chunks, arrays[0].chunks, equal_nan=True) or unknown


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("limit", ["128MiB", "8B"])
@pytest.mark.parametrize("dtype", ["i1", "f8"])
def test_several_keys_along_an_axis(axis, limit, dtype):
    keys = [ours.make(dtype, 48, "few", seed).reshape(6, 8) for seed in (1, 2)]
    values = [np.arange(48).reshape(6, 8)]
    with dask.config.set({"array.chunk-size": limit}):
        arrays = [
            da.from_array(array, chunks=chunks) for array, chunks in zip((*keys, *values), (2, 3, 4), strict=True)
        ]
        found = dask_gpusort.sort_by_key(arrays[:2], arrays[2], axis=axis, chunks={axis: 5}, descending=(False, True))
        got = compute_all(found)
    for one, array in zip(got, several_by_numpy(keys, values, (False, True), axis), strict=True):
        oracle.assert_same_bits(one, array)
    assert found[2].chunks[axis] == ((5, 1) if axis == 0 else (5, 3))


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
