"""Sorts arrays larger than the workers' memory, from Zarr to Zarr, again and again, while workers are killed.

    python -m benchmarks.cpu.killed_workers [--seconds 480] [--kill-seconds 20] [--bytes 1GiB] [--chunks 64]
        [--workers 2] [--memory 512MiB] [--kinds int64 companion S20] [--directory DIRECTORY] [--quick]

Prints how many sorts of each kind were right, how many workers were killed or lost otherwise, and how many tasks ran
again. Each result is read back and verified as by `larger_than_memory`, and no file of a run may be left. Dask
gives up a task that was on more than `distributed.scheduler.allowed-failures` lost workers: this is counted, and any
other error ends the command. Workers have a thread each. A random one is killed by a signal, while all are there.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dask
from dask.utils import format_bytes, parse_bytes
from distributed import Client, KilledWorker, LocalCluster, SchedulerPlugin, wait

import dask_gpusort
from dask_gpusort.graph.runs.plugins import NAME

from ..harness.command import arguments
from .larger_than_memory import in_new_directory, make_chunk, stored, summed, write_source

KINDS = ("int64", "companion", "S20")
#: Seconds for a sort, and for the end of its files. One that takes longer hangs.
TIMEOUT, FILES_TIMEOUT = 400.0, 30.0


class Losses(SchedulerPlugin):
    """Counts lost workers, on how many of them each task was, and tasks that ran again."""

    name = "losses"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler, self.workers = scheduler, 0
        self.on: dict[Any, str] = {}
        self.lost: Counter[Any] = Counter()
        self.ran: Counter[Any] = Counter()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        if finish == "processing":
            self.on[key] = self.scheduler.tasks[key].processing_on.address
        elif (start, finish) == ("processing", "memory"):
            self.on.pop(key, None)
            self.ran[key] += 1

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        self.workers += 1
        self.lost.update(key for key, address in self.on.items() if address == worker)

    def again(self) -> int:
        """How often tasks ran again."""
        return self.ran.total() - len(self.ran)

    def begin(self) -> None:
        """Forget the tasks of the sort before."""
        for counter in (self.on, self.lost, self.ran):
            counter.clear()


def kill_workers(cluster: Any, workers: int, seconds: float, done: Event, killed: list[str]) -> None:
    """Thread: kill a random worker from time to time, while all are there."""
    rng = random.Random(0)
    while not done.wait(seconds):
        while len(cluster.scheduler.running) < workers and not done.is_set():
            time.sleep(0.1)
        if not done.is_set():
            nanny = rng.choice(list(cluster.workers.values()))
            killed.append(nanny.worker_address)
            os.kill(nanny.pid, signal.SIGKILL)


def files_of_runs(folder: Path) -> list[Path]:
    """Files of runs, after a moment."""
    deadline = time.monotonic() + FILES_TIMEOUT
    while found := [path for kept in folder.rglob(NAME) for path in kept.glob("*")]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return found


def sort_once(options: Any, client: Any, losses: Losses, kind: str, wanted: tuple[int, int]) -> str:
    """Sort and verify; gives what became of it."""
    paths = [options.directory / name for name in (f"{kind}.zarr", "result.zarr", "moved.zarr")]
    sources, targets = ([paths[0]] * 2, paths[1:]) if kind == "companion" else (paths[:1], paths[1:2])
    for path in targets:
        shutil.rmtree(path, ignore_errors=True)
    losses.begin()
    sort = dask_gpusort.sort_by_key if kind == "companion" else dask_gpusort.sort
    futures = client.compute(stored(sort, sources, targets, compute=False))
    try:
        wait(futures, timeout=TIMEOUT)
        client.gather(futures)
    except KilledWorker as error:
        if max(losses.lost.values(), default=0) <= error.allowed_failures:
            raise
        return "given up by Dask"
    except TimeoutError as error:
        error.add_note(f"Lost workers of tasks: {losses.lost.most_common(3)}; {losses.again()} tasks ran again")
        error.add_note(f"Stacks of the workers' tasks: {client.call_stack()}")
        raise
    for path in targets:
        assert summed(path, in_order=True) == wanted, f"{path} has other elements"  # the values are the keys
    return "right"


def run(options: Any) -> Counter[str]:
    """What was done in the time."""
    count: Counter[str] = Counter()
    wanted: dict[str, tuple[int, int]] = {}
    for kind in options.kinds:
        made, options = "int64" if kind == "companion" else kind, copy.copy(options)
        options.keys = options.bytes // make_chunk(made, 0, 1, 1).itemsize
        wanted[kind] = write_source(options, made, options.directory / f"{kind}.zarr")
    folder, done, killed = options.directory / "workers", Event(), []
    kinds = {"n_workers": options.workers, "threads_per_worker": 1, "memory_limit": options.memory}
    with (
        # Dask gives up a worker of a LocalCluster that is not there again after the time, 15 s unless it is set.
        dask.config.set({"temporary-directory": str(folder), "distributed.deploy.lost-worker-timeout": "1h"}),
        LocalCluster(**kinds, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        losses = Losses(cluster.scheduler)
        cluster.scheduler.add_plugin(losses)
        killer = Thread(target=partial(kill_workers, cluster, options.workers, options.kill_seconds, done, killed))
        killer.start()
        try:
            start = time.monotonic()
            while (elapsed := time.monotonic() - start) < options.seconds:
                kind, before = options.kinds[count["sorts"] % len(options.kinds)], len(killed)
                end = sort_once(options, client, losses, kind, wanted[kind])
                left = files_of_runs(folder)
                again = losses.again()
                seconds = time.monotonic() - start - elapsed
                print(
                    f"{kind}: {end} in {seconds:.1f} s, {len(killed) - before} kills, {again} tasks again", flush=True
                )
                assert not left, left
                count.update({"sorts": 1, f"{kind}, {end}": 1, "tasks": len(losses.ran), "tasks that ran again": again})
        finally:
            done.set()
            killer.join()
        count.update({"killed workers": len(killed), "workers lost otherwise": losses.workers - len(killed)})
    assert not list(folder.rglob(NAME)), "the cluster leaves files"
    return count


OPTIONS: dict[str, dict[str, Any]] = {
    "--seconds": {"type": float, "default": 480.0},
    "--kill-seconds": {"type": float, "default": 20.0},
    "--bytes": {"type": parse_bytes, "default": 1 << 30, "help": "of the keys"},
    "--chunks": {"type": int, "default": 64},
    "--workers": {"type": int, "default": 2},
    "--memory": {"type": parse_bytes, "default": 1 << 29, "help": "of each worker"},
    "--kinds": {"nargs": "+", "choices": KINDS, "default": list(KINDS)},
    "--directory": {"type": Path},
}


def main() -> None:
    options = arguments("cpu.killed_workers", __doc__, more=OPTIONS)
    if options.effort.quick:
        options.seconds, options.kill_seconds, options.bytes, options.chunks = 15.0, 2.0, 1 << 22, 16
    with in_new_directory(options):
        count = run(options)
    print(f"{format_bytes(options.bytes)} of keys, {options.workers} workers of {format_bytes(options.memory)}")
    for name, number in count.items():
        print(f"{name}: {number:,}")


if __name__ == "__main__":
    main()
