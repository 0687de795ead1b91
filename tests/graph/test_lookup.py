"""Graphs of searches: how many tasks they have, on every scheduler, and that each needle moves once."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import computed

import dask_gpusort
from dask_gpusort.chunk.run import Run
from dask_gpusort.graph.search import lookup


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
    with dask.config.set({"gpusort.groups": 4}):
        lazy = dask_gpusort.searchsorted(x, v)
    # Each group is joined and measured; the needles, one bundle here, have two tasks in each group.
    assert num_tasks(lazy, x, v) == 64 + 2 * 4 + 1 + (1 + 2 * 4 + 1)


def test_several_bundles(monkeypatch):
    made = []
    monkeypatch.setattr(lookup, "sort_needles", lambda *given: made.append(found := SORT(*given)) or found)
    monkeypatch.setattr("dask_gpusort.plan.search.GROUP_SHARE", 1e-6)
    monkeypatch.setattr("dask_gpusort.graph.runtime.host_memory", lambda: 6 << 30)
    x, v, keys, needles = arrays(64)
    with dask.config.set({"gpusort.groups": 4, "num_workers": 1}):
        lazy = dask_gpusort.searchsorted(x, v.reshape(64, 100))
    assert (computed(lazy) == np.searchsorted(keys, needles).reshape(64, 100)).all()
    assert 1 < len(made) < 64
    assert sum(len(bundle.run) for bundle in made) == len(needles)
    for bundle in made:
        assert [bundle.cuts[0], bundle.cuts[-1]] == [0, len(bundle.run)]
        assert bundle.cuts == sorted(bundle.cuts)


SORT = lookup.sort_needles


def test_needles_that_change_are_refused():
    run = Run(np.arange(5), (np.arange(5),))
    for found in (np.arange(4), np.arange(1), np.arange(6)):
        with pytest.raises(RuntimeError, match=f"{len(found)} needles were looked up, of 5 .*persist"):
            lookup.scatter_found(lookup.Bundle(run, [0, 5], [(5,)]), [found])
