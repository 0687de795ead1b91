"""Graphs: building them computes nothing, they are small, and every stage gives the right result."""

from __future__ import annotations

import pickle
import sys

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.peaks import calls_of, peak_of
from support.plans import num_tasks, plans_of
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.chunk.run import Run
from dask_gpusort.functions.sort import Finish
from dask_gpusort.order import Order

EXCHANGES = ("join", "gather", "tasks", "device")


def tasks_of(darr):
    return dict(darr.__dask_graph__())


def own_tasks(darr):
    """Tasks of the sort without the tasks of its input."""
    return [
        key for key in tasks_of(darr) if str(key[0] if isinstance(key, tuple) else key).startswith(("sort", "argsort"))
    ]


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("count", [None, 64])
@pytest.mark.parametrize("find", [dask_gpusort.sort, dask_gpusort.argsort])
def test_tasks_and_the_work_to_make_them_are_linear_in_the_chunks(exchange, count, find):
    calls, counts = [], []
    for chunks in (200, 2000):
        x = da.zeros(chunks * 10, chunks=10)
        with groups(count):
            calls.append(calls_of(lambda x=x: tasks_of(find(x, exchange=exchange))))
            counts.append(len(own_tasks(find(x, exchange=exchange))))
    assert calls[1] <= 10.5 * calls[0]
    assert counts[1] <= 10.5 * counts[0]
    # Each stage has one or two tasks a chunk. The exchange by tasks adds a shard for each group and 16 chunks.
    assert counts[1] <= (6 if exchange == "gather" else 6 + 64 / 16 + 1) * 2000


@pytest.mark.parametrize("chunks", [32, 200])
def test_a_sort_takes_little_more_than_two_copies(chunks):
    """Output chunks and the result, or sorted chunks and groups. One task runs at a time, so in one order."""
    size = 2_000_000 // chunks

    def draw(block_id):
        return np.random.default_rng(block_id[0]).integers(0, 1 << 62, size)

    x = da.map_blocks(draw, chunks=((size,) * chunks,), dtype="i8", meta=np.empty(0, "i8"))
    with dask.config.set({"num_workers": 2, "gpusort.merged_runs": 0}):  # sorts last, also where merges are faster
        found = dask_gpusort.sort(x, exchange="gather")
    assert peak_of(lambda: computed(found)) <= 2.3 * x.nbytes


@pytest.mark.parametrize("least", [800, 801])
def test_memory_of_large_runs_returns_to_the_system(monkeypatch, least):
    returned = []
    monkeypatch.setattr("dask_gpusort.chunk.memory.RETURNED_BYTES", least)
    monkeypatch.setattr("dask_gpusort.chunk.memory.return_free_memory", lambda: returned.append(least))
    with groups(2):
        computed(dask_gpusort.sort(da.arange(100, chunks=10), exchange="gather"))
    assert returned == [800] * (least == 800)


@pytest.mark.parametrize("held", [True, False])
def test_memory_of_chunks_that_tasks_have_made_returns_before_they_are_sorted(monkeypatch, held):
    returned = []
    monkeypatch.setattr("dask_gpusort.builders.sort_last.RETURNED_BYTES", 800)
    monkeypatch.setattr("dask_gpusort.builders.sort_last.return_free_memory", lambda: returned.append(held))
    x = da.arange(100, chunks=10)
    with groups(2), dask.config.set({"gpusort.merged_runs": 0}):
        found = dask_gpusort.sort(x.persist() if held else x, exchange="gather")
    tasks = tasks_of(found)
    computed(found)
    assert any(str(key[0]).startswith("sort-scan") for key in tasks)
    assert returned == [False] * (not held)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("method", ["radix", "merge"])
@given(data=st.data())
def test_the_plan_counts_the_tasks(exchange, method, data):
    size = data.draw(st.integers(2, 300))
    x = da.zeros(size, chunks=data.draw(st.integers(1, size - 1)), dtype="i4")
    with groups(data.draw(st.integers(1, 20))):
        found = dask_gpusort.sort(x, exchange=exchange, method=method)
        (plan,) = plans_of(dask_gpusort.sort, x, exchange=exchange, method=method)
    assert num_tasks(plan) == len(own_tasks(found))


def test_a_function_that_is_defined_again_gives_other_names(monkeypatch):
    """As in a notebook: the function of the same name and module is another one."""
    found = []
    for less in (lambda a, b: a < b, lambda a, b: a > b):
        less.__name__ = less.__qualname__ = "less"
        less.__module__ = "__main__"
        monkeypatch.setattr(sys.modules["__main__"], "less", less, raising=False)
        found.append(dask_gpusort.sort(da.arange(10, chunks=5), less=less).name)
    assert found[0] != found[1]


def test_dependencies_of_a_task_stay_small():
    # A task that depends on all sorted chunks would collect the array on one worker.
    with groups(16):
        found = dask_gpusort.sort(da.zeros(400 * 10, chunks=10), exchange="tasks")
    for key, task in tasks_of(found).items():
        assert sum(str(name[0]).startswith("sort-local") for name in task.dependencies) <= 16, key


def test_graphs_are_lazy_and_small_until_materialised():
    with groups(64):
        found = dask_gpusort.sort(da.zeros(5000 * 10, chunks=10, dtype="i8"), exchange="tasks")
    layers = found.__dask_graph__().layers
    sorting = {name: layer for name, layer in layers.items() if name.startswith("sort")}
    assert sorting
    assert not any(layer.is_materialized() for layer in sorting.values())
    # The plan holds the chunk sizes. Nothing else grows with the number of chunks.
    assert all(len(cloudpickle.dumps(layer)) < 40 * 5000 for layer in sorting.values())


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
@pytest.mark.parametrize("materialised", [False, True])
def test_graphs_can_be_pickled(dumps, materialised):
    array = ours.make("f8", 300, "special")
    x = da.from_array(array, chunks=40)
    with groups(4):
        for exchange in EXCHANGES:
            found = dask_gpusort.sort(x, exchange=exchange, stable=True)
            if materialised:
                tasks_of(found)
            copy = pickle.loads(dumps(found))
            assert copy.name == found.name
            oracle.assert_same_bits(computed(copy), oracle.sort(array))


@pytest.mark.parametrize("fuse", [False, True, None])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_with_and_without_fusion(fuse, exchange):
    array = ours.make("i8", 300)
    with dask.config.set({"optimization.fuse.active": fuse}), groups(4):
        x = da.from_array(array, chunks=40) + 1
        found = dask_gpusort.sort(x, exchange=exchange) - 1
        oracle.assert_same_bits(computed(found), np.sort(array))


def test_names_of_keys_can_be_grouped_by_a_dashboard():
    with groups(4), dask.config.set({"gpusort.merged_runs": 0}):
        names = {
            dask.utils.key_split(key) for key in own_tasks(dask_gpusort.sort(da.zeros(90, chunks=9), exchange="gather"))
        }
    assert {"sort-sample", "sort-count", "sort-scan", "sort-merge"} <= names
    assert all(name.replace("-", "").isalpha() for name in names)


def test_two_outputs_share_their_stages():
    x = da.from_array(ours.make("i8", 100), chunks=10)
    with groups(3):
        first, second = dask_gpusort.sort_by_key(x, x)
    shared = set(own_tasks(first)) & set(own_tasks(second))
    # Only the output chunks have separate tasks.
    assert len(own_tasks(first)) - len(shared) == first.npartitions


def test_an_output_chunk_needs_only_its_group():
    with groups(10):
        found = dask_gpusort.sort(da.zeros(1000, chunks=10), exchange="tasks")
    part = found.blocks[0]
    graph = tasks_of(dask.optimize(part)[0])
    assert sum(str(key[0]).startswith("sort-merge") for key in graph if isinstance(key, tuple)) <= 1


class First:
    """An object that is before all others, itself included."""

    def __lt__(self, other):
        return True


@pytest.mark.parametrize("function", [dask_gpusort.sort, dask_gpusort.argsort])
def test_objects_that_contradict_themselves_between_chunks_are_refused(function):
    x = ours.forget_sizes(da.from_array(np.array([First() for _ in range(6)]), chunks=2))
    with groups(3), pytest.raises(ValueError, match="contradicts itself.*of Python objects"):
        computed(function(x))


@pytest.mark.parametrize("kept", [slice(-1, 1), slice(1, 3), slice(2, 1)])
def test_cuts_that_no_order_has_are_refused(kept):
    finish = Finish(Order(np.dtype("u8")), with_keys=True, with_positions=False)
    with pytest.raises(ValueError, match="contradicts itself.*strict weak order"):
        finish([(0, Run(np.array([1, 2], "u8")))], kept)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_output_chunks_keep_no_group_alive(exchange):
    with groups(1):
        found = dask_gpusort.sort(da.from_array(ours.make("i8", 1000), chunks=10), exchange=exchange)
    blocks = dask.compute(*found.to_delayed().ravel(), scheduler="synchronous")
    for block in blocks:
        base = block if block.base is None else block.base
        assert base.nbytes <= 2 * block.nbytes
