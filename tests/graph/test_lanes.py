"""Order statistics by chunks that hold whole lanes: NumPy's results over axes, chunkings and chunks that are wrong."""

from __future__ import annotations

import math

import dask
import dask.array as da
import numpy as np
import pytest
from dask.base import tokenize
from hypothesis import given
from hypothesis import strategies as st
from support import strategies as ours
from support.sorting import check_sizes, computed

from dask_gpusort.builders import statistics as build
from dask_gpusort.builders.statistics import reduce_blocks
from dask_gpusort.graph import runtime
from dask_gpusort.graph.inputs import chunk_limit, whole_axes
from dask_gpusort.plan.terms import Workers
from dask_gpusort.table import Statistic


def test_whole_lanes_are_not_rechunked_and_one_task_a_chunk():
    x = da.zeros((100, 10, 6), chunks=(10, -1, 3))
    for statistic in (Statistic.median(), Statistic.quantiles([0.1, 0.5])):
        for keepdims in (False, True):
            found = reduce_blocks(x, statistic, (1,), keepdims)
            check_sizes(found)
            assert len(dict(found.__dask_graph__())) == 2 * math.prod(x.numblocks)


def test_the_same_statistic_has_the_same_name():
    x = da.zeros((10, 10), chunks=(5, -1))
    names = {reduce_blocks(x, Statistic.quantiles([0.1, 0.5]), (1,), False).name for _ in range(2)}
    assert len(names) == 1
    assert names != {reduce_blocks(x, Statistic.quantiles([0.1, 0.6]), (1,), False).name}
    assert tokenize(Statistic.quantiles(0.5)) != tokenize(Statistic.quantiles(np.float64(0.5)))


@given(st.data(), st.tuples(*[st.integers(1, 20)] * 3), st.sets(st.integers(0, 2), min_size=1))
def test_chunks_of_whole_lanes_respect_the_limit(data, shape, axes):
    x = da.zeros(shape, chunks=data.draw(ours.chunkings(shape)), dtype="i8")
    with dask.config.set({"array.chunk-size": "512B"}):
        limit = chunk_limit(x)
    chosen = whole_axes(x, axes, 8, limit)
    assert all(chosen[axis] == (shape[axis],) for axis in axes)
    largest = math.prod(max(sizes) for sizes in chosen.values()) * 8
    lane = math.prod(shape[axis] for axis in axes) * 8
    # Dask's automatic chunks exceed the limit slightly when no divisor fits.
    assert largest <= max(1.25 * limit, lane)


@pytest.mark.parametrize(("memory", "most"), [(None, 32 << 20), (8 << 30, 32 << 20), (512 << 20, 8 << 20)])
def test_chunks_of_whole_lanes_suit_the_memory_of_workers(monkeypatch, memory, most):
    monkeypatch.setattr(runtime, "workers_in_use", lambda *_: Workers(2, memory))
    x = da.zeros((100, 1 << 20), chunks=(10, 1 << 16), dtype="f4")
    found = build.build_statistic(x, Statistic.median(), (0,), False, "auto")
    assert 0.75 * most <= 400 * max(found.chunks[0]) <= 1.25 * most


def test_unknown_sizes():
    array = np.arange(60.0).reshape(10, 6)
    x = ours.forget_sizes(da.from_array(array, chunks=(3, -1)))
    if not da.array_expr_enabled():  # with query planning, Dask computes no array of unknown size
        found = computed(reduce_blocks(x, Statistic.median(), (1,), False))
        np.testing.assert_array_equal(found, np.median(array, axis=1))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        reduce_blocks(x, Statistic.median(), (0,), False)


def test_chunks_that_are_not_as_declared_are_refused():
    x = da.zeros((4, 6), chunks=(2, -1))
    longer = x.map_blocks(lambda block: np.zeros((2, 7)), dtype=x.dtype, meta=x._meta)
    with pytest.raises(ValueError, match=r"shape \(2, 7\) where its array says \(nan, 6\)"):
        computed(reduce_blocks(longer, Statistic.median(), (1,), False))


def test_objects_are_rechunked_by_the_size_of_their_references():
    array = np.array([[3, 1, 2], [6, 4, 5]], object)
    found = reduce_blocks(da.from_array(array, chunks=(1, 2)), Statistic.quantiles(0.5, "lower"), (1,), False)
    np.testing.assert_array_equal(computed(found), [2, 5])
