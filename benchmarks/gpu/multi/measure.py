"""Measures a work: seconds, memory and phases."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import defaultdict
from typing import Any

import distributed

from ...harness.records import Row, slug, timed_row
from .data import Data, Work

#: Seconds for the workers to drop a result before the next run.
RELEASE = 0.1
#: Runs of a work before those that are timed.
WARM_UPS = 2
STAGES = ("sort-local", "sort-count", "sort-scan", "sort-scatter", "sort-freed", "sort-merge")
PHASES = ("sort-gang", *STAGES, "sort", "argsort")
PHASES_SHOWN = "phases: tasks / compute / transfer, ms"


def begin_counting() -> None:
    """On a worker: start to count RMM allocations."""
    with contextlib.suppress(ImportError):
        from rmm import statistics as memory

        memory.enable_statistics()
        memory.push_statistics()


def counted_peak() -> int:
    """On a worker: peak bytes allocated since counting began, without earlier allocations; 0 without RMM."""
    with contextlib.suppress(ImportError):
        from rmm import statistics as memory

        counted = memory.pop_statistics()
        return 0 if counted is None else int(counted.peak_bytes)
    return 0


def run_once(data: Data) -> tuple[tuple[Any, ...], float]:
    """Run one sort. Return the result, which the workers hold, and the seconds."""
    start = time.perf_counter()
    found = tuple(data.client.persist(list(data.sort())))
    distributed.wait(found, timeout=data.work.patience)
    seconds = time.perf_counter() - start
    for future in distributed.futures_of(found):
        if future.status == "error":
            future.result()
    return found, seconds


def phase_of(key: Any) -> str | None:
    prefix = key[0] if isinstance(key, tuple) else str(key)
    return next((phase for phase in PHASES if prefix.startswith(phase)), None)


def phases_of(stream: list[dict[str, Any]], seconds: float) -> dict[str, list[float]]:
    """For each phase of a task stream: its tasks, and the milliseconds of its busiest worker; the rest is waiting."""
    found: dict[str, list[float]] = {}
    for name in PHASES:
        if tasks := [task for task in stream if phase_of(task["key"]) == name]:
            found[name] = [len(tasks), *(1e3 * busiest(tasks, action) for action in ("compute", "transfer"))]
    left = 1e3 * seconds - sum(sum(phase[1:]) for phase in found.values())
    return {**found, "scheduler": [0, max(0.0, left), 0.0]}


def busiest(tasks: list[dict[str, Any]], action: str) -> float:
    """Seconds that the busiest worker of some tasks spends on an action."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for task in tasks:
        spans[task["worker"]] += [(a["start"], a["stop"]) for a in task["startstops"] if a["action"] == action]
    return max(map(covered, spans.values()), default=0.0)


def covered(spans: list[tuple[float, float]]) -> float:
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def run_many(data: Data, repeats: int, pause: float) -> list[float]:
    """Seconds of some sorts, each after a pause and the release of the result before."""
    seconds = []
    for _ in range(repeats):
        time.sleep(pause)
        found, took = run_once(data)
        seconds.append(took)
        del found
    return seconds


def measure(client: Any, name: str, work: Work, log2: float, library: str, commit: str) -> Row:
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    data = Data(client, work, log2, library)
    details: dict[str, Any] = {"GPUs": workers}
    seconds: list[float] = []
    if work.repeats > 1:
        run_many(data, WARM_UPS, 0)
        # The baseline runs without pauses too. After a pause processors and workers wake up more slowly.
        seconds = run_many(data, work.repeats, 0)
        details["after a pause, ms"] = 1e3 * statistics.median(run_many(data, work.repeats, RELEASE))
        with distributed.get_task_stream(client=client) as stream:
            found, took = run_once(data)
        details[PHASES_SHOWN] = phases_of(stream.data, took)
        del found
        time.sleep(RELEASE)
    # Workers that count their allocations are slower, so a run of its own tells the peak, except of a large work.
    client.run(begin_counting)
    found, took = run_once(data)
    peak = max(client.run(counted_peak).values())
    verified = data.check(found)
    del found
    time.sleep(RELEASE)
    details |= {"peak, shares of the data": peak * workers / (data.row_bytes * data.total), "commit": commit}
    samples = {"ours": seconds or [took]}
    return timed_row(slug(name, workers), name, samples, keys=data.total, verified=verified, details=details)
