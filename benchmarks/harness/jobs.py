"""Runs jobs in separate processes, in turns, and measures time and peak memory.

A job is a context manager: it sets up, yields the work to time and a check of its result, and tears down::

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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from .machine import Watch
from .records import Point, Row

T = TypeVar("T")
Job = Callable[..., AbstractContextManager[tuple[Callable[[], Any], Callable[[Any], Any]]]]

#: A round is quiet if other processes take at most this share of the processor time.
QUIET = 0.1
#: Most rounds measured to find quiet ones, as a multiple of `repeat`.
MOST_TIMES = 2


@dataclass(frozen=True)
class Sample:
    """One measurement: seconds, peak memory of the process in bytes, and the result of the check."""

    seconds: float
    peak: int
    found: Any

    @property
    def own_seconds(self) -> float:
        """Seconds that the job measured itself, if its check returned them."""
        return self.found if isinstance(self.found, float) else self.seconds


@dataclass(frozen=True)
class Effort:
    """How much is measured. `quick`: small sizes, once, in this process, to test the benchmark."""

    quick: bool = False
    repeat: int = 3

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def peak_memory() -> int:
    """Peak memory of this process in bytes, or the current memory if the system does not report the peak."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import psutil

    return int(psutil.Process().memory_info().rss)


def run_here(job: Job, *args: Any) -> Sample:
    with job(*args) as (work, check):
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        peak = peak_memory()
        return Sample(seconds, peak, check(result))


def run_apart(job: Job, *args: Any) -> Sample:
    """Run a job in a new process, so that earlier jobs affect neither its memory nor its time."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(run_here, job, *args).result()


def in_turns(
    effort: Effort, jobs: Mapping[str, tuple[Any, ...]], environment: Mapping[str, str] | None = None
) -> dict[str, list[Sample]]:
    """Run each job with its arguments once in every round, so that a slow machine slows all of them."""
    run = run_here if effort.quick else run_apart
    samples: dict[str, list[Sample]] = {name: [] for name in jobs}
    with patch.dict(os.environ, environment or {}):
        for _ in range(effort.repeat):
            for name, (job, *args) in jobs.items():
                samples[name].append(run(job, *args))
    return samples


def seconds_of(samples: list[Sample]) -> float:
    return statistics.median(sample.seconds for sample in samples)


def compare(
    ours: list[Sample], theirs: list[Sample], baseline: str, least: float | None = None, unit: str = "ms", **row: Any
) -> Row:
    """A row for two jobs that take turns. The goal is reached if the ratio is at least `least`."""
    scale = {"s": 1, "ms": 1000}[unit]
    return Row(
        ours=scale * seconds_of(ours),
        unit=unit,
        baselines={baseline: scale * seconds_of(theirs)},
        reached=None if least is None else seconds_of(theirs) / seconds_of(ours) >= least,
        samples={"ours": [scale * s.seconds for s in ours], baseline: [scale * s.seconds for s in theirs]},
        **row,
    )


@contextmanager
def warmed(job: Job, *args: Any) -> Iterator[Any]:
    """A job after a warm-up run that imports modules, starts threads and allocates memory."""
    with job(*args) as (work, check):
        work()
        yield work, check


def seconds_here(job: Job, *args: Any) -> float:
    return run_here(warmed, job, *args).own_seconds


def quiet_rounds(effort: Effort, measure: Callable[[], T], most_times: int = MOST_TIMES) -> tuple[list[T], float]:
    """The quietest `repeat` rounds, and the greatest share of processor time of other processes in any of them.

    Rounds are chosen by the load of other programs, not by their results. At most `most_times` as many are measured.
    """
    rounds: list[tuple[float, T]] = []
    while sum(others <= QUIET for others, _ in rounds) < effort.repeat:
        if len(rounds) == effort.repeat * (1 if effort.quick else most_times):
            break
        watch = Watch()
        found = measure()
        rounds.append((watch.others(), found))
    kept = sorted(rounds, key=lambda one: one[0])[: effort.repeat]
    return [found for _, found in kept], max(others for others, _ in kept)


def measured_points(effort: Effort, figure: str, x: float, jobs: Mapping[str, tuple[Any, ...]]) -> list[Point]:
    """Measure warmed jobs in turns, in quiet rounds. Return a point for each series of a figure."""
    measure = partial(in_turns, Effort(effort.quick, 1), {name: (warmed, *job) for name, job in jobs.items()})
    rounds, others = quiet_rounds(effort, measure)
    return [Point(figure, name, x, [found[name][0].own_seconds for found in rounds], "s", others) for name in jobs]
