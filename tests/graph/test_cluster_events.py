"""A cluster that changes in the middle of a sort: workers join, it adapts, and the scheduler dies."""

from __future__ import annotations

import re
import time

import dask
import dask.array as da
import pytest
from support import strategies as ours
from support.marks import slow_but_first
from support.scripts import end_script, start_script
from support.sorting import groups

distributed = pytest.importorskip("distributed")
gangs = pytest.importorskip("support.gangs")
runs = pytest.importorskip("support.runs")

EXCHANGES = ("runs", "tasks", "gather", "gang")
SIZE, CHUNK = 20_000, 1000
ARRAY = ours.make("i8", SIZE, "zipf")
#: No worker is lost: one that comes or goes has time to connect, and Dask fuses tasks as it does by default.
CHANGES = {**runs.RETIRING, "distributed.comm.timeouts.connect": "60s", "optimization.fuse.active": None}


def held_back(gate):
    """An array of which the chunks in the second half wait at a gate."""

    def block(part, block_id=None):
        if block_id[0] >= SIZE // CHUNK // 2:
            time.sleep(0.05)  # a cluster that adapts looks at what runs so often
            distributed.secede()  # other tasks run meanwhile
            gate.arrive(str(block_id[0]))
        return part.copy()

    return da.from_array(ARRAY, chunks=CHUNK).map_blocks(block, meta=ARRAY[:0])


def begin(client, exchange, gate):
    """A sort, ranks and an inverse that have begun, and wait."""
    with groups(6), dask.config.set({"gpusort.exchange": exchange}):
        futures = client.compute(runs.results(held_back(gate)))
    gangs.until(lambda: gate.arrived(str(SIZE // CHUNK // 2)), "a chunk")
    return futures


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_worker_that_joins(tmp_path, exchange):
    gate = gangs.Gate(tmp_path)
    with runs.cluster(2, **CHANGES) as client:
        futures = begin(client, exchange, gate)
        client.cluster.scale(3)
        client.wait_for_workers(3, timeout=60)
        gate.open()
        runs.assert_right(map(gangs.result_of, futures), ARRAY)


class Comers(distributed.SchedulerPlugin):
    """Counts the workers that come: one may have gone again before the client sees it."""

    name, count = "comers", 0

    def add_worker(self, scheduler, worker):
        self.count += 1


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_adaptive_cluster(tmp_path, exchange):
    gate, comers = gangs.Gate(tmp_path), Comers()
    with runs.cluster(1, **CHANGES) as client:
        client.cluster.scheduler.add_plugin(comers)
        client.cluster.adapt(minimum=1, maximum=2, interval="50ms", wait_count=1, target_duration="1ms")
        for number in range(2):
            (tmp_path / "open").unlink(missing_ok=True)
            for mark in tmp_path.glob("at-*"):
                mark.unlink()
            before = comers.count
            futures = begin(client, exchange, gate)
            # Chunks that wait call for a second worker, and it goes when there is no work.
            gangs.until(lambda before=before: comers.count > before, "a second worker")
            gate.open()
            runs.assert_right(map(gangs.result_of, futures), ARRAY)
            del futures
            gangs.until(lambda: len(gangs.addresses(client)) == 1, "one worker")


@pytest.mark.parametrize("exchange", slow_but_first(*EXCHANGES))
def test_fifty_sorts_at_once_from_two_clients(cluster_client, exchange):
    with distributed.Client(cluster_client.scheduler.address, set_as_default=False) as other:
        futures = []
        for number in range(50):
            array = ours.make("i4", 900 + number, "bits", seed=number)
            client = (cluster_client, other)[number % 2]
            config = {"scheduler": "distributed", "gpusort.exchange": exchange}
            with client.as_current(), dask.config.set(config), groups(3):
                found = runs.results(da.from_array(array, chunks=150))
                futures.append((array, client.compute(found if number % 5 == 0 else found[:1])))
        for array, some in futures:
            runs.assert_right(map(gangs.result_of, some), array)


SCHEDULER = """
import signal
from distributed.deploy.subprocess import SubprocessCluster

def slow(part, flag):
    open(flag, "w").close()
    time.sleep(0.5)
    return part

if __name__ == "__main__":
    dask.config.set({"distributed.comm.timeouts.connect": "2s"})
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    cluster = SubprocessCluster(worker_kwargs={"memory_limit": 0}, **options)
    client = distributed.Client(cluster)
    x = source().map_blocks(slow, "begun", meta=ARRAY[:0])
    futures = client.compute([dask_gpusort.sort(x, exchange=exchange) for exchange in arguments])
    while not os.path.exists("begun"):
        time.sleep(0.01)
    os.kill(cluster.scheduler.process.pid, signal.SIGKILL)
    for exchange, future in zip(arguments, futures):
        try:
            future.result()
        except Exception as error:
            print(f"error of {exchange}: {type(error).__name__}: {error}")
    with dask.config.set(scheduler="threads"):
        check("gather")
    os._exit(0)  # a cluster without its scheduler cannot be closed
"""


@pytest.mark.slow
def test_a_scheduler_that_dies_is_an_error(tmp_path):
    output = end_script(start_script(tmp_path, SCHEDULER, "runs", "gang"))
    told = re.findall("error of (.*): .*Cancelled.*\n?.*lost the connection to the scheduler", output)
    assert told == ["runs", "gang"], output


METHODS = """
if __name__ == "__main__":
    for method in ("fork", "forkserver"):  # other scripts spawn their workers
        dask.config.set({"distributed.worker.multiprocessing-method": method})
        with distributed.LocalCluster(**OPTIONS) as cluster, distributed.Client(cluster) as client:
            for exchange in arguments:
                check(exchange)
"""


@pytest.mark.slow
def test_workers_of_every_start_method(tmp_path):
    end_script(start_script(tmp_path, METHODS, *EXCHANGES))
