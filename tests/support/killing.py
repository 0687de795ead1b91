"""Clusters of processes, and workers that are killed in the middle of a computation."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import distributed


class KillAt(distributed.WorkerPlugin):
    """Kill one worker's process, once in all, as soon as it has finished `after` tasks with a prefix."""

    name = "kill-at"

    def __init__(self, prefix: str, flag: Path, after: int) -> None:
        self.prefix, self.flag, self.after = prefix, str(flag), after

    def setup(self, worker: Any) -> None:
        self.seen = 0

    def transition(self, key: Any, start: str, finish: str, **kwargs: Any) -> None:
        name = key[0] if isinstance(key, tuple) else key
        if finish != "memory" or not name.startswith(self.prefix):
            return
        self.seen += 1
        if self.seen < self.after:
            return
        try:
            os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def two_processes(**config: Any) -> Iterator[Any]:
    """A client of two processes that restart after they are killed. It is not the default client."""
    config = {
        "distributed.scheduler.allowed-failures": 10,
        "distributed.comm.retry.count": 0,
        "distributed.deploy.lost-worker-timeout": "120s",
        # A worker tries for as long to fetch from one that is lost, before it computes what that had.
        "distributed.comm.timeouts.connect": "5s",
        **config,
    }
    with (
        dask.config.set(config),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
