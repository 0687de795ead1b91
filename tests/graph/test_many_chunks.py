"""Many small chunks on threads: neighbours are one run, the graph stays small, and Dask orders it in linear time."""

from __future__ import annotations

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
from support.marks import grid
from support.peaks import calls_of
from support.plans import num_tasks
from support.sorting import computed, groups

import dask_gpusort
from dask_gpusort.graph import collection
from dask_gpusort.order import Order
from dask_gpusort.plan import InputChunks, Workers, counting, make_plan
from dask_gpusort.plan import division as plan_runs

ON_GRAPHS = pytest.mark.skipif(da.array_expr_enabled(), reason="expressions have no layers")


@pytest.fixture(scope="module")
def one_run_a_chunk():
    """Not here."""


def runs_of_many_chunks():
    """Few threads, so that a run has several chunks of a small array."""
    return dask.config.set(num_workers=2)


@given(st.lists(st.integers(0, 1 << 21), min_size=1, max_size=200), st.integers(1, 9), st.integers(20, 40))
def test_kept_runs_take_little_of_a_worker_s_memory(sizes, threads, bits):
    made = make(tuple(sizes), "runs", workers=Workers(threads, 1 << bits, processes=2))
    assert [chunk for run in made.runs for chunk in run] == list(range(len(sizes)))
    most = min(plan_runs.RUN_BYTES, plan_runs.GROUP_MEMORY_FRACTION * (1 << bits))
    share = max(most / 8, sum(sizes) / len(sizes))
    for run, size in zip(made.runs, made.run_sizes, strict=True):
        assert len(run) == 1 or size <= share + max(sizes[chunk] for chunk in run)


def test_few_small_chunks_of_a_cluster_stay_on_their_workers():
    sizes = (540_000,) * 8
    assert len(make(sizes, "runs", workers=Workers(2, processes=2)).runs) == 8
    assert len(make(sizes, workers=Workers(2)).runs) < 8


def make(sizes, exchange="gather", workers=None, row_bytes=8, groups=4):
    order = Order(np.dtype("i8"))
    given = InputChunks(sizes, row_bytes - 8)
    workers = Workers(2) if workers is None else workers
    return make_plan(order, given, sizes, method="auto", exchange=exchange, workers=workers, groups=groups)


@given(st.lists(st.integers(0, 1 << 22), min_size=1, max_size=200), st.integers(1, 64), st.sampled_from((8, 24)))
def test_runs_are_neighbours_of_bounded_size(sizes, threads, row_bytes):
    made = make(tuple(sizes), workers=Workers(threads), row_bytes=row_bytes)
    assert [chunk for run in made.runs for chunk in run] == list(range(len(sizes)))
    # As many for each thread, and about equal: a chunk is in the part that has its middle.
    wanted = threads * max(1, -(-sum(sizes) * row_bytes // (threads * plan_runs.RUN_BYTES)))
    assert len(made.runs) <= wanted
    share = sum(sizes) / min(wanted, len(sizes))
    for run, size in zip(made.runs, made.run_sizes, strict=True):
        assert len(run) == 1 or size <= share + max(sizes[chunk] for chunk in run)


def test_chunks_of_unknown_sizes_and_on_a_device_are_runs_alone():
    sizes, alone = (10,) * 50, tuple((chunk,) for chunk in range(50))
    assert len(make(sizes).runs) < 50
    assert make((*sizes[1:], np.nan)).runs == alone
    assert make(sizes, workers=Workers(2, devices=True)).runs == alone
    assert make(sizes, workers=Workers(2, staging_memory=1 << 20)).runs == alone


def test_tasks_beside_the_output_do_not_grow_with_the_chunks():
    for chunks in (1_000, 100_000):
        made = make((10**7 // chunks,) * chunks)
        assert len(made.runs) <= 32
        assert num_tasks(made) - chunks < 120


def test_equal_keys_of_presorted_chunks_keep_their_order():
    array = (np.arange(8)[:, None] + np.arange(0, 100, 20)).ravel()
    with runs_of_many_chunks(), groups(3):
        x = da.from_array(array, chunks=5)
        found = computed(dask_gpusort.merge_sorted(x, key=lambda block: block // 20, exchange="gather"))
    np.testing.assert_array_equal(found, array[np.argsort(array // 20, kind="stable")])


def test_a_chunk_of_a_run_that_is_not_sorted_is_named():
    x = da.from_array(np.array([0, 1, 2, 3, 5, 4, 6, 7]), chunks=2)
    with runs_of_many_chunks(), groups(2), pytest.raises(ValueError, match="chunk 2 of array 0 is not sorted"):
        computed(dask_gpusort.merge_sorted(x, exchange="gather"))


def test_counts_are_added_up_some_at_a_time(monkeypatch):
    monkeypatch.setattr(counting, "TASK_SAMPLES", 1)
    monkeypatch.setattr(counting, "MOST_TASK_SAMPLES", 1)
    monkeypatch.setattr(counting, "FAN_IN", 3)
    array = ours.make("i8", 600, "few")
    monkeypatch.setattr(plan_runs, "RUN_BYTES", 1)
    with groups(6):
        found = dask_gpusort.argsort(da.from_array(array, chunks=30), exchange="gather")
        assert {key[0].rpartition("-")[0] for key in found.__dask_graph__() if isinstance(key, tuple)} >= {
            "sort-count",
            "sort-sum",
            "sort-keep",
        }
        oracle.assert_same_bits(computed(found), oracle.argsort(array))


def test_a_chunk_of_a_run_with_a_wrong_size_is_named():
    sizes = iter((10, 10, 9, 10))
    blocks = {("short", chunk): np.arange(next(sizes)) for chunk in range(4)}
    x = da.Array(blocks, "short", ((10,) * 4,), dtype="i8")
    with runs_of_many_chunks(), groups(2), pytest.raises(ValueError, match=r"chunk 2 .* \(9,\) where .* says \(10,\)"):
        computed(dask_gpusort.sort(x, exchange="gather"))


@ON_GRAPHS
@pytest.mark.parametrize("exchange", ["join", "gather"])
def test_chunks_that_the_graph_holds_are_no_keys_of_the_sort(exchange):
    array = ours.make("i8", 400)
    x, y = (da.from_array(keys, chunks=10) for keys in (array, array[::-1].copy()))
    with groups(4):
        found = dask_gpusort.lexsort((x, y), exchange=exchange)
    assert not any(key[0] in (x.name, y.name) for key in found.__dask_graph__())
    np.testing.assert_array_equal(computed(found), oracle.lexsort((array, array[::-1])))


def optimised(darr):
    return dict(collections_to_expr([darr]).optimize().__dask_graph__())


@ON_GRAPHS
@pytest.mark.parametrize("exchange", ["join", "gather"])
def test_many_first_and_last_tasks_are_ordered_as_one_last_task(exchange, monkeypatch):
    monkeypatch.setattr(collection, "MOST_ORDERED", 1_000)
    monkeypatch.setattr(collection, "no_result", lambda *chunks: pytest.fail("the last task was computed"))
    array = ours.make("i8", 400)
    with groups(4):
        found = dask_gpusort.sort(da.from_array(array, chunks=10) + 1, exchange=exchange)
    (last,) = set(optimised(found)) - {key for task in optimised(found).values() for key in task.dependencies}
    assert last[0].startswith("sort-end")
    np.testing.assert_array_equal(computed(found), np.sort(array) + 1)
    np.testing.assert_array_equal(computed(found + 1), np.sort(array) + 2)
    # Few output chunks are the last tasks themselves.
    assert not any(str(key[0]).startswith("sort-end") for key in optimised(found.blocks[:3]))


@ON_GRAPHS
@pytest.mark.parametrize("find", [dask_gpusort.sort, lambda x: dask_gpusort.lexsort((x, x))])
def test_many_chunks_are_ordered_in_linear_time(find):
    graphs = [optimised(find(da.ones(chunks * 300, chunks=300) + 1)) for chunks in (500, 4_000)]
    few, many = (calls_of(lambda graph=graph: dask.order.order(graph)) for graph in graphs)
    # Both have the one last task. 8 times as many chunks take 10.1 times as many calls, and 60 times without it.
    assert many < 12 * few


def _whole(found):
    return list(found) if isinstance(found, tuple) else [found]


#: Functions of which no task may contain what grows with the chunks.
CALLS = {
    "sort": lambda x: dask_gpusort.sort(x),
    "argsort": lambda x: dask_gpusort.argsort(x),
    "lexsort": lambda x: dask_gpusort.lexsort((x, x)),
    "sort_by_key": lambda x: dask_gpusort.sort_by_key(x, x),
    "merge_sorted": lambda x: dask_gpusort.merge_sorted(x, x),
    "quantile": lambda x: dask_gpusort.quantile(x, [0.1, 0.5], strategy="samples"),
    "topk": lambda x: dask_gpusort.topk(x, 5),
    "argtopk": lambda x: dask_gpusort.argtopk(x, 5),
    "partition": lambda x: dask_gpusort.partition(x, 9),
    "rank": lambda x: dask_gpusort.rank(x),
    "unique": lambda x: dask_gpusort.unique(x),
    "unique_all": lambda x: tuple(dask_gpusort.unique_all(x)),
    "nunique": lambda x: dask_gpusort.nunique(x),
    "union1d": lambda x: dask_gpusort.union1d(x, x),
    "intersect1d": lambda x: dask_gpusort.intersect1d(x, x, return_indices=True),
    "setdiff1d": lambda x: dask_gpusort.setdiff1d(x, x),
    "isin": lambda x: dask_gpusort.isin(x, x),
    "searchsorted": lambda x: dask_gpusort.searchsorted(x, x),
    "interp": lambda x: dask_gpusort.interp(x, x, x),
    "merge_asof": lambda x: dask_gpusort.merge_asof(x, x, x, by=(x, x)),
    "join_indices": lambda x: dask_gpusort.join_indices(x, x, "outer"),
    "join_indices of several": lambda x: dask_gpusort.join_indices((x, x), (x, x), "right"),
    "take": lambda x: dask_gpusort.take(x, x.astype(int)),
    "to_zarr": lambda x: dask_gpusort.to_zarr(x[x > 9], {}, compute=False),
}


@ON_GRAPHS
@pytest.mark.parametrize(("name", "exchange"), grid(list(CALLS), ["tasks", "auto"]))
def test_pickled_tasks_grow_with_the_chunks_alone(name, exchange):
    sent = []
    for chunks in (100, 200):
        with dask.config.set({"gpusort.exchange": exchange, "gpusort.held_share": 0}):
            (*found,) = dask.optimize(*_whole(CALLS[name](da.arange(chunks * 10, chunks=10, dtype=float))))
        tasks = {key: task for one in found for key, task in one.__dask_graph__().items()}
        sent.append(sum(len(cloudpickle.dumps(task)) for task in tasks.values()))
    assert sent[1] < 2.3 * sent[0]
