"""Jobs measured in turns as points of a figure, and what is recorded of the machine beside them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import psutil

from .core.measure import Effort, Job, Sample, in_turns, run_here
from .core.report import machine, version_of
from .points import Point

T = TypeVar("T")

#: Share of the processor time that others may take of a round that counts as quiet.
QUIET = 0.1
#: How many times as many rounds as were asked for are measured at most, to find quiet ones.
MOST_TIMES = 2


@functools.cache
def devices() -> tuple[str, ...]:
    """Names of the GPUs; none where CuPy is not installed or finds no driver."""
    try:
        import cupy

        runtime = cupy.cuda.runtime
        return tuple(runtime.getDeviceProperties(i)["name"].decode() for i in range(runtime.getDeviceCount()))
    except Exception:  # whatever CuPy says of a missing driver or library
        return ()


def describe_machine(*packages: str) -> dict[str, Any]:
    """What is measured on: `core.report.machine`, the GPUs, and versions of more packages."""
    found = machine()
    found["versions"] |= {name: version_of(name) for name in packages}
    if devices():
        found["device"] = ", ".join(devices())
    return found


@contextmanager
def warmed(job: Job, *args: Any) -> Iterator[Any]:
    """A job that has run once: modules are imported, threads started, memory taken from the system."""
    with job(*args) as (work, check):
        work()
        yield work, check


def measured_points(effort: Effort, figure: str, x: float, jobs: Mapping[str, tuple[Any, ...]]) -> list[Point]:
    """Measure jobs in turns, each warmed, at one place of a figure, in quiet rounds.

    Parameters
    ----------
    effort : Effort
    figure : str
    x : float
    jobs : mapping of str to tuple
        Of each series, a job and its arguments. A job that times itself gives seconds when it is checked.

    Returns
    -------
    list of Point
    """
    once = Effort(effort.quick, 1)
    rounds, others = quiet_rounds(effort, partial(in_turns, once, {name: (warmed, *job) for name, job in jobs.items()}))
    return [Point(figure, name, x, [_seconds(found[name][0]) for found in rounds], "s", others) for name in jobs]


def seconds_here(job: Job, *args: Any) -> float:
    """Seconds of a job in this process, warmed; its own, if it times itself."""
    return _seconds(run_here(warmed, job, *args))


def quiet_rounds(effort: Effort, measure: Callable[[], T], most_times: int = MOST_TIMES) -> tuple[list[T], float]:
    """Measure some rounds while others leave the machine alone, as far as they do.

    Parameters
    ----------
    effort : Effort
        Its `repeat` says how many rounds.
    measure : callable
        One round.
    most_times : int
        How many times as many rounds as were asked for are measured at most.

    Returns
    -------
    list
        The rounds during which others took least of the machine's time, of at most `most_times` as many as were asked
        for. They are chosen by that alone, not by what they gave.
    float
        Greatest share of the processor time spent in one of them that others took.
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


def _seconds(sample: Sample) -> float:
    return sample.found if isinstance(sample.found, float) else sample.seconds


class Watch:
    """How busy others keep the machine, from now on."""

    def __init__(self) -> None:
        self._before = _busy_seconds(), _own_seconds()

    def others(self) -> float:
        """Share of the processor time spent since then that other processes took."""
        busy, own = _busy_seconds() - self._before[0], _own_seconds() - self._before[1]
        return max(0.0, 1 - own / busy) if busy > 0 else 0.0


def _busy_seconds() -> float:
    """Processor time that has been used on this machine, by anyone."""
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))


def _own_seconds() -> float:
    """Processor time of this process and of its processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
