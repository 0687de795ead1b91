"""Tests of `topk` and `argtopk`: the beginning of a stable sort, in one chunk along the axis."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
from support import oracle
from support import strategies as ours

import dask_gpusort


def first(array, k, axis=-1):
    """The positions of the first keys in the order of a stable sort."""
    positions = oracle.argsort(array, axis, descending=k > 0)
    return positions.take(range(min(abs(k), array.shape[axis])), axis=axis)


def compute_all(*arrays):
    return dask.compute(*arrays, scheduler="synchronous")


def test_rows_of_values_stay_whole():
    keys = ours.make("i2", 90, "small")
    value = np.arange(270).reshape(90, 3)
    x, y = da.from_array(keys, chunks=20), da.from_array(value, chunks=(7, 2))
    wanted = first(keys, -11)
    for values in ((y,), [y], y):
        got = compute_all(*dask_gpusort.topk(x, -11, values=values))
        oracle.assert_same_bits(got[0], keys[wanted])
        oracle.assert_same_bits(got[1], value[wanted])


def test_keys_and_positions_computed_together_read_each_chunk_once():
    read = []

    def source(block):
        read.append(len(block))
        return block

    x = da.from_array(np.arange(40.0), chunks=4).map_blocks(source, meta=np.empty(0))
    read.clear()
    keys, positions = compute_all(dask_gpusort.topk(x, 3), dask_gpusort.argtopk(x, 3))
    assert keys.tolist() == [39, 38, 37]
    assert positions.tolist() == [39, 38, 37]
    assert read == [4] * 10
