"""Graphs of searches: how many tasks they have, on every scheduler, and that each needle moves once."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import computed

import dask_gpusort
from dask_gpusort.chunk.checks import declared_chunks
from dask_gpusort.drivers.turns import Blocks, Listed, Store, check_same, take_turn
from dask_gpusort.functions.lookup import Keys, Needles, Question
from dask_gpusort.order import Order


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


@pytest.mark.parametrize("side", [0, 1])
def test_what_changed_when_it_was_made_again_is_refused(side):
    """By tasks, where no runs have checksums: other needles, and another number of keys."""
    step = (Needles, Keys)[side](Question(Order(np.dtype(int), stable=True), "left", joined=False))
    others = (np.arange(1, 6), np.arange(6))[side]
    own, same, other = (
        take_turn(step, 0, Store(), Blocks([one], declared_chunks("x", one.dtype, [one.shape])), None, None)
        for one in (np.arange(5), np.arange(5), others)
    )
    # Needles are listed once they are cut.
    listed = Listed(None, {step.side: [own.mark]}, [], None, None)
    check_same(step, 0, same, listed)
    check_same(step, 0, other, Listed(None, {}, [], None, None))
    with pytest.raises(RuntimeError, match="chunk 0 of x is not what it was .*persist"):
        check_same(step, 0, other, listed)
