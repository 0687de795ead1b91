"""Graphs: building them computes nothing, they are small, and every stage gives the right result."""

from __future__ import annotations

import dataclasses
import pickle
from itertools import pairwise

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from dask.base import collections_to_expr
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support import strategies as ours
from support.peaks import calls_of, peak_of
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.chunk.run import Run
from dask_gpusort.graph._dask import TaskRef
from dask_gpusort.graph.explain import plans_of
from dask_gpusort.graph.sort import scan
from dask_gpusort.graph.sort.scatter import cut_run
from dask_gpusort.graph.tasks import Tasks
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, counting, make_plan

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
    with dask.config.set(num_workers=2):
        found = dask_gpusort.sort(x, exchange="gather")
    assert peak_of(lambda: computed(found)) <= 2.3 * x.nbytes


@pytest.mark.parametrize("least", [800, 801])
def test_memory_of_large_runs_returns_to_the_system(monkeypatch, least):
    returned = []
    monkeypatch.setattr("dask_gpusort.graph.sort.scatter.RETURNED_BYTES", least)
    monkeypatch.setattr("dask_gpusort.graph.sort.scatter.return_free_memory", lambda: returned.append(least))
    with groups(2):
        computed(dask_gpusort.sort(da.arange(100, chunks=10), exchange="gather"))
    assert returned == [800] * (least == 800)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("method", ["radix", "merge"])
@given(data=st.data())
def test_the_plan_counts_the_tasks(exchange, method, data):
    size = data.draw(st.integers(2, 300))
    x = da.zeros(size, chunks=data.draw(st.integers(1, size - 1)), dtype="i4")
    with groups(data.draw(st.integers(1, 20))):
        found = dask_gpusort.sort(x, exchange=exchange, method=method)
        (plan,) = plans_of(dask_gpusort.sort, x, exchange=exchange, method=method)
    assert plan.num_tasks == len(own_tasks(found))


@pytest.mark.parametrize("dtype", ["i8", "u1", "S5"])
def test_counting_tasks_read_at_most_the_planned_bytes(dtype, monkeypatch):
    # With so small a table, a tree of several levels keeps few entries.
    monkeypatch.setattr(counting, "TABLE_BYTES", 1 << 18)
    chunks, size = 1100, 40
    array = ours.make(dtype, chunks * size)
    # With so many threads, each chunk is a run.
    plan = plan_of(array, (size,) * chunks, count=6, threads=chunks)
    assert len(plan.tree) == 3
    assert plan.table_bytes <= 1 << 18
    runs = sorted_runs(array, plan)
    tasks = Tasks("token")
    scan.find_cuts(tasks, plan, list(map(TaskRef, runs)))
    values = dict(runs)
    read = {}
    for key, task in tasks.items():
        values[key] = task({name: values[name] for name in task.dependencies})
        if key[0] != "sort-count-token":
            read[key] = sum(table_bytes(values[name]) for name in task.dependencies)
    assert 0 < max(read.values()) <= plan.table_bytes
    # Without the tree, one task would read the summaries of all chunks.
    table_total = sum(table_bytes(value) for key, value in values.items() if key[:2] == ("sort-count-token", 0))
    assert max(read.values()) < table_total / 4


def table_bytes(value):
    """Bytes of all arrays in the result of a counting task."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, list):
        return sum(map(table_bytes, value))
    return sum(map(table_bytes, vars(value).values())) if dataclasses.is_dataclass(value) else 0


@pytest.mark.parametrize("method", ["radix", "merge"])
def test_rounds_do_not_grow_with_the_chunks(method):
    counts = {}
    for chunks in (100, 10_000, 100_000):
        sizes = (50_000,) * chunks
        # With so many threads, each chunk is a run.
        counts[chunks] = plan_of(np.empty(0, "i8"), sizes, method=method, count=128, threads=chunks).rounds
    assert set(counts.values()) == {1}


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


def test_graphs_are_optimised_and_pickled_as_for_a_cluster():
    array = ours.make("i8", 300)
    with dask.config.set({"optimization.fuse.active": False}), groups(4):
        found = dask_gpusort.sort(da.from_array(array, chunks=40))
        expression = pickle.loads(cloudpickle.dumps(collections_to_expr([found]).optimize()))
        got = dask.get(dict(expression.__dask_graph__()), found.__dask_keys__())
    oracle.assert_same_bits(np.concatenate(got), np.sort(array))


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


# The stages.


def plan_of(array, chunks, method="auto", out=None, count=3, stable=True, descending=False, threads=2):
    return make_plan(
        Order(array.dtype, descending, stable),
        InputChunks(chunks),
        chunks if out is None else out,
        method=method,
        exchange="gather",
        workers=Workers(threads),
        groups=count,
    )


def sorted_runs(array, plan):
    """Runs by name, like the results of the first stage."""
    blocks = [array[start:stop] for start, stop in pairwise(np.cumsum([0, *plan.run_sizes]))]
    return {
        ("run", number): numpy_ops.local_sort(block, (), plan.order, positions=False)
        for number, block in enumerate(blocks)
    }


def found_cuts(plan, runs):
    """Boundaries and the cuts of each run that the graph finds."""
    tasks = Tasks("token")
    found = scan.find_cuts(tasks, plan, list(map(TaskRef, runs)))
    boundaries, *cuts = dask.get({**tasks, **runs}, [ref.key for ref in (found.boundaries, *found.cuts)])
    first, last = (np.concatenate([getattr(some, name) for some in cuts]) for name in ("first", "last"))
    return boundaries, first, last


@given(st.data(), ours.arrays(sizes=st.integers(1, 80)), st.integers(1, 6), st.booleans())
def test_cuts_are_correct_for_every_dtype(data, array, count, descending):
    (chunks,) = data.draw(ours.chunkings(array.shape))
    method = data.draw(ours.options(array.dtype))["method"]
    stable = data.draw(st.booleans())
    plan = plan_of(array, chunks, method=method, count=count, stable=stable, descending=descending)
    boundaries, first, last = found_cuts(plan, sorted_runs(array, plan))
    sizes = plan.run_sizes
    assert first.shape == last.shape == (len(sizes), len(plan.groups) + 1)
    assert (np.diff(first, axis=1) >= 0).all()
    assert (first <= last).all()
    np.testing.assert_array_equal(first[:, 0], 0)
    np.testing.assert_array_equal(first[:, -1], sizes)
    np.testing.assert_array_equal(boundaries.starts, np.cumsum([0, *sizes]))
    ranks = scan.boundary_ranks(plan, np.array(sizes))
    np.testing.assert_array_equal(boundaries.ranks, [0, *ranks, len(array)])
    assert (first.sum(axis=0) <= boundaries.ranks).all()
    assert (boundaries.ranks <= last.sum(axis=0)).all()
    if stable:
        # The cuts of a stable sort are within the bounds.
        owner = np.repeat(np.arange(len(sizes)), sizes)[oracle.argsort(array, descending=descending)]
        for boundary, rank in enumerate(ranks):
            cut = np.bincount(owner[:rank], minlength=len(sizes))
            assert (first[:, boundary + 1] <= cut).all()
            assert (cut <= last[:, boundary + 1]).all()


@given(st.data(), st.integers(2, 60), st.integers(1, 3))
def test_further_rounds_narrow_the_cuts(data, size, rounds):
    array = ours.make("i4", 8 * size, data.draw(st.sampled_from(ours.DISTRIBUTIONS)), seed=size)
    made = plan_of(array, (size,) * 8, count=4)
    runs = sorted_runs(array, made)
    unresolved = []
    for number in (rounds, rounds + 1):
        plan = dataclasses.replace(made, rounds=number, samples=3, kept_samples=8, radix_bits=0)
        _, first, last = found_cuts(plan, runs)
        unresolved.append((last - first).sum())
    assert unresolved[1] <= unresolved[0]


def test_a_run_that_changed_is_refused():
    array = np.array([0, 1, 2, 3], "u8")
    order = Order(array.dtype)
    plan = dataclasses.replace(plan_of(array, (4,), count=2, out=(2, 2)), order=order)
    tasks = Tasks("token")
    found = scan.find_cuts(tasks, plan, [TaskRef("run")])
    boundaries, cuts = dask.get({**tasks, "run": Run(array)}, [found.boundaries.key, found.cuts[0].key])
    assert cut_run(Run(array), 0, (0,), cuts, boundaries, order).bounds(1) == (2, 4)
    # The run has another length, or the same length and other keys around the cut.
    for changed in ([0, 1, 2], [5, 6, 7, 8], [0, 0, 1, 1]):
        with pytest.raises(RuntimeError, match=r"chunk 0 .*persist"):
            cut_run(Run(np.array(changed, "u8")), 0, (0,), cuts, boundaries, order)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_output_chunks_keep_no_group_alive(exchange):
    with groups(1):
        found = dask_gpusort.sort(da.from_array(ours.make("i8", 1000), chunks=10), exchange=exchange)
    blocks = dask.compute(*found.to_delayed().ravel(), scheduler="synchronous")
    for block in blocks:
        base = block if block.base is None else block.base
        assert base.nbytes <= 2 * block.nbytes
