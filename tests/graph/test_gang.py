"""Gangs on clusters of processes: where members are, several at once, and what only processes show of faults."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours
from support.plans import num_tasks, plans_of
from tlz import groupby

import dask_gpusort
from dask_gpusort import gpu_cluster as clusters
from dask_gpusort.builders.request import Options
from dask_gpusort.builders.sort import build_sort_by_keys
from dask_gpusort.graph.runtime import Runtime
from dask_gpusort.plan import select

distributed = pytest.importorskip("distributed")

gangs = pytest.importorskip("support.gangs")
soak = pytest.importorskip("support.soak")
communicator = pytest.importorskip("dask_gpusort.graph.gang.communicator")
scheduler_plugin = pytest.importorskip("dask_gpusort.graph.gang.scheduler_plugin")
tasks = pytest.importorskip("dask_gpusort.graph.gang.tasks")

ARRAY = ours.make("f8", 30_000, "zipf")
SORTED = oracle.sort(ARRAY)


@pytest.fixture
def gate(tmp_path):
    return gangs.Gate(tmp_path)


def gang_sort(x, **options):
    return dask_gpusort.sort(x, exchange="gang", stable=True, **options)


# The plan and the graph.


def test_keys_that_are_made_from_held_chunks_are_sorted_by_their_workers(client):
    x = gangs.placed(ARRAY, ((7000, 8000, 5000, 10_000),), [0, 1, 1, 0])
    runtime, workers = Runtime.of(x), [gangs.addresses(client)[number] for number in (0, 1, 1, 0)]
    made = (x + 1).astype("f4")
    pairs = da.map_blocks(lambda block: np.stack([block, block], 1), x, new_axis=1, chunks=(*x.chunks, (2,)))
    for array, own in ((x, True), (made, False), (pairs, False)):
        assert runtime.nearest_holders(array) == (workers, own)
    for array in (x[::-1], x[1:], x.rechunk(3000), da.from_array(ARRAY, chunks=7000)):
        assert runtime.nearest_holders(array) == ([], False)
    (plan, *_) = plans_of(build_sort_by_keys, Options(exchange="gang"), [x, x], [False] * 2, [x], 0, None)
    members = [[chunk for run in own for chunk in plan.runs[run]] for own in plan.sources]
    assert members == [[0, 3], [1, 2]]
    keys, others, values = dask.compute(*dask_gpusort.sort_by_key((x, -x), x, exchange="gang"))
    for found in (keys, -others, values):
        np.testing.assert_array_equal(found, SORTED)


def test_copies_of_chunks_leave_a_gang_its_workers(client):
    """As after a task of one worker that took all chunks."""
    client.amm.stop()  # which drops copies
    first, second, _ = gangs.addresses(client)
    x = gangs.placed(ARRAY, ((7000, 8000, 5000, 10_000),), [0, 1, 1, 0])
    for worker, wanted in ((first, [first, second, second, first]), (second, [first, second] * 2)):
        client.replicate(distributed.futures_of(x), workers=[worker])
        assert Runtime.of(x).holders(x) == wanted
    np.testing.assert_array_equal(gang_sort(x).compute(), SORTED)
    client.amm.start()


def test_the_warm_up_alone_changes_the_client(client, monkeypatch):
    monkeypatch.setattr(clusters, "_open_connections", lambda *_: None)
    monkeypatch.setattr(client.scheduler_comm, "interval", 0.01)
    gang_sort(da.from_array(ARRAY, chunks=10_000)).compute()
    assert client.scheduler_comm.interval == 0.01
    dask_gpusort.warm_up(client, dtypes=["i8"])
    assert client.scheduler_comm.interval == 0


def test_a_cluster_without_the_coordinator_says_so(client, monkeypatch):
    monkeypatch.setattr("dask_gpusort.graph._distributed.INSTALL_SECONDS", 0)
    with gangs.cluster(2, processes=False) as other:
        found = gang_sort(da.from_array(ARRAY, chunks=10_000))
        with pytest.raises(RuntimeError, match="lacks the plugin 'gpusort-gang'.*exchange='tasks'"):
            gangs.result_of(other.compute(found))


FUNCTIONS = {
    "sort": lambda x: dask_gpusort.sort(x, stable=True),
    "unique": dask_gpusort.unique,
    "nunique": dask_gpusort.nunique,
    "rank": dask_gpusort.rank,
    "quantile": lambda x: dask_gpusort.quantile(x, 0.3, strategy="samples"),
    "isin": lambda x: dask_gpusort.isin(x, x),
    "take": lambda x: dask_gpusort.take(x, da.arange(30_000, chunks=3000)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gangs_need_a_cluster(name):
    x = da.from_array(ARRAY, chunks=3000)
    with dask.config.set({"scheduler": "threads", "num_workers": 2, "gpusort.exchange": "gang"}):
        with pytest.raises(ValueError, match="needs a distributed Client.*exchange='auto'"):
            FUNCTIONS[name](x)
        assert dask_gpusort.unique(da.zeros(10, chunks=-1)).compute().tolist() == [0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_threads_compute_no_gang(client, name):
    with dask.config.set({"gpusort.exchange": "gang"}):
        found = FUNCTIONS[name](da.from_array(ARRAY, chunks=3000))
    with pytest.raises(RuntimeError, match="lacks the plugin 'gpusort-gang': build the array with the Client that"):
        found.compute(scheduler="threads")


def test_an_asynchronous_client_is_refused(client):
    async def build():
        async with distributed.Client(client.scheduler.address, asynchronous=True, set_as_default=False) as other:
            with other.as_current(), dask.config.set(scheduler=None):
                gang_sort(da.zeros(100, chunks=10))

    with pytest.raises(ValueError, match="not asynchronous: use exchange='tasks'"):
        asyncio.run(build())


@pytest.mark.parametrize(
    ("chunks", "known", "count"), [(3000, True, 13), (3000, False, 13), (10_000, True, 3), (10_000, False, 3)]
)
def test_the_plan_counts_the_tasks_of_the_graph(client, chunks, known, count):
    x = ours.dask_array(ARRAY, (chunks,), unknown=not known)
    x = x.persist()
    distributed.wait(x)  # whose workers have which chunks is asked twice
    found = gang_sort(x)
    (plan,) = plans_of(dask_gpusort.sort, x, exchange="gang")
    (whole,) = dask.optimize(found)
    own = {key for key in dict(whole.dask) if key not in dict(x.dask)}
    assert len(own) == num_tasks(plan) == count


def test_output_chunks_are_no_root_tasks(client):
    # Dask would spread them over all workers, which copies what they cut.
    x = da.from_array(ARRAY, chunks=1000).persist()
    found = gang_sort(x).persist()
    distributed.wait(found)

    def look(dask_scheduler, name):
        states = [state for key, state in dask_scheduler.tasks.items() if key[0] == name]
        sets = {id(state.worker_restrictions) for state in states}
        return {(dask_scheduler.is_rootish(state), state.loose_restrictions) for state in states}, len(sets)

    # One set of addresses for all: a set for each chunk takes memory of the scheduler.
    assert client.run_on_scheduler(look, name=found.name) == ({(False, True)}, 1)


@pytest.mark.parametrize("value", [0, -1, True, "60s", None])
def test_a_wrong_time_out_is_refused(client, value):
    with dask.config.set({"gpusort.gang_timeout": value}), pytest.raises(ValueError, match="gang_timeout"):
        gang_sort(da.zeros(100, chunks=10))


def test_each_member_is_where_its_chunks_are(client):
    x = da.from_array(ARRAY, chunks=1000).persist()
    distributed.wait(x)
    held = client.who_has(x)
    found = gang_sort(x).persist()
    distributed.wait(found)
    assert len({worker for _, worker in gangs.members(client).values()}) <= 3
    runs = client.run_on_scheduler(
        lambda dask_scheduler: {
            spec.rank: (
                dask_scheduler.tasks[key].worker_restrictions,
                [chunk.key for chunk in dask_scheduler.tasks[key].dependencies],
            )
            for key, spec in dask_scheduler.plugins["gpusort-gang"].specs.items()
        }
    )
    assert len(runs) == 3
    for workers, chunks in runs.values():
        assert {worker for chunk in chunks for worker in held[chunk]} == workers
    assert len({next(iter(workers)) for workers, _ in runs.values()}) == 3


def test_the_warm_up_sorts_by_gangs_of_all_workers(client, monkeypatch):
    monkeypatch.setattr(clusters, "_open_connections", lambda *_: None)
    held = []
    monkeypatch.setattr(clusters, "sort", lambda keys: held.append(client.who_has(keys)) or dask_gpusort.sort(keys))
    workers = set(gangs.addresses(client))
    with dask.config.set({"gpusort.exchange": "gang"}), distributed.get_task_stream(client=client) as stream:
        dask_gpusort.warm_up(client, dtypes=["u4", "f8"])
    found = [(task["key"][0], task["worker"]) for task in stream.data]
    # Each member is a chunk of the only output.
    of_gangs = groupby(0, [one for one in found if one[0].startswith(("sort-", "argsort-"))])
    assert len(of_gangs) == 4  # sort and argsort of both
    assert all({worker for _, worker in members} == workers for members in of_gangs.values())
    # Each member sorts the chunk of its worker, which was there when the sort was planned.
    assert all({worker for (worker,) in keys.values()} == workers for keys in held)
    assert not [task for task in stream.data if task["key"][0] in of_gangs and has_transfers(task)]


def has_transfers(task):
    return any(part["action"] == "transfer" for part in task["startstops"])


# What the dashboard shows.


def test_the_phases_of_a_member_are_metrics_of_its_task(client, gate):
    before, start = gangs.seconds_of_phases(client), time.monotonic()
    future = client.compute(gang_sort(gangs.gated(ARRAY, 10_000, gate, 2)))
    gangs.wait_for_members(client, "ready", "ready", "waiting")
    time.sleep(0.5)
    gate.open()
    gangs.result_of(future)
    elapsed, after = time.monotonic() - start, gangs.seconds_of_phases(client)
    spent = {label: after[label] - before.get(label, 0) for label in ("sort", "wait", "cut", "exchange", "merge")}
    assert min(spent.values()) > 0
    assert spent["wait"] > 2 * 0.5
    assert sum(spent.values()) < 3 * elapsed


# Several gangs.


def test_a_gang_that_waits_does_not_hold_up_another(client, gate):
    waiting = client.compute(gang_sort(gangs.gated(ARRAY, 10_000, gate, 2)))
    gangs.wait_for_members(client, "ready", "ready", "waiting")
    # The third worker's thread waits at the gate.
    y = da.from_array(ARRAY[:2000], chunks=1000)
    with dask.config.set({"gpusort.groups": 2}):
        oracle.assert_same_bits(gangs.result_of(client.compute(gang_sort(y))), oracle.sort(ARRAY[:2000]))
    gate.open()
    oracle.assert_same_bits(gangs.result_of(waiting), SORTED)


# Workers that are lost.


def test_two_workers_are_killed_while_members_wait(client, gate):
    future = client.compute(gang_sort(gangs.gated(ARRAY, 10_000, gate, 2)))
    workers = gangs.wait_for_members(client, "ready", "ready", "waiting")
    for rank in range(2):
        gangs.kill(client, workers[rank])
    gate.open()
    oracle.assert_same_bits(gangs.result_of(future), SORTED)


@pytest.mark.parametrize(
    ("name", "number", "rank"), [("sort", 0, 0), ("rank", 3, 1), ("quantile", 2, 1), ("take", 0, 0)]
)
def test_a_worker_is_killed_before_an_exchange(client, gate, name, number, rank):
    with mock.patch.multiple(select, FETCHED_BYTES=0, LEAST_SAMPLES=1 << 9, MOST_ROUNDS=2):
        found = FUNCTIONS[name](da.from_array(ARRAY, chunks=5000))

    def waits(original):
        def exchange(self, *shards):
            if self.rank == 0 and self._exchanges == number:
                gate.arrive("exchange")
            return original(self, *shards)

        return exchange

    with gangs.patched_exchange(client, waits):
        future = client.compute(found)
        gangs.until(lambda: gate.arrived("exchange"), "an exchange")
        gangs.kill(client, gangs.members(client)[rank][1])
        gate.open()
        got = gangs.result_of(future)
    oracle.assert_same_bits(got, gangs.of_tasks(FUNCTIONS[name], da.from_array(ARRAY, chunks=5000))[0])


# Errors, cancellation, clients that go.


def test_an_error_in_the_merge_is_the_error_of_the_sort(client):
    array = np.array([1, "a", 2.0, None] * 10, object)
    error = gangs.error_of(client.compute(gang_sort(da.from_array(array, chunks=10))))
    assert isinstance(error, TypeError)
    assert "not supported between" in str(error)


def test_an_exchange_that_fails_twice_is_an_error(client):
    def fails(original):
        def exchange(self, *shards):
            raise OSError("no route to host")

        return exchange

    with gangs.patched_exchange(client, fails):
        error = gangs.error_of(client.compute(gang_sort(da.from_array(ARRAY, chunks=1000))))
        assert re.search("no route to host.*exchange='tasks'", str(error))


def test_an_exchange_that_hangs_is_made_again(client, gate):
    def hangs_once(original):
        def exchange(self, *shards):
            if self.rank == 0 and not gate.arrived("exchange"):
                Path(gate.folder, "at-exchange").touch()
                while not self._aborted:
                    time.sleep(0.01)
            return original(self, *shards)

        return exchange

    with gangs.patched_exchange(client, hangs_once):
        with dask.config.set({"gpusort.gang_timeout": 0.5}):
            future = client.compute(gang_sort(da.from_array(ARRAY, chunks=10_000)))
        oracle.assert_same_bits(gangs.result_of(future), SORTED)


def test_an_exchange_over_a_slow_network_takes_its_time(client):
    """A shard takes 3 s, six time-outs; the time-out of all is that and what the bytes take at a rate."""
    rate = ARRAY.nbytes / 10

    def slow_down(dask_worker):
        take = dask_worker.plugins["gpusort-gang"].outboxes.take

        async def slow(**arguments):
            reply = await take(**arguments)
            await asyncio.sleep(3)
            return reply

        dask_worker.handlers["sort_gang_take"] = slow

    def undo(dask_worker):
        dask_worker.handlers["sort_gang_take"] = dask_worker.plugins["gpusort-gang"].outboxes.take

    def set_rate(rate):
        before = scheduler_plugin.BYTES_PER_SECOND
        scheduler_plugin.BYTES_PER_SECOND = rate
        return before

    client.run(slow_down)
    before = client.run_on_scheduler(set_rate, rate)
    try:
        with dask.config.set({"gpusort.gang_timeout": 0.5}):
            x = da.from_array(ARRAY, chunks=10_000).persist()
            future = client.compute(gang_sort(x))
        oracle.assert_same_bits(gangs.result_of(future), SORTED)
    finally:
        client.run(undo)
        client.run_on_scheduler(set_rate, before)


def test_a_cancelled_sort_frees_its_members(client, gate):
    found = gang_sort(gangs.gated(ARRAY, 10_000, gate, 2))
    future = client.compute(found)
    gangs.wait_for_members(client, "ready", "ready", "waiting")
    future.cancel()
    gangs.until(lambda: not gangs.members(client), "the end of the gang")
    gate.open()
    gangs.check_nothing_is_left(client)
    # The same sort can run again.
    oracle.assert_same_bits(gangs.result_of(client.compute(found)), SORTED)


def test_a_sort_that_is_cancelled_and_asked_for_again_at_once(client, gate):
    found = gang_sort(gangs.gated(ARRAY, 10_000, gate, 2))
    for _ in range(3):
        future = client.compute(found)
        gangs.wait_for_members(client, "ready", "ready", "waiting")
        future.cancel()
    future = client.compute(found)
    gate.open()
    oracle.assert_same_bits(gangs.result_of(future), SORTED)


def test_a_client_that_goes_frees_its_members(client, gate):
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        with other.as_current():
            future = other.compute(gang_sort(gangs.gated(ARRAY, 10_000, gate, 2)))
        gangs.wait_for_members(client, "ready", "ready", "waiting")
    del future
    gangs.until(lambda: not gangs.members(client), "the end of the gang")
    gate.open()


def test_a_restarted_cluster_sorts_again(client, gate):
    future = client.compute(gang_sort(gangs.gated(ARRAY, 10_000, gate, 2)))
    gangs.wait_for_members(client, "ready", "ready", "waiting")
    client.restart()
    gate.open()
    del future
    oracle.assert_same_bits(gang_sort(da.from_array(ARRAY, chunks=1000)).compute(), SORTED)
    for exchange in ("runs", "tasks", "gather"):
        found = dask_gpusort.sort(da.from_array(ARRAY, chunks=1000), exchange=exchange, stable=True)
        oracle.assert_same_bits(gangs.result_of(client.compute(found)), SORTED)


def test_messages_to_unknown_members_and_gangs_are_ignored(client):
    def send(dask_scheduler):
        for worker in dask_scheduler.workers:
            for op in ("start", "cancel", "error"):
                message = {"op": f"sort-gang-{op}", "token": "x", "rank": 0, "run_id": -5, "attempt": 3}
                dask_scheduler.worker_send(worker, message)

    def report(dask_worker):
        plugin = dask_worker.plugins["gpusort-gang"]
        fields = {"token": "x", "rank": 0, "run_id": -5}
        plugin.send("sort-gang-ready", **fields, summaries=b"", offer=None)
        plugin.send("sort-gang-exchanged", **fields, attempt=7)
        plugin.send("sort-gang-broken", **fields, attempt=7, why="nothing")

    gang_sort(da.from_array(ARRAY, chunks=1000)).compute()
    client.run_on_scheduler(send)
    client.run(report)
    oracle.assert_same_bits(gang_sort(da.from_array(ARRAY, chunks=1000)).compute(), SORTED)


# Members that are output chunks, and groups. (Other tests need the number of tasks before them to place a chunk.)


@pytest.mark.parametrize("chunks", [1000, 10_000])
@pytest.mark.parametrize("part", [lambda found: found.blocks[0], lambda found: found[5:10]], ids=["chunk", "slice"])
def test_output_of_which_a_part_was_computed_before(client, chunks, part):
    found = gang_sort(da.from_array(ARRAY, chunks=chunks))
    first = part(found).persist()
    distributed.wait(first)
    for _ in range(2):
        oracle.assert_same_bits(found.compute(), SORTED)
    oracle.assert_same_bits(first.compute(), part(da.from_array(SORTED, chunks=chunks)).compute())


@pytest.mark.parametrize("chunks", [1000, 10_000])
def test_a_part_of_the_output_while_all_of_it_is_computed(client, chunks):
    found = gang_sort(da.from_array(ARRAY, chunks=chunks))
    futures = client.compute([found[:10], found, found[-10:], found])
    for future, wanted in zip(futures, (SORTED[:10], SORTED, SORTED[-10:], SORTED), strict=True):
        oracle.assert_same_bits(gangs.result_of(future), wanted)


def test_members_that_are_output_chunks_are_not_fused(client):
    found = gang_sort(da.from_array(ARRAY, chunks=10_000)).map_blocks(np.negative)
    graph = dict(dask.optimize(found)[0].dask)
    assert sum(isinstance(task, tasks.GangTask) for task in graph.values()) == 3
    oracle.assert_same_bits(found.compute(), -SORTED)


@pytest.mark.parametrize("chunks", [10_000, 1000])
def test_an_output_chunk_is_lost(client, chunks):
    found = gang_sort(da.from_array(ARRAY, chunks=chunks)).persist()
    distributed.wait(found)
    gangs.kill(client, client.who_has(found)[gangs.key_of_chunk(found, 1)][0])
    oracle.assert_same_bits(gangs.result_of(client.compute(found)), SORTED)


# All of it at once.


@pytest.mark.parametrize(("sorts", "kill_seconds"), [(10, 0.2), pytest.param(200, 1, marks=pytest.mark.slow)])
def test_a_soak(sorts, kill_seconds):
    def on_workers(host, size):
        return da.from_array(host, chunks=max(size, 1))

    with (
        gangs.cluster(3) as client,
        client.as_current(),
        dask.config.set({"scheduler": "distributed", "gpusort.exchange": "gang"}),
    ):
        scheduler_plugin.install(client)
        client.cluster.scheduler.allowed_failures = 100  # on a busy machine many are killed at one task
        assert soak.Soak(sorts, 50_000, kill_seconds, on_workers).run(client)
