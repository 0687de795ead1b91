"""Tests of `take_along_axis` and `put_along_axis` against NumPy: any axis, any chunks, any exchange."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import positions as ours_at
from support import strategies as ours
from support.sorting import computed

import dask_gpusort


@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks"])
def test_the_last_value_for_a_position_stays(exchange):
    at = np.random.default_rng(0).integers(-5, 5, 500)
    x, indices, values = da.zeros(5, chunks=2), da.from_array(at, chunks=70), da.arange(500, chunks=90)
    found = ours_at.built(dask_gpusort.put_along_axis, exchange, 3, x, indices, values, 0)
    wanted = [max(np.flatnonzero(at % 5 == position)) for position in range(5)]
    assert computed(found).tolist() == wanted
    # The order of the memory is not C order.
    backwards = da.from_array(np.zeros((1, 40), "i8")[:, ::-1], chunks=-1)
    written = dask_gpusort.put_along_axis(da.zeros((1, 2)), backwards, np.arange(40)[::-1][None], 1)
    assert computed(written).tolist() == [[0, 0]]


def test_without_an_axis_the_array_is_flattened():
    array = np.arange(12).reshape(3, 4)
    x, at = da.from_array(array, chunks=(2, 3)), np.array([11, -12, 5])
    assert computed(dask_gpusort.take_along_axis(x, at, None)).tolist() == [11, 0, 5]
    found = dask_gpusort.put_along_axis(x, at, -1, None)
    np.put_along_axis(array, at, -1, None)
    assert found.chunks == x.chunks
    assert computed(found).tolist() == array.tolist()
    one = da.from_array(array[:1, :1], chunks=((1,), (0, 1)))
    assert computed(dask_gpusort.put_along_axis(one, at[2:] - 5, 7, None)).tolist() == [[7]]


@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_of_unknown_sizes(axis):
    array = ours.make("i4", 60, "bits").reshape(6, 10)
    indices = np.random.default_rng(0).integers(0, 6, (6, 10))
    x = ours.dask_array(array, (6, 10), unknown=True)
    at = ours.forget_sizes(da.from_array(indices, chunks=(6, 10)))
    oracle.assert_same_bits(
        computed(dask_gpusort.take_along_axis(x, at, axis)), np.take_along_axis(array, indices, axis)
    )
    line = ours.forget_sizes(da.from_array(indices.ravel(), chunks=7))
    for exchange in ("auto", "gather", "tasks"):
        found = ours_at.built(
            dask_gpusort.take_along_axis, exchange, 3, da.from_array(array.ravel(), chunks=13), line, 0
        )
        oracle.assert_same_bits(computed(found), array.ravel()[indices.ravel()])
    several = ours.dask_array(array, (4, 3), unknown=True)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dask_gpusort.take_along_axis(several, at, axis)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        ours_at.built(dask_gpusort.take_along_axis, "tasks", 2, several, at, axis)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dask_gpusort.put_along_axis(several, at, 0, axis)


@pytest.mark.parametrize("exchange", ["auto", "gather", "tasks"])
@pytest.mark.parametrize("wrong", [10, -11, 2**62])
def test_indices_out_of_range(exchange, wrong):
    x, at = da.arange(10, chunks=3), da.from_array([0, wrong, 3], chunks=2)
    message = f"index {wrong} is out of bounds for axis 0 with size 10"
    for found in (
        ours_at.built(dask_gpusort.take_along_axis, exchange, 2, x, at, 0),
        ours_at.built(dask_gpusort.take, exchange, 2, x, at),
        ours_at.built(dask_gpusort.put_along_axis, exchange, 2, x, at, 1, 0),
    ):
        with pytest.raises(IndexError, match=message):
            computed(found)
