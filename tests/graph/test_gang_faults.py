"""What becomes of a gang when something happens to one of its three members, at each stage of that member.

Member 1 is held at a stage, something happens to it, and then it goes on. `OUTCOMES` says what must come out, in time.

What is the same by construction, or tested elsewhere:

- A member that is ready or in memory runs nothing that could raise.
- Retired: first paused, then killed (`test_lost_workers.py`).

Three more faults end alike at each stage: a member is not stolen (`test_stolen`), takes no unit of a resource
(`test_killed_with_resources`), and a restart leaves nothing of it (`test_restart`).
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, product

import dask
import dask.array as da
import numpy as np
import pytest
from support import oracle
from support import strategies as ours

import dask_gpusort
from dask_gpusort.graph import _dask, exchanges, runtime
from dask_gpusort.graph.placement import PlacedTask

distributed = pytest.importorskip("distributed")

gangs = pytest.importorskip("support.gangs")
communicator = pytest.importorskip("dask_gpusort.graph.gang.communicator")
assignment = pytest.importorskip("dask_gpusort.graph.gang.assignment")
scheduler_plugin = pytest.importorskip("dask_gpusort.graph.gang.scheduler_plugin")
tasks = pytest.importorskip("dask_gpusort.graph.gang.tasks")
gang = pytest.importorskip("dask_gpusort.drivers.gang")
_distributed = pytest.importorskip("dask_gpusort.graph._distributed")
member = pytest.importorskip("dask_gpusort.graph.gang.member")
scheduler_plugins = pytest.importorskip("dask_gpusort.scheduler_plugins")

ARRAY = ours.make("f8", 3000, "zipf")
SORTED = oracle.sort(ARRAY)
#: Until a chunk must be there, or must have failed.
SECONDS = 30


class Stop:
    """Holds one member at one stage until it is let go, and then may raise.

    All workers are in this process, so the functions of the package are replaced.
    """

    def __init__(self, monkeypatch):
        self.held, self.open = threading.Event(), threading.Event()
        self.at, self.error = None, None
        sort, exchanges = gang.ProgramJob.__call__, gang.ProgramWork.exchanges
        exchange = communicator.WorkerComms.exchange
        fetch, finish = communicator.WorkerComms._fetch, gang.ProgramWork.finish
        init, secede = member.Member.__init__, distributed.secede

        def sort_held(job, arrays, rank):
            self.hold("sort", rank)
            return sort(job, arrays, rank)

        def init_held(one, spec, *arguments):
            self.hold("enlist", spec.rank)
            init(one, spec, *arguments)

        def secede_held():
            self.hold("secede", member.thread_state.key[1])
            secede()

        def exchanges_held(work, summaries):
            self.hold("cut", work.rank)
            return exchanges(work, summaries)

        def finish_held(work, *made):
            self.hold("merge", work.rank)
            return finish(work, *made)

        def exchange_held(comms, *shards):
            self.hold(comms._exchanges, comms.rank)
            return exchange(comms, *shards)

        async def fetch_held(comms, rank):
            if self.at == ("fetch", comms.rank) and rank == 0:
                self.held.set()
                while not self.open.is_set():
                    await asyncio.sleep(0.005)
                self.fail()
            return await fetch(comms, rank)

        monkeypatch.setattr(gang.ProgramJob, "__call__", sort_held)
        monkeypatch.setattr(member.Member, "__init__", init_held)
        monkeypatch.setattr(distributed, "secede", secede_held)
        for name, replaced in (("exchanges", exchanges_held), ("finish", finish_held)):
            monkeypatch.setattr(gang.ProgramWork, name, replaced)
        monkeypatch.setattr(communicator.WorkerComms, "exchange", exchange_held)
        monkeypatch.setattr(communicator.WorkerComms, "_fetch", fetch_held)

    def hold(self, stage, rank):
        if self.at == (stage, rank) and not self.open.is_set():
            self.held.set()
            assert self.open.wait(SECONDS)
            self.fail()

    def fail(self):
        error, self.error = self.error, None
        if error is not None:
            raise error


@pytest.fixture
def stop(monkeypatch):
    found = Stop(monkeypatch)
    yield found
    found.open.set()


@contextmanager
def in_process(workers=3, timeout=5, **options):
    """A cluster of threads of this process."""
    settings = {"scheduler": "distributed", "gpusort.gang_timeout": timeout}
    with gangs.cluster(workers, processes=False, **options) as client, client.as_current(), dask.config.set(settings):
        yield client


@pytest.fixture
def client(stop):
    with in_process() as found:
        yield found
        stop.open.set()


def persisted(array=ARRAY, make=np.copy, workers=None):
    """An array with a chunk on each worker, so that there are three members; or on others, which are given."""
    workers = workers or gangs.addresses(distributed.Client.current())
    with dask.annotate(workers=lambda key: [workers[key[1]]], allow_other_workers=True):
        found = da.from_array(array, chunks=1000).map_blocks(make)
    found = found.persist(optimize_graph=False)
    distributed.wait(found)
    return found


def gang_sort(x):
    return dask_gpusort.sort(x, exchange="gang", stable=True)


def futures_of(y):
    """A future of each chunk, and no reference to the array."""
    return sorted(distributed.futures_of(y), key=lambda future: future.key)


def check_result(futures, numbers=(0, 1, 2)):
    for number in numbers:
        found = futures[number].result(timeout=SECONDS)
        oracle.assert_same_bits(found, SORTED[1000 * number : 1000 * (number + 1)])


def errors_of(futures):
    return [future.exception(timeout=SECONDS) for future in futures]


def worker_of(client, rank):
    return gangs.members(client)[rank][1]


def remove(client, address):
    """A worker is lost."""

    async def lose(dask_scheduler):
        await dask_scheduler.remove_worker(address, stimulus_id="test")

    client.run_on_scheduler(lose)


def set_status(client, address, name):
    def change(dask_worker):
        dask_worker.status = distributed.Status[name]

    client.run(change, workers=[address])
    workers = client.cluster.scheduler.workers
    gangs.until(lambda: workers[address].status.name == name, f"a worker that is {name}")


# The table.

#: What is held, and of which member, so that member 1 is at a stage.
STAGES = {
    "before ready": ("sort", 1),
    "ready": ("sort", 2),
    "started": ("cut", 1),
    "exchanging": ("fetch", 1),  # from member 0; the others have all their shards
    "merging": ("merge", 1),  # the last one; the others are in memory
    "in memory": ("fetch", 2),
    "forgotten": ("fetch", 2),  # and the chunk of member 1 is released
}
#: Of each member's chunk: it is right, has the error of member 1 or one that names the remedy, or is released.
RIGHT, OWN, REMEDY = ("right",) * 3, ("own",) * 3, ("remedy", None, "remedy")
OTHERS_RIGHT = ("right", None, "right")
#: By what happens to member 1, and by its stage. A chunk that others need was released where an error names the remedy.
#: All raise the error of member 1 if they still need its shards; an exchange that raises is repeated.
OUTCOMES = {
    "killed": {**dict.fromkeys(STAGES, RIGHT), "forgotten": ("right", None, "remedy")},
    "paused": {**dict.fromkeys(STAGES, RIGHT), "forgotten": OTHERS_RIGHT},
    "released": {
        **dict.fromkeys(("before ready", "ready", "started"), REMEDY),
        **dict.fromkeys(("exchanging", "merging", "in memory"), OTHERS_RIGHT),
    },
    "raises": {"before ready": OWN, "started": OWN, "exchanging": RIGHT, "merging": ("right", "own", "right")},
}


def sort_up_to(client, stop, stage):
    """Futures of a sort whose member 1 is at a stage; and the address of its worker."""
    stop.at = STAGES[stage]
    x = persisted()
    futures = futures_of(gang_sort(x).persist())
    assert stop.held.wait(SECONDS)
    if stage == "ready":
        gangs.wait_for_members(client, "ready", "ready", "processing")
    if stage in ("exchanging", "merging"):
        distributed.wait([futures[0], futures[2]], timeout=SECONDS)
    if stage in ("in memory", "forgotten"):
        distributed.wait(futures[1], timeout=SECONDS)
    address = worker_of(client, 1)
    if stage == "forgotten":
        release(client, futures, 1)
    return futures, address


def release(client, futures, number):
    key = futures[number].key
    futures[number].release()
    gangs.until(lambda: key not in client.cluster.scheduler.tasks, "a chunk that is forgotten")


@pytest.mark.parametrize(("event", "stage"), [(event, stage) for event in OUTCOMES for stage in OUTCOMES[event]])
def test_an_event(client, stop, event, stage):
    futures, address = sort_up_to(client, stop, stage)
    if event == "killed":
        remove(client, address)
    elif event == "paused":
        set_status(client, address, "paused")
    elif event == "released":
        release(client, futures, 1)
        if OUTCOMES[event][stage] == REMEDY:
            errors_of(futures[:1])  # it comes while a later member is held, which else may send its shards before
    else:
        stop.error = ZeroDivisionError("mine")
    stop.open.set()
    for number, outcome in enumerate(OUTCOMES[event][stage]):
        if outcome == "right":
            check_result(futures, [number])
        elif outcome is not None:
            error = futures[number].exception(timeout=SECONDS)
            assert isinstance(error, ZeroDivisionError if outcome == "own" else RuntimeError)
            assert re.search("^mine$" if outcome == "own" else "keep the whole array", str(error))


#: The stages of a rank: before an exchange of a number, and behind the last one.
RANK_STAGES = (0, 1, 2, 3, "merge")
RANKS = gangs.of_tasks(dask_gpusort.rank, da.from_array(ARRAY, chunks=1000))[0]


@pytest.mark.parametrize(
    ("event", "stage"), [*product(["killed"], RANK_STAGES), *product(["raises"], RANK_STAGES[:-1])]
)
def test_an_event_at_each_exchange_of_a_rank(client, stop, monkeypatch, event, stage):
    """An exchange that raises is repeated, from the first one."""
    monkeypatch.setattr(communicator, "WAIT_SECONDS", 0.2)  # until nothing is left of an attempt that was given up
    stop.at = stage, 1
    with dask.config.set({"gpusort.exchange": "gang"}):
        future = client.compute(dask_gpusort.rank(persisted()))
    assert stop.held.wait(SECONDS)
    if event == "killed":
        remove(client, worker_of(client, 1))
    else:
        stop.error = OSError("no route to host")
    stop.open.set()
    oracle.assert_same_bits(future.result(timeout=SECONDS), RANKS)
    del future
    gangs.check_nothing_is_left(client)


@pytest.mark.parametrize("stage", STAGES)
def test_stolen(client, stop, stage):
    futures, _ = sort_up_to(client, stop, stage)
    found = client.cluster.scheduler
    ranks = {key: spec.rank for key, spec in found.plugins["gpusort-gang"].specs.items()}
    before = {key: found.tasks[key].processing_on for key in ranks if found.tasks[key].state == "processing"}

    async def steal():
        thieves = dict.fromkeys(found.workers.values(), 0.0)
        stealing = found.extensions["stealing"]
        for key, worker in before.items():
            others = thieves.keys() - {worker}
            assert stealing._get_thief(found, found.tasks[key], others, occupancies=thieves) is None

    client.sync(steal)
    stop.open.set()
    check_result(futures, (0, 2) if stage == "forgotten" else (0, 1, 2))
    for key, worker in before.items():
        assert found.tasks[key].who_has == {worker}


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "forgotten"])
def test_killed_with_resources(client, stop, stage):
    # Three members on two workers with one unit each: one that waits must not keep it.
    for address in gangs.addresses(client):
        set_resources(client, address, GPU=1)
    with dask.annotate(resources={"GPU": 1}):
        futures, address = sort_up_to(client, stop, stage)
    remove(client, address)
    stop.open.set()
    check_result(futures)


CALLS = count()


def other_each_time(chunk):
    return chunk + next(CALLS)


def test_a_source_that_is_another_one_when_members_run_again(client, stop):
    """Member 1 is lost when it has finished, and runs again for member 2."""
    stop.at = STAGES["in memory"]
    futures = futures_of(gang_sort(persisted(make=other_each_time)).persist())
    assert stop.held.wait(SECONDS)
    distributed.wait(futures[1], timeout=SECONDS)
    remove(client, worker_of(client, 1))
    stop.open.set()
    for error in errors_of([futures[2], futures[1]]):  # the client hears later that it has lost a chunk
        assert isinstance(error, RuntimeError)
        assert "changes when it is computed again" in str(error)


@pytest.mark.parametrize("event", ["killed", "paused"])
def test_a_member_with_a_result_runs_again_elsewhere(client, stop, event):
    # It needs another worker only when others need it again, because it has its result till then.
    futures, address = sort_up_to(client, stop, "in memory")
    if event == "killed":
        client.replicate(futures[1:2], n=2)
        remove(client, address)
    else:
        set_status(client, address, "paused")
        remove(client, worker_of(client, 2))
    stop.open.set()
    check_result(futures)


@pytest.mark.parametrize("at", ["enlist", "secede"])
def test_killed_as_it_leaves_its_threads(client, stop, monkeypatch, at):
    # A worker that closes waits for its threads, for 30 s, and keeps all threads of this process from seceding.
    monkeypatch.setitem(STAGES, "leaves its threads", (at, 1))
    futures, address = sort_up_to(client, stop, "leaves its threads")
    (plugin,) = (one.plugins["gpusort-gang"] for one in client.cluster.workers.values() if one.address == address)
    remove(client, address)
    gangs.until(lambda: plugin.closed, "a worker that closes")
    time.sleep(0.3)  # until it would wait for its threads
    stop.open.set()
    distributed.wait(futures, timeout=10)
    check_result(futures)


def test_output_chunks_leave_paused_workers_for_a_new_one(stop):
    # Dask tries tasks again on a new worker if it is one of theirs, also where the restriction is loose.
    with in_process(2) as client:
        stop.at = ("cut", 1)  # so that no member has finished
        futures = futures_of(gang_sort(da.from_array(ARRAY, chunks=1000)).persist())
        assert stop.held.wait(SECONDS)
        pause_all(client)
        stop.open.set()
        gangs.wait_for_members(client, "memory", "memory")
        assert not any(future.done() for future in futures)
        (worker,) = client.sync(add_workers, client, 1)
        check_result(futures)
        client.sync(worker.close)


async def add_workers(client, count, **options):
    settings = {"nthreads": 1, "memory_limit": 0, **options}
    return [await distributed.Worker(client.scheduler.address, **settings) for _ in range(count)]


@pytest.mark.parametrize("stage", STAGES)
def test_restart(client, stop, stage):
    futures, _ = sort_up_to(client, stop, stage)
    plugin = client.cluster.scheduler.plugins["gpusort-gang"]
    client.cluster.scheduler.client_desires_keys(keys=[futures[0].key], client=scheduler_plugin.CLIENT)
    client.restart(wait_for_workers=False)
    assert scheduler_plugin.CLIENT not in client.cluster.scheduler.clients
    assert not plugin.gangs.gangs
    stop.open.set()
    stop.at = None
    added = client.sync(add_workers, client, 3)  # Dask restarts none without a nanny
    check_result(futures_of(gang_sort(persisted()).persist()))
    client.sync(asyncio.gather, *(worker.close() for worker in added))


def test_a_worker_that_dies_too_often_at_a_member(client, stop):
    # Dask keeps this error as bytes, not as it keeps those of tasks.
    client.cluster.scheduler.allowed_failures = 0
    futures, address = sort_up_to(client, stop, "before ready")
    remove(client, address)
    stop.open.set()
    assert [type(error) for error in errors_of(futures)] == [distributed.KilledWorker] * 3


# Workers of members.


def look(client, function):
    return client.run_on_scheduler(lambda dask_scheduler: function(dask_scheduler))


def members_ran_on(dask_scheduler):
    """Addresses of the workers of the members in memory."""
    plugin = dask_scheduler.plugins["gpusort-gang"]
    states = [dask_scheduler.tasks[key] for key in plugin.specs]
    return [on.address for state in states for on in state.who_has or ()]


def set_resources(client, address, **resources):
    async def change(dask_worker):
        await dask_worker.set_resources(**resources)

    client.run(change, workers=[address])


@pytest.mark.parametrize("having", [1, 2, 3])
def test_members_and_resources(client, having):
    # A member that waits would keep its unit, and the others wait for one.
    workers = gangs.addresses(client)[-having:]
    for address in workers:
        set_resources(client, address, GPU=1)
    x = persisted()
    found = [client.persist(gang_sort(array), resources={"GPU": 1}) for array in (x, x + 1)]
    check_result(futures_of(found[0]))
    for number, future in enumerate(futures_of(found[1])):
        oracle.assert_same_bits(future.result(timeout=SECONDS), oracle.sort(ARRAY + 1)[1000 * number :][:1000])
    assert set(look(client, members_ran_on)) == set(workers)


def test_members_wait_for_a_worker_with_their_resource(client):
    client.wait_for_workers(3)
    y = gang_sort(persisted()).persist(resources={"GPU": 1})
    states = [("no-worker", None)] * 3
    gangs.until(lambda: list(gangs.members(client).values()) == states, "members without a worker")

    (worker,) = client.sync(add_workers, client, 1, resources={"GPU": 1})
    check_result(futures_of(y))
    assert set(look(client, members_ran_on)) == {worker.address}
    client.sync(worker.close)


def test_a_chunk_that_another_gang_makes_is_no_member(client):
    y = gang_sort(persisted())
    futures = [client.compute(y), client.compute(y[:10])]
    distributed.wait(futures, timeout=SECONDS)
    plugin = client.cluster.scheduler.plugins["gpusort-gang"]
    states = [client.cluster.scheduler.tasks[gangs.key_of_chunk(y, number)] for number in (1, 2)]
    assert {state.state for state in states} == {"released"}

    async def take():
        plugin._take_from_other_gang(states)

    client.sync(take)
    assert not any(isinstance(state.run_spec, tasks.GangTask) for state in states)
    assert {state.worker_restrictions for state in states} == {None}
    assert not {state.key for state in states} & plugin.specs.keys()


def block(client, gate, address):
    """Keep the thread of a worker busy until the gate is open."""
    future = client.submit(gate.arrive, "block", workers=[address], pure=False)
    gangs.until(lambda: gate.arrived("block"), "a worker's thread")
    return future


def test_no_member_is_stolen_and_few_wait(tmp_path):
    # Without a bound, the members of all sorts would wait on the two workers that are free.
    with dask.config.set({"distributed.scheduler.work-stealing-interval": "20ms"}), in_process(timeout=60) as client:
        xs = [persisted(ARRAY + number) for number in range(6)]
        gate = gangs.Gate(tmp_path)
        blocker = block(client, gate, gangs.addresses(client)[2])
        futures = [client.compute(gang_sort(x)) for x in xs]
        plugin = client.cluster.scheduler.plugins["gpusort-gang"]
        gangs.until(
            lambda: sum(len(gang.ready) for gang in plugin.gangs.gangs.values()) == 2 * assignment.MOST_GATHERING,
            "members",
        )
        time.sleep(0.3)  # stealing has looked a few times
        waiting = [len(worker.plugins["gpusort-gang"].members) for worker in client.cluster.workers.values()]
        assert sorted(waiting) == [0, assignment.MOST_GATHERING, assignment.MOST_GATHERING]
        assert not any(future.done() for future in futures)
        gate.open()
        for number, future in enumerate(futures):
            oracle.assert_same_bits(future.result(timeout=SECONDS), oracle.sort(ARRAY + number))
        blocker.result()


def test_sorts_of_sorts_do_not_wait_for_each_other(client):
    # Those that come last in a graph are known to the scheduler as early as the others.
    x = da.from_array(ARRAY, chunks=1000)
    found = [gang_sort(gang_sort(gang_sort(x + number) + 1) - 1) for number in range(4)]
    for number, future in enumerate(client.compute(found)):
        oracle.assert_same_bits(future.result(timeout=SECONDS), oracle.sort((ARRAY + number) + 1 - 1))


def test_a_member_leaves_the_queue_of_a_paused_worker_though_no_other_one_waits(tmp_path):
    with in_process(timeout=0.5) as client:
        address = gangs.addresses(client)[1]
        x, gate = persisted(workers=[address] * 3), gangs.Gate(tmp_path)
        blocker = block(client, gate, address)
        futures = futures_of(gang_sort(x).persist())
        gangs.until(lambda: gangs.members(client).get(0) == ("processing", address), "a member in the queue")
        set_status(client, address, "paused")
        check_result(futures)
        assert address not in look(client, members_ran_on)
        gate.open()
        blocker.result()


def pause_all(client):
    for address in gangs.addresses(client):
        set_status(client, address, "paused")


def test_members_that_run_go_on_when_all_workers_are_paused(stop):
    with in_process(timeout=0.2) as client:
        futures, _ = sort_up_to(client, stop, "ready")
        pause_all(client)
        time.sleep(1)  # their time-out is over a few times
        stop.open.set()
        check_result(futures)


def test_members_in_the_queue_of_a_paused_worker_stay_until_one_runs(tmp_path):
    with in_process(timeout=0.2) as client:
        addresses, gate = gangs.addresses(client), gangs.Gate(tmp_path)
        x = persisted(workers=[addresses[1]] * 3)
        blocker = block(client, gate, addresses[1])
        futures = futures_of(gang_sort(x).persist())
        gangs.until(lambda: gangs.members(client).get(0) == ("processing", addresses[1]), "a member in the queue")
        pause_all(client)
        time.sleep(1)
        assert gangs.members(client)[0] == ("processing", addresses[1])
        set_status(client, addresses[2], "running")
        check_result(futures)
        gate.open()
        blocker.cancel()


def test_a_timeout_for_tasks_without_a_worker_spares_members_of_gangs_that_have_not_begun(tmp_path):
    settings = {"distributed.scheduler.no-workers-timeout": "1s"}
    with dask.config.set(settings), in_process(timeout=60) as client:
        xs, gate = [persisted(ARRAY + number) for number in range(4)], gangs.Gate(tmp_path)
        blocker = block(client, gate, gangs.addresses(client)[2])
        futures = [client.compute(gang_sort(x)) for x in xs]
        nowhere = client.submit(time.time, workers=["nowhere"])
        with pytest.raises(distributed.scheduler.NoValidWorkerError):
            nowhere.result(timeout=SECONDS)
        time.sleep(1)
        assert not any(future.done() for future in futures)
        gate.open()
        for number, future in enumerate(futures):
            oracle.assert_same_bits(future.result(timeout=SECONDS), oracle.sort(ARRAY + number))
        blocker.result()


class Placed:
    """Six tasks, each with a worker of its own, that are to be computed."""

    def __init__(self, client, worker_of_task):
        client.register_plugin(scheduler_plugins.SortSchedulerPlugin())
        marks = {("placed", number): worker_of_task(number) for number in range(6)}
        graph = {key: PlacedTask(key, time.time, mark=mark) for key, mark in marks.items()}
        self.client, self.keys = client, list(graph)
        self.futures = client.get(graph, self.keys, sync=False)

    def done(self):
        return any(future.done() for future in self.futures)

    def ran_on(self):
        """Addresses of the workers that have run them."""
        self.client.gather(self.futures)
        return {address for (address,) in self.client.who_has(self.futures).values()}


@pytest.mark.parametrize("event", ["freed", "killed", "paused"])
def test_a_placed_task_stays_on_its_worker_while_that_runs(tmp_path, event):
    with dask.config.set({"distributed.scheduler.work-stealing-interval": "20ms"}), in_process() as client:
        address = gangs.addresses(client)[1]
        gate = gangs.Gate(tmp_path)
        blocker = block(client, gate, address)
        placed = Placed(client, lambda number: address)
        time.sleep(0.5)  # stealing has looked a few times
        on = {
            str(state.processing_on and state.processing_on.address)
            for state in map(client.cluster.scheduler.tasks.get, placed.keys)
        }
        assert on == {address}
        if event == "freed":
            gate.open()
        elif event == "killed":
            remove(client, address)
        else:
            set_status(client, address, "paused")
        assert (address in placed.ran_on()) == (event == "freed")
        gate.open()
        blocker.cancel()


def test_tasks_of_gpus_go_to_workers_with_a_gpu(client, monkeypatch):
    monkeypatch.setattr(tasks, "GangSpec", lambda *fields: member.GangSpec(*fields[:4], on_devices=True))
    gpus = gangs.addresses(client)[1:]
    set_gpus(client, gpus)
    assert runtime.workers_in_use("distributed", client, "cupy").threads == 2
    futures = futures_of(gang_sort(persisted()).persist())
    check_result(futures)
    assert set(look(client, members_ran_on)) == set(gpus)
    assert Placed(client, lambda number: number).ran_on() == set(gpus)


def set_gpus(client, addresses):
    for address in addresses:
        client.cluster.scheduler.workers[address].extra["gpu"] = {"memory-total": 1 << 30}


@pytest.mark.parametrize("event", ["killed", "paused"])
def test_placed_tasks_of_gpus_leave_a_worker_for_another_gpu(client, tmp_path, event):
    _, first, second = gangs.addresses(client)
    set_gpus(client, [first, second])
    gate = gangs.Gate(tmp_path)
    blocker = block(client, gate, first)
    placed = Placed(client, lambda number: first)
    gangs.until(lambda: {*placed.keys} <= client.cluster.scheduler.tasks.keys(), "the placed tasks")
    if event == "killed":
        remove(client, first)
    else:
        set_status(client, first, "paused")
        gate.open()
    assert placed.ran_on() <= ({second} if event == "killed" else {first, second})
    gate.open()
    blocker.cancel()


def test_placed_tasks_of_gpus_wait_until_one_runs(client):
    gpus = gangs.addresses(client)[1:]
    set_gpus(client, gpus)
    for address in gpus:
        set_status(client, address, "paused")
    placed = Placed(client, lambda number: gpus[0] if number % 2 else number)
    time.sleep(0.3)
    assert not placed.done()
    set_status(client, gpus[1], "running")
    assert placed.ran_on() == {gpus[1]}


# Deadlines.


def test_a_member_that_does_not_end_is_given_up(stop, monkeypatch):
    monkeypatch.setattr(scheduler_plugin, "PATIENCE", 3)
    with in_process(timeout=0.2) as client:
        futures, address = sort_up_to(client, stop, "started")
        for error in errors_of(futures):
            assert isinstance(error, RuntimeError)
            assert f"member 1 of the gang, on worker {address}, did not stop its exchange in" in str(error)
            assert "exchange='tasks'" in str(error)
        stop.open.set()


def test_members_that_wait_are_given_up_if_no_worker_runs_another_one(stop, tmp_path, monkeypatch):
    # They may be why the workers are paused.
    monkeypatch.setattr(scheduler_plugin, "PATIENCE", 3)
    with in_process(timeout=0.2) as client:
        x, gate = persisted(), gangs.Gate(tmp_path)
        blocker = block(client, gate, gangs.addresses(client)[1])
        futures = futures_of(gang_sort(x).persist())
        gangs.wait_for_members(client, "ready", "processing", "ready")
        time.sleep(1)
        assert gangs.members(client)[1][0] == "processing", "time in which it waits for a thread does not count"
        pause_all(client)
        for error in errors_of(futures):
            assert "waits for a worker that runs it for" in str(error)
        gate.open()
        blocker.cancel()


# Plugins.


def test_an_error_of_the_coordinator_is_logged_and_holds_up_no_other_gang(client, monkeypatch, caplog):
    check_result(futures_of(gang_sort(persisted()).persist()))
    plugin = client.cluster.scheduler.plugins["gpusort-gang"]
    checked = []

    def gang_of(token, *_):
        checked.append(token)
        raise ZeroDivisionError(token)

    async def check():
        monkeypatch.setattr(plugin.gangs, "gangs", type("Broken", (), {"get": staticmethod(gang_of)})())
        plugin._unchecked = {"one", "two"}
        plugin._check_all()
        monkeypatch.undo()

    client.sync(check)
    assert sorted(checked) == ["one", "two"]
    errors = [
        record for record in caplog.records if "A plugin of gpusort failed in GangSchedulerPlugin" in record.message
    ]
    assert [record.levelname for record in errors] == ["ERROR"] * 2


def test_a_coordinator_leaves_the_settings_of_the_scheduler_as_they_are(client):
    def settings(dask_scheduler):
        streams = {**dask_scheduler.stream_comms, **dask_scheduler.client_comms}
        intervals = {name: stream.interval for name, stream in streams.items()}
        return intervals, dask_scheduler.rootish_tg_threshold

    before = look(client, settings)
    other = client.submit(time.time, pure=False)
    distributed.wait(other)
    restrictions = client.cluster.scheduler.tasks[other.key].worker_restrictions
    check_result(futures_of(gang_sort(persisted()).persist()))
    assert look(client, settings) == before
    assert client.cluster.scheduler.tasks[other.key].worker_restrictions == restrictions


def test_two_clients_that_register_at_once_have_one_coordinator(client):
    with distributed.Client(client.cluster, set_as_default=False) as other:
        both = [one.register_plugin for one in (client, other)]
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(one, scheduler_plugin.GangSchedulerPlugin()) for one in both]:
                done.result(SECONDS)
        found = client.cluster.scheduler
        plugin = found.plugins["gpusort-gang"]
        assert found.stream_handlers[member.READY].__self__ is plugin
        check_result(futures_of(gang_sort(persisted()).persist()))


# Another version of distributed.


def other_version(monkeypatch):
    missing = (distributed.Scheduler, "a_method_of_another_release", set())
    monkeypatch.setattr(_distributed, "_METHODS", (*_distributed._METHODS, missing))
    monkeypatch.setattr(_distributed, "mismatch_of_classes", _distributed.mismatch_of_classes.__wrapped__)
    return "Scheduler of distributed has no method a_method_of_another_release"


def broken_import(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_gpusort.graph.gang.scheduler_plugin", None)
    return "import of dask_gpusort.graph.gang.scheduler_plugin halted"


@pytest.mark.parametrize("cause", [other_version, broken_import])
def test_without_gangs_other_exchanges_are_used(client, monkeypatch, cause):
    reason = cause(monkeypatch)
    exchanges._warn_once.cache_clear()
    with pytest.raises(ValueError, match=f"exchange='gang' does not fit .*{reason}.*use exchange='auto'"):
        gang_sort(da.from_array(ARRAY, chunks=1000))
    with pytest.warns(RuntimeWarning, match=f"exchange='device'.*{reason}"):
        assert exchanges.install_or_else("gang", "auto", client)[0] == "device"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert exchanges.install_or_else("gang", "auto", client)[0] == "device"
    oracle.assert_same_bits(dask_gpusort.sort(da.from_array(ARRAY, chunks=1000)).compute(), SORTED)


@pytest.mark.parametrize("names", ["_OF_A_SCHEDULER", "_OF_A_WORKER", "_OF_A_CLIENT"])
def test_another_version_refuses_the_coordinator(client, monkeypatch, names):
    monkeypatch.setattr(_distributed, names, ("no_such_attribute",))
    about = "Client.*" if names == "_OF_A_CLIENT" else ""
    with pytest.raises(ValueError, match=f"exchange='gang' does not fit .*{about}no_such_attribute"):
        gang_sort(da.from_array(ARRAY, chunks=1000))
    assert "gpusort-gang" not in client.cluster.scheduler.plugins
    assert not [name for name in client.cluster.scheduler.worker_plugins if name.startswith("gpusort-gang")]


@pytest.mark.parametrize("owner", ["Scheduler", "TaskState", "WorkerState", "ClientState", "Worker"])
def test_a_missing_name_is_told(monkeypatch, owner):
    assert _distributed.mismatch() is None
    monkeypatch.setattr(_distributed, "_ATTRIBUTES", ((getattr(_distributed, owner), {"no_such_attribute"}),))
    of_classes = _distributed.mismatch_of_classes.__wrapped__
    assert f"{owner} of distributed has no attribute ['no_such_attribute']" in of_classes()
    monkeypatch.setattr(_distributed, "_METHODS", ((_distributed.Scheduler, "transitions", {"no_such_parameter"}),))
    assert "Scheduler.transitions of distributed has no parameter ['no_such_parameter']" in of_classes()


def test_exceptions_that_do_not_pass_are_told(monkeypatch):
    monkeypatch.setattr(_distributed, "clean_exception", lambda error: (None, error, None))
    assert "does not pass exceptions" in _distributed.mismatch_of_classes.__wrapped__()


def test_tasks_that_dask_hides_otherwise_are_told(monkeypatch):
    monkeypatch.setattr(_dask.ProhibitReuse, "__dask_graph__", lambda self: {"a": _dask.Task("a", len, 1, 2)})
    assert "another form" in _distributed.mismatch_of_classes.__wrapped__()
