"""Plugins that fit a scheduler and its workers to sorts of few, short tasks on much data.

Distributed gathers messages: a scheduler writes to a worker at most every 5 ms, a worker to its scheduler every 2 ms. A
sort on many GPUs is a chain of some six short steps, each of which waits for both. Without the wait a sort of four
small chunks on two workers of one process took 29 ms and not 49, and 37 and not 46 when the machine was busy (medians
of 12, several times over, on 2 cores).

Messages that come while one is being written still travel together, so a cluster that is busy loses little.

And it takes a stage of many tasks that depends on one of few for the root of the graph: it deals its tasks out to idle
workers, wherever their data lie. In a sort these are the output chunks of a handful of groups, and what a pair of
bundles has for each group; every one of them would carry gigabytes to another GPU to cut a piece off.

Import this module only where distributed is in use: it imports it. Register on a cluster of your own with
``client.register_plugin(SortSchedulerPlugin())`` and ``client.register_plugin(SortWorkerPlugin())``.
"""

from __future__ import annotations

from typing import Any

from distributed import SchedulerPlugin, WorkerPlugin

#: Least seconds between two messages.
INTERVAL = 0.0


#: Stages that a stage may depend on and still be dealt out as root tasks, less one: none.
ROOTISH_STAGES = 1


class SortSchedulerPlugin(SchedulerPlugin):
    """Shortens the wait between messages to each worker, and runs tasks where their data are."""

    name = "gpusort-scheduler"

    async def start(self, scheduler: Any) -> None:
        """Called once: for the workers that are there."""
        scheduler.rootish_tg_threshold = ROOTISH_STAGES
        for worker in list(scheduler.stream_comms):
            self.add_worker(scheduler, worker)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Called for each worker that comes."""
        stream = scheduler.stream_comms.get(worker)
        if stream is not None:
            stream.interval = INTERVAL


class SortWorkerPlugin(WorkerPlugin):
    """Shortens the wait between messages from a worker to the scheduler."""

    name = "gpusort-worker"

    def setup(self, worker: Any) -> None:
        """Called once on each worker."""
        worker.batched_stream.interval = INTERVAL
