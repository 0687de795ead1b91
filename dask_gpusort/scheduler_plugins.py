"""Plugins that adapt a scheduler and its workers to sorts: few, short tasks on much data.

Distributed batches messages: a scheduler writes to a worker at most every 5 ms and to a client every 2 ms, a worker to
its scheduler every 2 ms. A sort on many GPUs is a chain of short steps, and each step waits for both. Without the wait,
a sort by tasks of four small chunks on two workers of one process took 29 ms instead of 49, and 37 instead of 46 on a
busy machine (medians of 12, several repetitions, on 2 cores). Without the wait for the client, small sorts took 11.0 ms
instead of 12.3 by a gang, and 14.7 instead of 16.8 by tasks (medians of 25, two worker processes, 2 cores). Messages
that arrive during a write still travel together, so a busy cluster loses little.

The scheduler also treats a wide stage with few dependencies as root-ish and spreads it over idle workers, ignoring data
locality. In a sort such stages are the output chunks of a few groups, and the shards of a few bundles: each task would
copy gigabytes to another GPU to cut a piece off.

Chunks that tasks make would be spread over the workers as these become idle. A bundle's chunks would be on all GPUs,
and a GPU could get more bundles than its share: on two worker processes one got 19 of 32. A sorted bundle could be
copied to a less busy worker to be cut. So the tasks of a bundle, and those that make its chunks, are given a worker,
which others cannot steal them from.

This module imports distributed: import it only where distributed is in use. `dask_gpusort.cluster` installs the
plugins. For other clusters, start the scheduler with ``--preload dask_gpusort.scheduler_plugins``, or call
``client.register_plugin(SortSchedulerPlugin())`` and ``client.register_plugin(SortWorkerPlugin())``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dask.typing import Key
from distributed import Scheduler, SchedulerPlugin, WorkerPlugin

from .graph._dask import known_tasks
from .graph._distributed import register_on_workers
from .graph.placement import PlacedTask, Placement, changes_status, gpu_workers

#: Shortest time between two messages, in seconds.
INTERVAL = 0.0

#: The scheduler treats a stage as root-ish if it depends on fewer stages than this: now only without dependencies.
ROOTISH_STAGES = 1


class SortSchedulerPlugin(SchedulerPlugin):
    """Send messages to workers and clients without delay, and run tasks where their data are."""

    name = "gpusort-scheduler"
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Configure the scheduler and the workers already connected; called once."""
        self.scheduler, self.placement = scheduler, Placement(scheduler, self.name)
        scheduler.rootish_tg_threshold = ROOTISH_STAGES
        for worker in list(scheduler.stream_comms):
            self.add_worker(scheduler, worker)
        for client in list(scheduler.client_comms):
            self.add_client(scheduler, client)

    def update_graph(self, scheduler: Any, *, tasks: list[Key], **kwargs: Any) -> None:
        """Give the placed tasks of a new graph their workers: where some have a GPU, one of those."""
        placed = [state for state in known_tasks(scheduler, tasks) if isinstance(state.run_spec, PlacedTask)]
        workers, on_gpus = self._workers()
        for state in placed:
            worker = state.run_spec.mark
            if workers and not isinstance(worker, str):
                worker = workers[worker % len(workers)]
            address = worker if worker in workers else None
            for own in (state, *_made_for(state)) if address or on_gpus else ():
                if not (own.worker_restrictions or own.host_restrictions or own.resource_restrictions):
                    self.placement.put(own, address)
        self._move(None)

    def _workers(self) -> tuple[list[str], bool]:
        """The running workers for placed tasks: where some have a GPU, those; and whether some have one."""
        everywhere = set(self.scheduler.workers.values())
        gpus = gpu_workers(everywhere)
        return sorted(worker.address for worker in self.scheduler.running & (gpus or everywhere)), bool(gpus)

    def _move(self, worker: str | None) -> None:
        """Tasks of a worker that does not run, or of none, go to one with a GPU; if no worker has one, anywhere."""
        states, (workers, on_gpus) = self.placement.at(worker), self._workers()
        other = min(workers, key=lambda address: len(self.placement.at(address)), default=None) if states else None
        for state in states:
            if on_gpus:
                self.placement.put(state, other)
            else:
                self.placement.lift(state)
        self.placement.resume(states)

    def transition(self, key: Key, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Forget the tasks that the scheduler forgets."""
        if finish == "forgotten":
            self.placement.forget(key)

    def restart(self, scheduler: Any) -> None:
        """All tasks are forgotten."""
        self.placement = Placement(scheduler, self.name)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """A worker is gone."""
        self._move(worker)

    def log_event(self, topic: Any, msg: Any) -> None:
        """A worker may have been paused, or go on, or retire."""
        if changes_status(msg):
            self.scheduler.loop.add_callback(self._look_at, topic)  # when the scheduler has noted it too

    def _look_at(self, worker: str) -> None:
        self._move(None if worker in {one.address for one in self.scheduler.running} else worker)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Configure a new worker, on which tasks without one may run."""
        stream = scheduler.stream_comms.get(worker)
        if stream is not None:
            stream.interval = INTERVAL
        self._move(None)

    def add_client(self, scheduler: Any, client: str) -> None:
        """Configure a new client, as soon as the scheduler has its stream."""
        scheduler.loop.add_callback(self._hurry_client, scheduler, client)

    def _hurry_client(self, scheduler: Any, client: str) -> None:
        stream = scheduler.client_comms.get(client)
        if stream is not None:
            stream.interval = INTERVAL


def _made_for(state: Any) -> Iterator[Any]:
    """The tasks still to be run that a task needs, and no other task does."""
    needed = {state}
    waiting = list(state.dependencies)
    while waiting:
        one = waiting.pop()
        if one not in needed and one.state == "released" and needed.issuperset(one.dependents) and not one.who_wants:
            needed.add(one)
            waiting += one.dependencies
            yield one


class SortWorkerPlugin(WorkerPlugin):
    """Send messages from a worker to the scheduler without delay."""

    name = "gpusort-worker"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Configure the worker; called once on each."""
        worker.batched_stream.interval = INTERVAL


async def dask_setup(server: Any) -> None:
    """Install the plugins on a scheduler that preloads this module; a worker that does has imported the package."""
    if isinstance(server, Scheduler):
        server.add_plugin(SortSchedulerPlugin(), idempotent=True)  # the scheduler starts it, after all preloads
        await register_on_workers(server, SortWorkerPlugin)
