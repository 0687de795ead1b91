"""Section "graph": building it, before anything runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import dask.array as da
from distributed import Client, LocalCluster

import dask_gpusort

from .measure import Effort
from .report import Row

CHUNKS = (64, 1_024, 10_000)
#: What is asked at 1,024 chunks.
MOST_SECONDS, MOST_TASKS = 1.5, 20_000


def build(chunks: int, exchange: str) -> tuple[float, int]:
    """Seconds to call `sort` and make every task, and the number of tasks beside those of the input."""
    x = da.zeros(chunks * 1_000_000, chunks=1_000_000, dtype="i8")
    start = time.perf_counter()
    tasks = dict(dask_gpusort.sort(x, exchange=exchange).__dask_graph__())
    return time.perf_counter() - start, len(tasks) - chunks


@contextmanager
def a_client() -> Iterator[Client]:
    """A client of two workers that run nothing: the engine is only planned for where there is a cluster."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def rows(effort: Effort) -> Iterator[Row]:
    """Measure the section."""
    with a_client():
        yield from _rows(effort, ("gather", "tasks", "p2p"))


def _rows(effort: Effort, exchanges: tuple[str, ...]) -> Iterator[Row]:
    for exchange in exchanges:
        for chunks in (4, 32) if effort.quick else CHUNKS:
            built = [build(chunks, exchange) for _ in range(effort.repeat)]
            seconds, tasks = statistics.median(seconds for seconds, _ in built), built[0][1]
            asked = chunks == 1_024
            yield Row(
                "graph",
                f"graph of {chunks:,} chunks, `{exchange}`: {tasks:,} tasks",
                f"at most {MOST_SECONDS} s, {MOST_TASKS:,} tasks" if asked else "",
                seconds,
                "s",
                reached=seconds <= MOST_SECONDS and tasks <= MOST_TASKS if asked else None,
                samples={"seconds": [seconds for seconds, _ in built], "tasks": [float(tasks)]},
            )
