"""Searches, reads and writes at positions: how many tasks they have, several bundles, and reads by one task."""

from __future__ import annotations

import sys

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import positions as ours_at
from support import strategies as ours
from support.sorting import check_sizes, computed

import dask_gpusort
from dask_gpusort.builders.blocks import take_at_once


def num_tasks(array, *inputs):
    """Tasks of an array without those of its inputs."""
    (array,) = dask.optimize(array)
    sources = {key for one in inputs for key in dict(one.__dask_graph__())}
    return len(set(dict(array.__dask_graph__())) - sources)


def arrays(chunks, size=6400):
    keys, needles = np.sort(ours.make("i8", size, "zipf")), ours.make("i8", size, "zipf", seed=1)
    return da.from_array(keys, chunks=size // chunks), da.from_array(needles, chunks=size // chunks), keys, needles


def test_tasks_are_linear_in_chunks():
    for chunks in (16, 64):
        x, v, *_ = arrays(chunks)
        with dask.config.set(num_workers=2):
            assert num_tasks(dask_gpusort.searchsorted(x, v), x, v) == chunks + 1
        assert num_tasks(dask_gpusort.isin(v, x), x, v) == chunks + 1


def test_tasks_of_groups():
    x, v, *_ = arrays(64)
    for exchange, tasks in (
        # Each group is joined; the needles are one bundle here, which has all groups.
        ("auto", 4 + 1 + 1),
        # By tasks the keys of a group have a note each; needles have two tasks in each group.
        ("tasks", 2 * 4 + 1 + (3 + 2 * 4) + 1),
    ):
        with dask.config.set({"gpusort.groups": 4, "gpusort.exchange": exchange}):
            lazy = dask_gpusort.searchsorted(x, v)
        assert num_tasks(lazy, x, v) == 64 + tasks


@pytest.mark.parametrize("exchange", ["auto", "tasks"])
def test_several_bundles(monkeypatch, exchange):
    monkeypatch.setattr("dask_gpusort.plan.search.GROUP_SHARE", 1e-6)
    monkeypatch.setattr("dask_gpusort.graph.runtime.host_memory", lambda: 6 << 30)
    x, v, keys, needles = arrays(64)
    with dask.config.set({"gpusort.groups": 4, "num_workers": 1, "gpusort.exchange": exchange}):
        lazy = dask_gpusort.searchsorted(x, v.reshape(64, 100))
    assert (computed(lazy) == np.searchsorted(keys, needles).reshape(64, 100)).all()
    assert 1 < sum(key[0].startswith("search-scatter") for key in lazy.dask) < 64


def test_the_size_of_requests_is_known_to_dask():
    tasks = ours_at.built(dask_gpusort.take_along_axis, "tasks", 1, *[da.arange(1000, chunks=500)] * 2, 0).dask
    (key,) = [key for key in tasks if key[0].startswith("take-requests") and "note" not in key[0]]
    (made,) = dask.get(dict(tasks), [key])
    assert 12_000 <= sys.getsizeof(made) <= 13_000


@pytest.mark.parametrize("chunks", [64, 256])
def test_tasks_grow_with_the_chunks(chunks):
    x = da.zeros(chunks * 4, chunks=4)
    at = da.zeros(chunks * 4, chunks=4, dtype=int)
    found = ours_at.built(dask_gpusort.take_along_axis, "tasks", 8, x, at, 0)
    assert len(dict(found.dask)) <= 3 * chunks + 2 * 8 * 8 + 4 * 8 + 1
    found = ours_at.built(dask_gpusort.put_along_axis, "tasks", 8, x, at, x, 0)
    assert len(dict(found.dask)) <= 4 * chunks + 2 * 8 * 8 + 4 * 8
    assert len(dict(ours_at.built(dask_gpusort.take_along_axis, "gather", None, x, at, 0).dask)) <= 6 * chunks


@given(st.data())
def test_one_task_takes_all_chunks(data):
    array = ours.make(data.draw(st.sampled_from(ours.EVERY)), data.draw(st.integers(1, 40)), "bits")
    array = array.reshape((-1, *data.draw(st.sampled_from([(), (1,)]))))
    spread, mode = (data.draw(st.sampled_from(one)) for one in (["random", "few"], ["raise", "wrap", "clip"]))
    dtype = data.draw(st.sampled_from(ours_at.INDEX_DTYPES))
    indices = ours_at.indices_below(len(array), (data.draw(st.integers(0, 40)),), dtype, 0, spread)
    x, at = (
        ours_at.chunked(data.draw, array).rechunk({1: -1} if array.ndim > 1 else {}),
        ours_at.chunked(data.draw, indices),
    )
    if data.draw(st.booleans()):
        x = x.persist(scheduler="synchronous")
    chunks = at.chunks
    if data.draw(st.booleans()):  # of unknown sizes
        at = at[da.ones(len(indices), chunks=at.chunks, dtype=bool)]
    found = take_at_once(x, at, 0, mode, ())
    assert sum(str(key[0]).startswith("take-join") for key in dict(found.dask)) == (at.npartitions > 1)
    oracle.assert_same_bits(computed(found), array.take(indices, axis=0, mode=mode))
    check_sizes(found, (*chunks, *x.chunks[1:]))


def test_one_task_refuses_chunks_and_indices_that_are_not_what_they_say():
    x, at = da.arange(10, chunks=4), da.arange(6, chunks=3)
    for wrong, error in (
        (at + 5, "index 10 is out of bounds"),
        (at.map_blocks(lambda one: one[1:], dtype=at.dtype), "true chunks="),
    ):
        with pytest.raises((IndexError, ValueError), match=error):
            take_at_once(x, wrong, 0, "raise", ()).compute(scheduler="synchronous")
    wrong = x.map_blocks(lambda one: one[1:], dtype=x.dtype)
    with pytest.raises(ValueError, match=r"chunk 0 of the input has shape \(3,\)"):
        take_at_once(wrong, at, 0, "raise", ()).compute(scheduler="synchronous")
