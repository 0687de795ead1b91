"""Clusters of threads, what they lose in the middle of a sort, and what is left there of kept runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import distributed
import numpy as np

import dask_gpusort
from dask_gpusort.graph.runs.plugins import NAME

from .gangs import until

#: Settings of a cluster whose workers retire: the interval at which these move their data.
RETIRING = {"distributed.scheduler.active-memory-manager.interval": "50ms"}


@contextmanager
def cluster(workers: int = 3, **config: Any) -> Iterator[Any]:
    """The client of a new cluster in this process. It is the default client."""
    config = {
        "distributed.scheduler.allowed-failures": 10,
        # A worker tries for as long to fetch from one that is lost, before it computes what that had.
        "distributed.comm.timeouts.connect": "2s",
        "optimization.fuse.active": False,
        **config,
    }
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        dask.config.set({"scheduler": "distributed", **config}),
        distributed.LocalCluster(memory_limit=0, **options) as started,
        distributed.Client(started) as client,
    ):
        yield client


#: Tasks that need all of a stage.
STAGE_ENDS = (
    "sort-list",
    "unique-list",
    "unique-totals",
    "unique-replies",
    "search-scan",
    "search-asked",
    "search-found",
)


class Held(distributed.SchedulerPlugin):
    """Notes the most bytes that results of tasks take when a task ends for which all others of a stage have ended."""

    name = "held"

    def __init__(self, scheduler: Any):
        self.scheduler, self.most = scheduler, 0
        self.held: dict[Any, int] = {}

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Add what a finished task has made, and subtract what is released."""
        if finish == "memory":
            self.held[key] = self.scheduler.tasks[key].nbytes
            if dask.utils.key_split(key) in STAGE_ENDS:
                self.most = max(self.most, sum(self.held.values()))
        elif start == "memory":
            self.held.pop(key, None)


@contextmanager
def watched(client: Any) -> Iterator[Held]:
    """What the tasks of a cluster in this process hold."""
    held = Held(client.cluster.scheduler)
    client.cluster.scheduler.add_plugin(held)
    yield held
    client.cluster.scheduler.remove_plugin(held.name)


class At(distributed.SchedulerPlugin):
    """Calls a function, with the scheduler and the address of a worker, when tasks with a prefix are finished.

    Parameters
    ----------
    scheduler : distributed.Scheduler
    prefix : str
    numbers : container of int
        The first such task is number 1.
    function : callable(scheduler, address)
        The address is that of the worker which has finished the task.
    """

    name = "at"
    before = False  # whether it is called before workers hear that the task is finished

    def __init__(self, scheduler: Any, prefix: str, numbers: Container[int], function: Callable[[Any, str], Any]):
        self.scheduler, self.prefix, self.numbers, self.function, self.seen = scheduler, prefix, numbers, function, 0

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Count a finished task."""
        name = key if isinstance(key, str) else key[0]
        if start == "processing" and finish == "memory" and name.startswith(self.prefix):
            self.seen += 1
            if self.seen in self.numbers and self.before:
                self.function(self.scheduler, kwargs["worker"])
            elif self.seen in self.numbers:
                self.scheduler.loop.add_callback(self.function, self.scheduler, kwargs["worker"])


@contextmanager
def call_at(client: Any, prefix: str, numbers: Container[int], function: Callable[[Any, str], Any]) -> Iterator[None]:
    """Call a function as tasks of a cluster are finished whose scheduler is in this process; see `At`."""
    scheduler = client.cluster.scheduler
    scheduler.add_plugin(At(scheduler, prefix, numbers, function))
    yield
    scheduler.remove_plugin(At.name)


def lose(scheduler: Any, address: str) -> Any:
    """Lose a worker as if its process had died, and let it close."""
    return scheduler.remove_worker(address, stimulus_id="lost", expected=False)


def lose_another(scheduler: Any, address: str) -> Any:
    """Lose the first of the other workers."""
    return lose(scheduler, min(other for other in scheduler.workers if other != address))


def retire(scheduler: Any, address: str) -> Any:
    """Let a worker go when others have its results."""
    return scheduler.retire_workers(workers=[address])


def refill(client: Any, workers: int) -> None:
    """Replace the workers that a cluster in this process has lost."""
    cluster = client.cluster

    async def replace() -> None:
        for name, worker in list(cluster.workers.items()):
            if worker.address not in cluster.scheduler.workers:
                await cluster.workers.pop(name).close(executor_wait=False)
        await cluster._correct_state()

    cluster.sync(replace)
    until(lambda: len(cluster.scheduler.workers) == workers, "new workers")


def results(x: Any) -> list[Any]:
    """What hostile conditions are tested with: the lazy sort of integers, their ranks, and their inverse."""
    return [
        dask_gpusort.sort(x),
        dask_gpusort.rank(x, method="min"),
        dask_gpusort.unique(x, return_inverse=True)[1],
    ]


def assert_right(got: Any, array: np.ndarray) -> None:
    """Assert that these results, or the first of them, are NumPy's."""
    got = list(got)
    ordered = np.sort(array)
    wanted = ordered, np.searchsorted(ordered, array) + 1, np.unique(array, return_inverse=True)[1]
    assert got
    for one, other in zip(got, wanted[: len(got)], strict=True):
        np.testing.assert_array_equal(one, other)


def left(client: Any) -> dict[str, Any]:
    """All that is left of runs, on the scheduler and the workers; empty if nothing is."""

    def on_scheduler(dask_scheduler: Any) -> dict[str, Any]:
        plugin, own = dask_scheduler.plugins[NAME], dask_scheduler.clients.get(NAME)
        found = {"lists": plugin._runs_of, "keepers": plugin._keepers, "wanted": own and own.wants_what}
        found |= {"unread": plugin._unread, "asked": plugin._asked}
        return {name: str(some) for name, some in found.items() if some}

    def on_worker(dask_worker: Any) -> dict[str, Any]:
        store = dask_worker.plugins[NAME].store
        files = [name for folder in (store.folder, *store.folders()) if folder.exists() for name in os.listdir(folder)]
        return {name: str(some) for name in ("_names", "_kept") if (some := vars(store)[name])} | dict.fromkeys(files)

    found = {address: some for address, some in client.run(on_worker).items() if some}
    return found | client.run_on_scheduler(on_scheduler)


def check_nothing_is_left(client: Any) -> None:
    """Assert that no run is kept or wanted, after a moment."""
    until(lambda: not left(client), "the end of all runs")
