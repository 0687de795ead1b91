"""Runs cases in separate processes, in turns, and measures time and the growth of memory.

A case is a function that makes its input and returns the functions to time, by name, and the check of a result::

    def case(n):
        x = make(n)                                                   not timed
        return {"ours": lambda: ours(x), "NumPy": lambda: np.f(x)}, lambda found, name: check(found)

A job is a context manager of one of these functions and its check.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .records import Row, timed_row

Case = Callable[..., tuple[Mapping[str, Callable[[], Any]], Callable[[Any, str], Any]]]
Job = Callable[..., AbstractContextManager[tuple[Callable[[], Any], Callable[[Any], Any]]]]

#: Whether workers are processes. Tests use threads, which start faster.
PROCESSES = True


@dataclass(frozen=True)
class Effort:
    """How much is measured. `quick`: small sizes, once, in this process, to test the benchmark."""

    quick: bool = False
    repeat: int = 3

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @property
    def once(self) -> Effort:
        return Effort(self.quick, 1)


def peak_memory() -> int:
    """Peak memory of this process in bytes, or the current memory if the system does not report the peak."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import psutil

    return int(psutil.Process().memory_info().rss)


def forget_peak() -> int:
    """Let the peak of this process's memory begin anew; its memory now, in bytes."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")
    return peak_memory()


@contextmanager
def on_threads(case: Case, name: str, *args: Any, threads: int = 2) -> Iterator[Any]:
    """A job of a case on the threads of this process, after a warm-up; its check gives the growth of memory in MiB."""
    import dask

    with dask.config.set(scheduler="threads" if threads > 1 else "synchronous", num_workers=threads):
        works, check = case(*args)
        before = forget_peak()
        works[name]()

        def checked(found: Any) -> float:
            grown = (peak_memory() - before) / 2**20
            check(found, name)
            return grown

        yield works[name], checked


@contextmanager
def two_workers(processes: bool = True, memory: str | int = "auto") -> Iterator[Any]:
    """A cluster of two workers with one thread each, of processes with a limit of their memory."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"processes": processes and PROCESSES, "dashboard_address": ":0"}
    # Workers in this process would count the memory of all of it.
    options["memory_limit"] = memory if options["processes"] else 0
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


@contextmanager
def on_workers(case: Case, name: str, *args: Any, memory: str = "auto", warm: bool = True) -> Iterator[Any]:
    """A job of a case on two workers, given the client; its check gives the peak of a worker in MiB."""
    with two_workers(memory=memory) as client:
        works, check = case(client, *args)
        if warm:
            works[name]()

        def checked(found: Any) -> float:
            peak = max(client.run(peak_memory).values()) / 2**20
            check(found, name)
            return peak

        yield works[name], checked


@dataclass(frozen=True)
class Sample:
    """One measurement: seconds, and what the check found."""

    seconds: float
    found: Any


def run_here(job: Job, *args: Any) -> Sample:
    with job(*args) as (work, check):
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        return Sample(seconds, check(result))


def run_apart(job: Job, *args: Any) -> Sample:
    """Run a job in a new process, so that earlier jobs affect neither its memory nor its time."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(run_here, job, *args).result()


def in_turns(effort: Effort, jobs: Mapping[str, tuple[Any, ...]]) -> dict[str, list[Sample]]:
    """Run each job with its arguments once in every round, so that a slow machine slows all of them."""
    run = run_here if effort.quick else run_apart
    samples: dict[str, list[Sample]] = {name: [] for name in jobs}
    for _ in range(effort.repeat):
        for name, (job, *args) in jobs.items():
            samples[name].append(run(job, *args))
    return samples


def compared(effort: Effort, name: str, work: str, jobs: Mapping[str, tuple[Any, ...]], unit: str = "ms") -> Row:
    """A row for jobs in turns: ours, first, and the baselines; with the growths of memory that they found."""
    found = in_turns(effort, jobs)
    seconds = {who: [one.seconds for one in samples] for who, samples in found.items()}
    memory = {who: statistics.median(one.found for one in samples) for who, samples in found.items()}
    return timed_row(name, work, seconds, unit, details={"memory, MiB": memory})


def jobs_of(case: Case, names: Sequence[str], *args: Any, on: Job = on_threads) -> dict[str, tuple[Any, ...]]:
    """The jobs of some functions of a case."""
    return {name: (on, case, name, *args) for name in names}
