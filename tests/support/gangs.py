"""Clusters, gates and the state of gangs, for the tests of the gang."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
from dask.typing import Key
from tlz import merge_with

from dask_gpusort.graph.gang import communicator, tasks
from dask_gpusort.graph.runtime import workers_of_cluster
from support import strategies as ours

#: Seconds until a test gives up.
LONG = 60.0
#: What asks for gangs.
IN_GANG = {"scheduler": "distributed", "gpusort.exchange": "gang"}


@contextmanager
def cluster(workers: int, **options: Any) -> Iterator[Any]:
    """A client of a cluster of processes with one thread each, which restart after they are killed."""
    config = {
        "distributed.scheduler.allowed-failures": 10,
        "distributed.comm.retry.count": 0,
        "distributed.comm.timeouts.connect": "20s",
        # Longer than all tests: so long after a kill, Dask gives up the worker if it is just being restarted again.
        "distributed.deploy.lost-worker-timeout": "1h",
    }
    settings = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0", **options}
    with (
        dask.config.set(config),
        distributed.LocalCluster(**settings) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        yield client


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until a condition holds, and return what it gives."""
    deadline = time.monotonic() + LONG
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


class Gate:
    """A gate that tasks of any process wait at, until it is opened.

    Parameters
    ----------
    folder : Path
        An empty one.
    """

    def __init__(self, folder: Path):
        self.folder = str(folder)

    def arrive(self, name: str) -> None:
        """Note that a task is here, and wait."""
        Path(self.folder, f"at-{name}").touch()
        until(Path(self.folder, "open").exists, "a gate")

    def arrived(self, name: str) -> bool:
        """Whether a task is, or was, here."""
        return Path(self.folder, f"at-{name}").exists()

    def open(self) -> None:
        """Let all tasks pass, from now on."""
        Path(self.folder, "open").touch()


def gated(array: np.ndarray[Any, Any], chunks: int, gate: Gate, number: int) -> Any:
    """A dask array of which one chunk waits at a gate.

    The chunk is on the worker of the member with its number, so it is the only member that waits.
    """

    def block(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        distributed.secede()  # Dask may run other chunks on this worker
        gate.arrive("chunk")
        return part

    client = distributed.Client.current()
    # Members whose chunks no worker holds are placed in the order of the addresses.
    address = addresses(client)[number]
    part = array[number * chunks : (number + 1) * chunks]
    waits = client.submit(block, part, workers=[address], allow_other_workers=True, pure=False)
    blocks = list(da.from_array(array, chunks=chunks).blocks)
    blocks[number] = da.from_delayed(waits, part.shape, meta=array[:0])
    return da.concatenate(blocks)


def placed(array: np.ndarray[Any, Any], chunks: Any, workers: Sequence[int], unknown: bool = False) -> Any:
    """An array of which workers hold the chunks, or of which none does."""
    x = ours.dask_array(array, chunks, unknown=unknown)
    if not workers:
        return x
    client = distributed.Client.current()
    names = addresses(client)
    with dask.annotate(workers=lambda key: [names[workers[sum(key[1:]) % len(workers)]]]):
        x = x.map_blocks(np.copy, meta=x._meta)
    x = x.persist(optimize_graph=False)
    distributed.wait(x)
    client.run_on_scheduler(allow_other_workers, [future.key for future in distributed.futures_of(x)])
    return x


def allow_other_workers(keys: Sequence[Key], dask_scheduler: Any) -> None:
    """Let tasks be run again on any worker: before, another one could have stolen them."""
    for key in keys:
        dask_scheduler.tasks[key].loose_restrictions = True


def found_by_gangs(*arrays: Any) -> tuple[Any, ...]:
    """Compute arrays, each of which a gang makes."""
    for array in () if da.array_expr_enabled() else arrays:
        graph = dict(dask.optimize(array)[0].dask)
        assert any(isinstance(task, tasks.GangTask) for task in graph.values())
    found: tuple[Any, ...] = dask.compute(*arrays)
    return found


def attempt(works: Sequence[Any]) -> tuple[int, list[Any]]:
    """One attempt of the works of all members, without a cluster: the number of exchanges, and what each makes."""
    summaries, count = [work.summaries for work in works], 0
    exchanges = [work.exchanges(summaries) for work in works]
    arriving: list[Any] = [None] * len(works)
    while True:
        given = [_given(*one) for one in zip(exchanges, arriving, strict=True)]
        if all(map(callable, given)):
            return count, [finish() for finish in given]
        count += 1
        arriving = [[sent[rank] for sent, _ in given] for rank in range(len(works))]
        assert [list(map(len, runs)) for runs in arriving] == [list(lengths) for _, lengths in given]


def _given(exchanges: Any, received: Any) -> Any:
    """The next shards, or what finishes."""
    try:
        return exchanges.send(received)
    except StopIteration as end:
        return end.value


def addresses(client: Any) -> list[str]:
    """Addresses of the workers, in their order."""
    return sorted(workers_of_cluster(client))


def members(client: Any) -> dict[int, tuple[str, str | None]]:
    """State and worker of each member that the scheduler knows, by rank. For a test with one gang."""

    def look(dask_scheduler: Any) -> dict[int, tuple[str, str | None]]:
        plugin = dask_scheduler.plugins.get("gpusort-gang")
        found = {}
        for key, spec in plugin.specs.items() if plugin else ():
            state = dask_scheduler.tasks[key]
            waits = spec.rank in plugin.gangs.gangs[spec.token].ready
            on = state.processing_on or next(iter(state.who_has or ()), None)
            found[spec.rank] = ("ready" if waits else state.state, on.address if on else None)
        return found

    return client.run_on_scheduler(look)


def wait_for_members(client: Any, *states: str) -> dict[int, str]:
    """Wait until the members are in these states, by rank; gives their workers."""

    def there() -> dict[int, str] | None:
        found = members(client)
        match = len(found) == len(states) and all(found[rank][0] == state for rank, state in enumerate(states))
        return {rank: str(worker) for rank, (_, worker) in found.items()} if match else None

    return until(there, f"members that are {states}, not {members(client)}")


def seconds_of_phases(client: Any) -> dict[str, float]:
    """What Dask's dashboard shows of all members since the scheduler began, by label."""

    async def heartbeat(dask_worker: Any) -> None:  # which sends the metrics
        await dask_worker.heartbeat()

    def look(dask_scheduler: Any) -> dict[str, float]:
        metrics = dask_scheduler.cumulative_worker_metrics.items()
        seconds = {name[1:3]: value for name, value in metrics if name[0] == "execute" and name[-1] == "seconds"}
        # Where a member is an output chunk, its task has the prefix of the output.
        return dict(merge_with(sum, *({label: value} for (_, label), value in seconds.items())))

    client.run(heartbeat)
    found: dict[str, float] = client.run_on_scheduler(look)
    return found


def state_of_gangs(client: Any) -> dict[str, Any]:
    """All that is left of gangs, on the scheduler and the workers; empty if nothing is."""

    def on_scheduler(dask_scheduler: Any) -> dict[str, Any]:
        plugin = dask_scheduler.plugins["gpusort-gang"]
        left = {
            "gangs": plugin.gangs.gangs,
            "turns": plugin.gangs.turns,
            "specs": plugin.specs,
            "keys": plugin._keys,
            "tasks": [key for key in dask_scheduler.tasks if "sort-" in str(key)],
            "clients": [name for name in dask_scheduler.clients if name == "gpusort-gang"],
        }
        return {name: str(found) for name, found in left.items() if found}

    def on_worker(dask_worker: Any) -> dict[str, Any]:
        plugin = dask_worker.plugins["gpusort-gang"]
        left = {
            "members": plugin.members,
            "shards": plugin.outboxes.shards,
            "data": [key for key in dask_worker.data if "sort-" in str(key)],
        }
        return {name: str(found) for name, found in left.items() if found}

    found = {address: one for address, one in client.run(on_worker).items() if one}
    scheduler = client.run_on_scheduler(on_scheduler)
    return {**found, "scheduler": scheduler} if scheduler else found


def check_nothing_is_left(client: Any) -> None:
    """Assert that no gang is known anywhere, after a moment."""
    until(lambda: not state_of_gangs(client), "the end of all gangs")


def kill(client: Any, address: str) -> None:
    """Kill the process of a worker, and wait until the scheduler has removed the worker.

    Until then a broadcast to all workers fails, and the worker counts as running.
    """

    def is_there(dask_scheduler: Any) -> bool:
        return address in dask_scheduler.workers

    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)
    until(lambda: not client.run_on_scheduler(is_there), f"the removal of {address}")


@contextmanager
def patched_exchange(client: Any, replace: Callable[[Any], Any]) -> Iterator[None]:
    """Replace `WorkerComms.exchange` on all workers by `replace(original)`; in the end all workers are there again."""

    def patch() -> None:
        comms: Any = communicator.WorkerComms
        comms.original = comms.exchange
        comms.exchange = replace(comms.exchange)
        # The state of gangs is empty when the last fetch of an attempt that was given up is answered.
        communicator.WAIT_SECONDS = 0.2

    def undo() -> None:
        comms: Any = communicator.WorkerComms
        if hasattr(comms, "original"):
            comms.exchange = comms.original
            del comms.original

    client.run(patch)
    try:
        yield
    finally:
        client.wait_for_workers(3, timeout=60)
        client.run(undo)


def result_of(future: Any) -> Any:
    """The result of a future that must come."""
    return future.result(timeout=LONG)


def error_of(future: Any) -> Exception:
    """The error of a future that must fail. Dask would keep the tasks while a traceback refers to the future."""
    error: Exception = future.exception(timeout=LONG)
    future.cancel()
    return error


def key_of_chunk(darr: Any, number: int) -> Key:
    """Key of a chunk of a one-dimensional array."""
    return (darr.name, number)


def of_tasks(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """What other tasks make of the same chunks, on one thread."""
    with dask.config.set({"scheduler": "synchronous", "gpusort.exchange": "auto"}):
        found = function(*arrays, **options)
        return dask.compute(*(found if isinstance(found, tuple) else (found,)))
