"""Sorts arrays larger than the workers' memory, from Zarr to Zarr, again and again, while workers are killed.

    python -m benchmarks.cpu.killed_workers [--seconds 480] [--kill-seconds 20] [--directory DIRECTORY] [--quick]

Prints how many sorts of each kind were right, how many of the two workers were killed or lost otherwise, and how many
tasks ran again. A worker has a thread and 512 MiB, an array 1 GiB in 64 chunks. Each result is read back and verified
as by `larger_than_memory`; a wrong one, another error and a file of a run that is left end the command. A random worker
is killed by a signal from time to time, while both are there. Dask does not give up tasks of lost workers.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dask
from distributed import SchedulerPlugin, wait
from tlz import concat

from dask_gpusort.graph.runs.plugins import NAME

from ..harness.command import arguments
from .larger_than_memory import CALLS, cluster_of, faults, in_new_directory, remove, sources_of, stored, write_source

KINDS, MEMORY = ("sort int64", "sort companion", "sort S20"), 1 << 29
#: Seconds for a sort, and for the end of its files. One that takes longer hangs.
TIMEOUT, FILES_TIMEOUT = 400.0, 30.0
#: Dask gives up a worker of a LocalCluster that is not there again after 15 s, and a task after three lost workers.
PATIENT = {"distributed.deploy.lost-worker-timeout": "1h", "distributed.scheduler.allowed-failures": 1_000}


class Losses(SchedulerPlugin):
    """Counts lost workers, and how often each task of a sort ran."""

    name = "losses"

    def __init__(self) -> None:
        self.workers = 0
        self.ran: Counter[Any] = Counter()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        self.ran[key] += (start, finish) == ("processing", "memory")

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        self.workers += 1


def kill_workers(cluster: Any, seconds: float, done: Event, killed: list[str]) -> None:
    """Thread: kill a random worker from time to time, while all are there."""
    while not done.wait(seconds):
        while len(cluster.scheduler.running) < len(cluster.workers) and not done.wait(0.1):
            pass
        if not done.is_set():
            nanny = random.choice(list(cluster.workers.values()))
            killed.append(nanny.worker_address)
            os.kill(nanny.pid, signal.SIGKILL)


def files_of_runs(folder: Path) -> list[Path]:
    """Files of runs, after a moment."""
    deadline = time.monotonic() + FILES_TIMEOUT
    while (found := [path for kept in folder.rglob(NAME) for path in kept.glob("*")]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def run(options: Any) -> Counter[str]:
    """What was done in the time."""
    count, done, killed = Counter[str](), Event(), list[str]()
    sources = {kind: sources_of(options, CALLS[kind]) for kind in KINDS}
    sums = {path: write_source(options, path) for path in dict.fromkeys(concat(sources.values()))}
    with dask.config.set(PATIENT), cluster_of(options, MEMORY) as (cluster, client):
        cluster.scheduler.add_plugin(losses := Losses())
        killer = Thread(target=kill_workers, args=(cluster, options.kill_seconds, done, killed))
        killer.start()
        end = time.monotonic() + options.seconds
        try:
            while time.monotonic() < end:
                kind = KINDS[count["sorts"] % len(KINDS)]
                targets = [options.directory / str(number) for number, _ in enumerate(sources[kind])]
                losses.ran.clear()
                remove(targets)
                futures = client.compute(stored(CALLS[kind].function, sources[kind], targets, compute=False))
                wait(futures, timeout=TIMEOUT)
                client.gather(futures)
                del futures
                assert not (wrong := faults(targets, sums[sources[kind][0]])), f"{kind}: {wrong}"
                assert not (left := files_of_runs(options.directory)), left
                ran = +losses.ran
                count.update({"sorts": 1, f"{kind}, right": 1, "tasks": len(ran)})
                count["tasks that ran again"] += ran.total() - len(ran)
        finally:
            done.set()
            killer.join()
        count.update({"killed workers": len(killed), "workers lost otherwise": losses.workers - len(killed)})
    assert not list(options.directory.rglob(NAME)), "the cluster leaves files"
    return count


def main() -> None:
    more = {"--seconds": {"type": float, "default": 480.0}, "--kill-seconds": {"type": float, "default": 20.0}}
    options = arguments("cpu.killed_workers", __doc__, more={**more, "--directory": {"type": Path}})
    options.keys, options.chunks, options.workers, options.threads = 1 << 27, 64, 2, 1
    if options.effort.quick:
        options.seconds, options.kill_seconds, options.keys, options.chunks = 15.0, 2.0, 1 << 19, 16
    with in_new_directory(options):
        for name, number in run(options).items():
            print(f"{name}: {number:,}")


if __name__ == "__main__":
    main()
