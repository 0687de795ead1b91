"""Tests of the graph of `topk`: its tree of merges."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from dask.core import get_deps

import dask_gpusort
from dask_gpusort.builders import top


def tasks_of(darr, prefix):
    graph = dict(darr.__dask_graph__())
    dependencies, _ = get_deps(graph)
    return {key: dependencies[key] for key in graph if isinstance(key, tuple) and key[0].startswith(f"{prefix}-")}


def levels(darr):
    """How many candidates each merge takes, by level, the last merge at the end."""
    merges = tasks_of(darr, "top-merge")
    found = {}
    for key in sorted(merges, key=lambda key: key[1:]):
        found.setdefault(key[1], []).append(len(merges[key]))
    (last,) = tasks_of(darr, "top-sort").values()
    return [*found.values(), [len(last)]]


@pytest.mark.parametrize(
    ("chunks", "fan_in", "wanted"),
    [
        (1, 4, [[1]]),
        (4, 4, [[4]]),
        (5, 4, [[4, 1], [2]]),
        (9, 2, [[2, 2, 2, 2, 1], [2, 2, 1], [2, 1], [2]]),
        (33, 32, [[32, 1], [2]]),
    ],
)
def test_no_task_merges_more_than_the_fan_in(chunks, fan_in, wanted):
    x = da.arange(chunks * 10, chunks=10)
    found = dask_gpusort.topk(x, 3, split_every=fan_in)
    assert len(tasks_of(found, "top-select")) == chunks
    assert levels(found) == wanted


@pytest.mark.parametrize(
    ("sizes", "count", "wanted"),
    [((1000,), 1, 32), ((10, 1000, 10), 100, 10), ((1000,), 600, 4), ((1000,), 0, 32), ((float("nan"),), 1, 4)],
)
def test_merges_by_default_take_no_more_keys_than_a_chunk_has(sizes, count, wanted):
    assert top._fan_in(sizes, count) == wanted
    with dask.config.set(split_every=6):
        assert top._fan_in(sizes, count) == max(wanted, 6)


def test_both_functions_have_the_same_tasks():
    x = da.arange(100, chunks=10)
    keys, positions = dask_gpusort.topk(x, 3), dask_gpusort.argtopk(x, 3)
    shared = dict(keys.__dask_graph__()).keys() & dict(positions.__dask_graph__()).keys()
    assert tasks_of(keys, "top-select").keys() | tasks_of(keys, "top-sort").keys() <= shared
    assert tasks_of(dask_gpusort.topk(x, 4), "top-select").keys().isdisjoint(shared)


@pytest.mark.parametrize(("mode", "k"), [("largest", 3), ("smallest", -3)])
def test_values_and_indices_are_selected_once(mode, k):
    x = da.arange(100, chunks=10)
    values, indices = dask_gpusort.top_k(x, 3, mode=mode)
    shared = dict(values.__dask_graph__()).keys() & dict(indices.__dask_graph__()).keys()
    assert tasks_of(values, "top-select").keys() | tasks_of(values, "top-sort").keys() <= shared
    assert tasks_of(dask_gpusort.topk(x, k), "top-sort").keys() <= shared


def test_selections_hold_no_view_of_their_chunk():
    block = np.arange(1000.0)
    x = da.from_array(block, chunks=-1)
    found = dask_gpusort.topk(x, 2)
    graph = dict(found.__dask_graph__())
    (select,) = tasks_of(found, "top-select")
    keys = dask.get(graph, select).turns[0].note[0]
    assert keys.base is None or keys.base.nbytes < block.nbytes
