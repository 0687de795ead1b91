"""Sections "cluster" (many small chunks, where the exchange decides) and "graph" (its construction)."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import List, Task, TaskRef
from distributed import Client, LocalCluster

import dask_gpusort

from ..asv.data import dask_keys, make_chunk
from ..harness.jobs import Effort, compare, in_turns, seconds_of
from ..harness.records import Row
from ..harness.verify import check_sorted, parts_of, summarize

CHUNK_KEYS = 50_000
#: Numbers of chunks for which a task for each pair is measured; each doubling costs about four times as much.
PAIRED_CHUNKS = (64, 128, 256)
GRAPH_CHUNKS = (64, 1_024, 10_000)
#: The goal for a graph of 1,024 chunks.
MOST_SECONDS, MOST_TASKS = 1.5, 20_000


#: Whether workers are processes; tests save the time of starting them.
PROCESSES = True


@contextmanager
def two_workers(processes: bool = True) -> Iterator[Client]:
    """A cluster of two workers of one thread each."""
    logging.getLogger("distributed.shuffle").setLevel(logging.ERROR)  # it reports each exchange as a warning
    options: dict[str, Any] = {"processes": processes and PROCESSES, "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


@contextmanager
def sort_on_cluster(chunks: int, n: int, held: bool = False) -> Iterator[Any]:
    """Ours on two workers; the output is consumed where it is. `held`: the input is computed before."""
    with two_workers() as client:
        x = dask_keys("uniform", n, chunks)
        if held:
            x = client.persist(x)
        yield (
            lambda: client.compute(parts_of(dask_gpusort.sort(x))).result(),
            partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
        )


@contextmanager
def sort_on_threads(chunks: int, n: int) -> Iterator[Any]:
    """Ours on the threads of this process."""
    x = dask_keys("uniform", n, chunks)
    yield (
        lambda: parts_of(dask_gpusort.sort(x)).compute(scheduler="threads"),
        partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
    )


@contextmanager
def sort_by_pairs(chunks: int, n: int) -> Iterator[Any]:
    """One task for each pair of chunks, on two workers. It knows the cuts of uniform keys beforehand."""
    with two_workers() as client:
        graph = pairwise_graph(chunks, n)
        yield (
            lambda: client.get(graph, [("part", chunk) for chunk in range(chunks)]),
            partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
        )


def pairwise_graph(chunks: int, n: int) -> dict[Any, Task]:
    """Graph of a sort in which each chunk sends a piece to each other chunk."""
    size, everyone = n // chunks, range(chunks)
    splits = [Task(("split", i), split_chunk, i, size, n, chunks) for i in everyone]
    pieces = [Task(("piece", i, j), getitem, TaskRef(("split", i)), j) for i in everyone for j in everyone]
    parts = [Task(("part", j), join_pieces, List(*(TaskRef(("piece", i, j)) for i in everyone))) for j in everyone]
    return {task.key: task for task in (*splits, *pieces, *parts)}


def split_chunk(number: int, size: int, n: int, chunks: int) -> list[np.ndarray]:
    """Task: make and sort a chunk, and cut it for each output chunk."""
    keys = np.sort(make_chunk(number, size, n, "uniform", "i8"))
    bounds = np.linspace(0, np.iinfo(np.int64).max, chunks + 1)[1:-1].astype(np.int64)
    return np.split(keys, np.searchsorted(keys, bounds))


def join_pieces(pieces: list[np.ndarray]) -> Any:
    """Task: join and sort the pieces of one output chunk, and summarize it."""
    return summarize(np.sort(np.concatenate(pieces)))


def rows(effort: Effort) -> Iterator[Row]:
    chunks, keys = effort.size(1024, 16), effort.size(CHUNK_KEYS, 500)
    jobs = {
        "two workers": (sort_on_cluster, chunks, chunks * keys),
        "threads": (sort_on_threads, chunks, chunks * keys),
    }
    found = in_turns(effort, jobs)
    for (name, samples), most in zip(found.items(), (16, 3), strict=True):
        seconds = seconds_of(samples)
        yield Row(
            section="cluster",
            work=f"{chunks:,} chunks of {keys:,} int64, {name}",
            wanted=f"at most {most} s",
            ours=seconds,
            unit="s",
            reached=seconds <= most,
            samples={name: [sample.seconds for sample in samples]},
        )
    once = Effort(effort.quick, 1)
    for count in (4, 8) if effort.quick else PAIRED_CHUNKS:
        pair = in_turns(
            once, {"ours": (sort_on_cluster, count, count * keys), "pairs": (sort_by_pairs, count, count * keys)}
        )
        work, baseline = f"{count:,} chunks of {keys:,} int64, two workers", f"a task for each of {count**2:,} pairs"
        yield compare(*pair.values(), baseline, unit="s", section="cluster", work=work)


def build(chunks: int, exchange: str) -> tuple[float, int]:
    """Seconds to call `sort` and make every task, and the number of tasks without those of the input."""
    x = da.zeros(chunks * 1_000_000, chunks=1_000_000, dtype="i8")
    start = time.perf_counter()
    tasks = dict(dask_gpusort.sort(x, exchange=exchange).__dask_graph__())
    return time.perf_counter() - start, len(tasks) - chunks


def graph_rows(effort: Effort) -> Iterator[Row]:
    with two_workers(processes=False):  # they run nothing, but "p2p" is only planned for a cluster
        for exchange in ("gather", "tasks", "p2p"):
            for chunks in (4, 32) if effort.quick else GRAPH_CHUNKS:
                built = [build(chunks, exchange) for _ in range(effort.repeat)]
                seconds, tasks = statistics.median(seconds for seconds, _ in built), built[0][1]
                goal = chunks == 1_024
                yield Row(
                    section="graph",
                    work=f"graph of {chunks:,} chunks, `{exchange}`: {tasks:,} tasks",
                    wanted=f"at most {MOST_SECONDS} s, {MOST_TASKS:,} tasks" if goal else "",
                    ours=seconds,
                    unit="s",
                    reached=seconds <= MOST_SECONDS and tasks <= MOST_TASKS if goal else None,
                    samples={"seconds": [seconds for seconds, _ in built], "tasks": [float(tasks)]},
                )
