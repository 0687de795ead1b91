"""Sorts along one axis of several dimensions: the strategy chosen, and rows that stay separate."""

from __future__ import annotations

import math

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.sorting import computed

import dask_gpusort
from dask_gpusort.builders.request import Keys, Request, pack_keys
from dask_gpusort.builders.rows import _whole_rows, choose_rows
from dask_gpusort.graph.inputs import chunk_limit
from dask_gpusort.graph.runtime import Runtime
from dask_gpusort.order import Order


def keys_of(darr):
    return Keys(darr, Order(darr.dtype))


def strategy_of(keys, axis, exchange="auto"):
    return choose_rows(Request(keys.order, "keys", "auto", Runtime.of(keys.array), exchange), keys, (), axis)[0]


@pytest.mark.parametrize(
    ("shape", "chunks", "axis", "strategy"),
    [
        ((8, 8), (2, 8), 1, "blocks"),
        ((8, 8), (2, 8), 0, "rechunk"),
        ((8,), (8,), 0, "blocks"),
        ((8,), (2,), 0, "rechunk"),
    ],
)
def test_where_rows_are_sorted(shape, chunks, axis, strategy):
    x = da.zeros(shape, chunks=chunks)
    for keys in (keys_of(x), pack_keys([x, x], (False, True))):
        assert strategy_of(keys, axis) == strategy
        # Rows of several chunks, and an array of one chunk, are joined on request.
        joined = "blocks" if x.numblocks[axis] == 1 < x.numblocks[0] else "join"
        assert strategy_of(keys, axis, "join") == joined


def test_a_row_may_be_as_large_as_the_largest_chunk():
    x = da.zeros((4, 100), chunks=(4, 50))
    with dask.config.set({"array.chunk-size": "8B"}):
        assert chunk_limit(x) == 4 * 50 * 8
        assert strategy_of(keys_of(x), 1) == "rechunk"
        assert strategy_of(keys_of(x.rechunk((1, 50))), 1) == "exchange"


@given(st.data(), st.integers(1, 40), st.integers(1, 40))
def test_intermediate_chunks_respect_the_limit(data, rows, columns):
    x = da.zeros((rows, columns), chunks=data.draw(ours.chunkings((rows, columns))), dtype="i8")
    with dask.config.set({"array.chunk-size": "512B"}):
        limit = chunk_limit(x)
        whole = _whole_rows(keys_of(x), (), 1)
    assert whole[1] == (columns,)
    largest = math.prod(max(sizes) for sizes in whole.values()) * 8
    # Dask's automatic chunks exceed the limit slightly when no divisor fits.
    assert largest <= max(1.25 * limit, columns * 8)


@pytest.mark.parametrize("dtype", ["i8", "f2", "U3", "c16", "S5"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_chunks_that_repeat_their_memory(dtype, axis):
    view = np.broadcast_to(ours.make(dtype, 42, "special").reshape(1, 6, 7), (5, 6, 7))
    for chunks in (-1, 3):
        found = computed(dask_gpusort.sort(ours.dask_array(view, chunks), axis, stable=True))
        oracle.assert_same_bits(found, oracle.sort(view, axis))


def test_whole_rows_need_few_tasks():
    x = da.zeros((100, 100), chunks=(1, 100))
    assert len(dict(dask_gpusort.sort(x, 1).__dask_graph__())) <= 3 * 100
    text = dask_gpusort.explain(x, 1).detail
    assert "blocks" in text
    assert "100 of 100 keys, each in 1 chunk" in text


@pytest.mark.parametrize(
    ("chunks", "axis", "unknown", "limit"),
    [
        ((3, -1), 1, (0, 1), "128MiB"),
        ((-1, 2), 0, (0, 1), "128MiB"),
        ((4, 3), 1, (0,), "128MiB"),
        ((4, -1), 1, (0,), "128MiB"),
        ((1, 2), 1, (0,), "8B"),
    ],
)
def test_unknown_sizes(chunks, axis, unknown, limit):
    array = ours.make("f4", 60, "special").reshape(10, 6)
    with dask.config.set({"array.chunk-size": limit}):
        x = ours.forget_sizes(da.from_array(array, chunks=chunks), unknown)
        oracle.assert_same_bits(computed(dask_gpusort.sort(x, axis, stable=True)), oracle.sort(array, axis))


@pytest.mark.parametrize("dtype", ["V0", np.dtype([])])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_items_of_zero_bytes(dtype, axis):
    array = np.zeros((4, 6), dtype)
    x = da.from_array(array, chunks=(2, 3), name=False)
    oracle.assert_same_bits(computed(dask_gpusort.sort(x, axis)), np.sort(array, axis))
    oracle.assert_same_bits(computed(dask_gpusort.argsort(x, axis)), np.argsort(array, axis, kind="stable"))
    if axis is not None:
        assert dask_gpusort.sort(x, axis, chunks=(4, 2)).chunks == ((4,), (2, 2, 2))
