"""What happens to a cluster in the middle of a sort, ranks and an inverse at once, which share their source."""

from __future__ import annotations

import os
import signal
import time

import dask
import dask.array as da
import numpy as np
import pytest
from support import strategies as ours
from support.sorting import groups

distributed = pytest.importorskip("distributed")
gangs = pytest.importorskip("support.gangs")
runs = pytest.importorskip("support.runs")
plugins = pytest.importorskip("dask_gpusort.graph.runs.plugins")

pytestmark = pytest.mark.slow
SIZE, CHUNK = 20_000, 1000
ARRAY = ours.make("i8", SIZE, "zipf")


@pytest.fixture
def client():
    config = {"scheduler": "distributed", "gpusort.exchange": "runs", **runs.RETIRING}
    with dask.config.set(config), groups(4), gangs.cluster(3) as client, client.as_current():
        yield client


def source(function=np.copy):
    return da.from_array(ARRAY, chunks=CHUNK).map_blocks(function, meta=ARRAY[:0])


def begin(client, gate):
    """All runs but those of one chunk are kept, and no task waits on a worker, where it stays if that is paused."""

    def wait(block, block_id=None):
        if block_id[0] == 3:
            distributed.secede()
            gate.arrive("chunk")
        return block

    def waits(dask_scheduler):
        return [len(worker.processing) for worker in dask_scheduler.workers.values()]

    def are_kept(dask_scheduler):
        return len(dask_scheduler.plugins[plugins.NAME]._keepers) >= SIZE // CHUNK - 1

    futures = client.compute(runs.results(source(wait)))
    gangs.until(lambda: gate.arrived("chunk") and client.run_on_scheduler(are_kept), "runs")
    gangs.until(lambda: sum(client.run_on_scheduler(waits)) == 1, "the task at the gate alone")
    return futures


def check(client, futures):
    runs.assert_right(map(gangs.result_of, futures), ARRAY)
    futures.clear()
    runs.check_nothing_is_left(client)


def pause(dask_worker):
    dask_worker.status = distributed.Status.paused


@pytest.mark.parametrize("event", ["paused", "stopped", "retired", "killed", "joined"])
def test_an_event_when_runs_are_kept(client, tmp_path, event):
    gate = gangs.Gate(tmp_path)
    futures, (first, *_), pids = begin(client, gate), gangs.addresses(client), client.run(os.getpid)
    if event == "paused":
        client.run(pause, workers=[first])
    elif event == "stopped":
        os.kill(pids[first], signal.SIGSTOP)
    elif event == "retired":
        client.retire_workers([first])
    elif event == "joined":
        client.cluster.scale(4)
        client.wait_for_workers(4, timeout=gangs.LONG)
    else:
        gangs.kill(client, first)
    gate.open()
    if event == "stopped":
        time.sleep(2)
        assert not any(future.done() for future in futures)
        os.kill(pids[first], signal.SIGCONT)
    check(client, futures)
    assert (first in gangs.addresses(client)) == (event not in ("retired", "killed"))


def test_a_restart(client, tmp_path):
    gate = gangs.Gate(tmp_path)
    futures = begin(client, gate)
    client.restart()
    assert {future.status for future in futures} == {"cancelled"}
    gate.open()
    check(client, client.compute(runs.results(source())))


def test_a_source_that_hangs_holds_up_nothing_else(client, tmp_path):
    gate = gangs.Gate(tmp_path)
    hanging = begin(client, gate)
    runs.assert_right(dask.compute(*runs.results(source())), ARRAY)
    assert not any(future.done() for future in hanging)
    gate.open()
    check(client, hanging)
