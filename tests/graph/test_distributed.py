"""Sorts on a cluster: every exchange, and the same bits as on threads."""

from __future__ import annotations

import asyncio
import re
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.gangs import until
from support.marks import grid
from support.sorting import groups

import dask_gpusort
from dask_gpusort.chunk import steps
from dask_gpusort.functions import sort as programs
from dask_gpusort.graph import exchanges
from dask_gpusort.plan import division
from dask_gpusort.table import digits

distributed = pytest.importorskip("distributed")
_distributed = pytest.importorskip("dask_gpusort.graph._distributed")

#: "device" has the graph of "tasks".
EXCHANGES = ("runs", "tasks", "gather", "gang")


@pytest.fixture
def client(on_cluster):
    return on_cluster


def test_auto_chooses_runs_if_the_memory_of_workers_is_unknown(client):
    x = da.zeros(100, chunks=10)
    used_for = {"auto": "runs", **{name: name for name in ("tasks", "runs", "gather", "device", "join")}}
    for asked, used in used_for.items():
        assert dask_gpusort.explain(x, exchange=asked).exchange == used


@pytest.mark.parametrize(("workers", "memory"), [(1, "64 MiB"), (2, "1 MiB")])
def test_auto_keeps_runs_on_workers_of_any_memory(workers, memory, monkeypatch):
    monkeypatch.setattr(division, "RUN_BYTES", 8 << 20)
    array = ours.make("f4", 100_000, "special")
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    in_memory = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause", "terminate")}
    with (
        dask.config.set(in_memory),
        distributed.LocalCluster(**options, memory_limit=memory) as cluster,
        distributed.Client(cluster),
    ):
        x = da.from_array(array, chunks=1000).persist()
        distributed.wait(x)
        assert dask_gpusort.explain(x).exchange == "runs"
        found, positions = dask_gpusort.sort(x, stable=True), dask_gpusort.argsort(x)
        assert len(found.dask) < 3 * x.npartitions
        oracle.assert_same_bits(found.compute(), oracle.sort(array))
        oracle.assert_same_bits(positions.compute(), oracle.argsort(array))


def block_and_length(block, other):
    return np.append(block, len(other))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_results_that_are_arguments_of_delayed_functions(client, exchange):
    """Dask gives their tasks other keys, so they are computed again, also beside the results themselves."""
    array = ours.make("i8", 600, "zipf")
    x = da.from_array(array, chunks=50)
    with groups(4), dask.config.set({"gpusort.exchange": exchange}):
        found = dask_gpusort.sort(x), dask_gpusort.rank(x, method="min"), dask_gpusort.unique(x)
        wanted = np.sort(array), np.searchsorted(np.sort(array), array) + 1, np.unique(array)
        delayed = [dask.delayed(np.append)(one, 7) for one in found]
        blocks = x.map_blocks(block_and_length, other=found[2], dtype=x.dtype, chunks=((51,) * 12,))
        futures = [client.compute(one) for one in (*found, *delayed, blocks)]
        got = [future.result(timeout=60) for future in futures]
    for one, later, own in zip(got[:3], got[3:6], wanted, strict=True):
        np.testing.assert_array_equal(one, own)
        np.testing.assert_array_equal(later, np.append(own, 7))
    np.testing.assert_array_equal(got[6].reshape(12, 51)[:, -1], len(wanted[2]))


def plus_sum(block, other=(1,)):
    return block + np.sum(other)


@pytest.mark.parametrize("workers", ["cluster_client", "cluster"])
@pytest.mark.parametrize(
    ("exchange", "parts"), [("runs", 2), ("runs", 6), ("gang", 1), ("gang", 2), ("gang", 6), ("device", 2)]
)
def test_results_that_dask_fuses_after_it_has_renamed_them(request, exchange, parts, workers):
    """In the middle of a chain of tasks, and renamed twice."""
    array = ours.make("i8", 600, "zipf")
    ordered = np.sort(array)
    settings_of_test = {"scheduler": "distributed", "gpusort.exchange": exchange}
    client = request.getfixturevalue(workers)
    with client.as_current(), dask.config.set(settings_of_test):
        x = da.from_array(array, chunks=600 // parts)

        def behind(other):
            return x.map_blocks(plus_sum, other=other, dtype=x.dtype, meta=np.empty(0, "i8"))

        more = dask_gpusort.sort(x).map_blocks(plus_sum)
        one_chunk = dask_gpusort.sort(x, chunks=-1).map_blocks(plus_sum)
        cases = {
            "delayed": (dask.delayed(np.append)(more, 7), np.append(ordered + 1, 7)),
            "fused": (behind(more).map_blocks(plus_sum), array + np.sum(ordered + 1) + 1),
            "one chunk": (behind(one_chunk).map_blocks(plus_sum), array + np.sum(ordered + 1) + 1),
            "twice": (behind(behind(more)), array + np.sum(array + np.sum(ordered + 1))),
            "sorted": (dask_gpusort.sort(behind(more)), np.sort(array + np.sum(ordered + 1))),
        }
        for name, (found, wanted) in cases.items():
            for one in (found, found.persist()):
                np.testing.assert_array_equal(client.compute(one).result(timeout=60), wanted, name)


@pytest.mark.parametrize("exchange", ["runs", "gang"])
def test_results_that_are_renamed_once_and_twice(cluster_client, exchange):
    array = ours.make("i8", 600, "zipf")
    x = da.from_array(array, chunks=100)
    with cluster_client.as_current(), dask.config.set({"gpusort.exchange": exchange}):
        once = x.map_blocks(plus_sum, other=dask_gpusort.sort(x), dtype=x.dtype, meta=np.empty(0, "i8"))
        futures = cluster_client.compute([once, dask.delayed(np.append)(once, [])])
        for future in futures:
            np.testing.assert_array_equal(future.result(timeout=15), array + np.sum(array))


def test_an_asynchronous_client_computes_the_graph():
    array = ours.make("i8", 600, "few")
    x = da.from_array(array, chunks=50)

    async def compute_sorted():
        settings_of_cluster = {"n_workers": 1, "processes": False, "dashboard_address": ":0", "memory_limit": 0}
        async with (
            distributed.LocalCluster(asynchronous=True, **settings_of_cluster) as cluster,
            distributed.Client(cluster, asynchronous=True) as client,
        ):
            assert dask_gpusort.explain(x).exchange == "runs"
            return await client.compute([dask_gpusort.sort(x), dask_gpusort.argsort(x, exchange="tasks")], sync=True)

    found, positions = asyncio.run(compute_sorted())
    oracle.assert_same_bits(found, np.sort(array))
    np.testing.assert_array_equal(positions, np.argsort(array, kind="stable"))


def test_message_without_a_client():
    with dask.config.set(scheduler="distributed"), pytest.raises(RuntimeError, match="no Client"):
        dask_gpusort.sort(da.zeros(100, chunks=10))


def test_without_plugins_the_exchange_by_tasks_is_used(client):
    x = da.from_array(ours.make("i8", 200), chunks=20)
    exchanges._warn_once.cache_clear()
    with mock.patch.object(_distributed, "mismatch", return_value="another version"):
        with pytest.warns(RuntimeWarning, match=r"distributed .*another version.*install") as warned:
            both = [dask_gpusort.explain(x) for _ in range(2)]
        assert len(warned) == 1
        for one in both:
            assert one.exchange == "tasks"
            assert re.match(r"exchange tasks in place of runs, which .* distributed .*another version", *one.notes)
        with pytest.raises(ValueError, match=r"another version.*exchange='auto'"):
            dask_gpusort.sort(x, exchange="runs")
        oracle.assert_same_bits(dask_gpusort.sort(x).compute(), np.sort(x.compute()))


@pytest.mark.parametrize("method", ["auto", "radix", "merge"])
@pytest.mark.parametrize(
    ("exchange", "count"), [*((name, 4) for name in (*EXCHANGES, "device", "join")), ("gather", 1), ("tasks", 1)]
)
def test_explain_says_how_the_cuts_are_found(client, monkeypatch, exchange, method, count):
    ran = set()
    for where, step in ((programs, "bounds_at_ranks"), (steps, "count_digits"), (digits, "scan_table")):
        monkeypatch.setattr(where, step, mock.Mock(wraps=getattr(where, step), side_effect=noted(ran, step)))
    array = ours.make("f8", 600, "special")
    with groups(count):
        x = da.from_array(array, chunks=100)
        options = {"exchange": exchange, "method": method, "stable": True, "chunks": 300}
        path = dask_gpusort.explain(x, **options).detail.split("path")[1].splitlines()[0]
        oracle.assert_same_bits(dask_gpusort.sort(x, **options).compute(), oracle.sort(array))
    cut = count > 1 and exchange != "join"
    by_digits = cut and method == "radix"
    assert ("radix: " in path, "merge: " in path) == (by_digits, cut and not by_digits)
    assert ("the method has no effect" in path) == (not cut)
    assert {"count_digits", "scan_table"} & ran == ({"count_digits", "scan_table"} if by_digits else set())
    assert "bounds_at_ranks" in ran or not cut


def noted(ran, step):
    def note(*_, **__):
        ran.add(step)
        return mock.DEFAULT

    return note


@pytest.mark.parametrize(("exchange", "fuse"), grid(EXCHANGES, [False, True]))
def test_sorts_in_a_larger_graph(client, exchange, fuse):
    arrays = [ours.make("i8", 1000, seed=seed) for seed in (1, 2)]
    first, second = map(np.sort, arrays)
    with dask.config.set({"optimization.fuse.active": fuse}), groups(4):
        x, y = (da.from_array(array, chunks=90) for array in arrays)
        one, other = (dask_gpusort.sort(array + 1, exchange=exchange) - 1 for array in (x, y))
        ranks = dask_gpusort.argsort(dask_gpusort.argsort(x % 9, exchange=exchange), exchange=exchange)
        found = dask.compute(one, other, one + other, ranks, one.blocks[0], one.blocks[-1])
        wanted = first, second, first + second, np.argsort(oracle.argsort(arrays[0] % 9)), first[:90], first[990:]
        for mine, theirs in zip(found, wanted, strict=True):
            oracle.assert_same_bits(mine, theirs)
        # Fused graphs give equal keys other tasks, which Dask asks to release first.
        wait_for_release(client)
        kept = one.persist()
        distributed.wait(kept)
        oracle.assert_same_bits(kept[100:200].compute(), first[100:200])
        # The keys are computed again after they were released.
        del kept
        wait_for_release(client)
        oracle.assert_same_bits(one.compute(), first)


def wait_for_release(client):
    until(lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)), "no task")


def changed(change):
    """An array whose chunks are not what it says."""
    return da.arange(12, chunks=3).map_blocks(change, dtype="i8", meta=np.empty(0, "i8"))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_errors_of_tasks_reach_the_user(client, exchange):
    for x, error, message in (
        (changed(lambda block: block[:-1]), ValueError, "compute_chunk_sizes"),
        (changed(lambda block: np.ma.masked_equal(block, 3)), TypeError, "where its array says"),
        (changed(lambda block: block.astype("u4")), TypeError, "where its array says"),
        (da.from_array(ours._objects([3, 1, "x", 2]), chunks=2, name=False), TypeError, "could not compare"),
    ):
        with groups(2), pytest.raises(error, match=message):
            dask_gpusort.sort(x, exchange=exchange).compute()


def test_a_client_that_is_not_the_default(cluster_client):
    # The graph is built for threads, because no client is the default. A cluster can run it too.
    array = ours.make("i8", 500)
    with groups(3):
        found = dask_gpusort.sort(da.from_array(array, chunks=60))
    oracle.assert_same_bits(cluster_client.compute(found, sync=True), np.sort(array))
