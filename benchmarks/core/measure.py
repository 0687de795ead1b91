"""Runs jobs, each in a process of its own, in turns, and keeps time and peak memory.

A job is a context manager: it sets up, yields what is to be timed and how its result is checked, and tears down::

    @contextmanager
    def job(n):
        x = make(n)                              not timed
        yield lambda: sort(x), check_sorted      timed; checked afterwards
        close()                                  not timed
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

Job = Callable[..., AbstractContextManager[tuple[Callable[[], Any], Callable[[Any], Any]]]]


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes
    ----------
    seconds : float
    peak : int
        Most memory that the process has held, in bytes, all of Python and its libraries included.
    found : object
        What the check of the result gave.
    """

    seconds: float
    peak: int
    found: Any


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes
    ----------
    quick : bool
        Small sizes, and all jobs in this process: to see that everything works, not to measure.
    repeat : int
        Measurements of each job.
    """

    quick: bool = False
    repeat: int = 3

    def size(self, full: int, quick: int) -> int:
        """One size or the other."""
        return quick if self.quick else full


def peak_memory() -> int:
    """Most memory that this process has held, in bytes; where the system does not say, what it holds now."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return int(psutil.Process().memory_info().rss)


def run_here(job: Job, *args: Any) -> Sample:
    """Run a job in this process."""
    with job(*args) as (work, check):
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        peak = peak_memory()
        return Sample(seconds, peak, check(result))


def run_apart(job: Job, *args: Any) -> Sample:
    """Run a job in a fresh process, so that neither its memory nor its time depends on what ran before."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(run_here, job, *args).result()


def in_turns(
    effort: Effort, jobs: Mapping[str, tuple[Any, ...]], environment: Mapping[str, str] | None = None
) -> dict[str, list[Sample]]:
    """Run several jobs, each of them once a round, so that what slows the machine slows all of them.

    Parameters
    ----------
    effort : Effort
    jobs : mapping of str to tuple
        Each a job and its arguments.
    environment : mapping of str to str, optional
        Environment variables for the fresh processes.

    Returns
    -------
    dict of str to list of Sample
    """
    run = run_here if effort.quick else run_apart
    samples: dict[str, list[Sample]] = {name: [] for name in jobs}
    with patch.dict(os.environ, environment or {}):
        for _ in range(effort.repeat):
            for name, (job, *args) in jobs.items():
                samples[name].append(run(job, *args))
    return samples


def seconds_of(samples: list[Sample]) -> float:
    """Median time."""
    return statistics.median(sample.seconds for sample in samples)


def peak_of(samples: list[Sample]) -> int:
    """Greatest peak."""
    return max(sample.peak for sample in samples)


def times_faster(ours: list[Sample], theirs: list[Sample]) -> float:
    """Median, over the rounds, of how many times less time one job took than another."""
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(other.seconds / our.seconds for our, other in pairs)
