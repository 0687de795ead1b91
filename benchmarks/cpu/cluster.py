"""Jobs (`harness.jobs`) that sort uniform int64 on two workers, and construction of the graph."""

from __future__ import annotations

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
from ..harness.verify import check_sorted, parts_of, summarize

#: Whether workers are processes. Tests use threads, which start faster.
PROCESSES = True


@contextmanager
def two_workers(processes: bool = True, memory: str | int = "auto") -> Iterator[Client]:
    """A cluster of two workers with one thread each, of processes with a limit of their memory."""
    options: dict[str, Any] = {"processes": processes and PROCESSES, "dashboard_address": ":0"}
    # Workers in this process would count the memory of all of it.
    options["memory_limit"] = memory if options["processes"] else 0
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


@contextmanager
def sort_on_cluster(n: int, chunks: int, held: bool = False) -> Iterator[Any]:
    """Our sort on two workers, which consume the output. `held`: the input is computed before."""
    with two_workers() as client:
        x = dask_keys("uniform", n, chunks)
        x = client.persist(x) if held else x
        check = partial(check_sorted, distribution="uniform", n=n, chunks=chunks)
        yield lambda: client.compute(parts_of(dask_gpusort.sort(x))).result(), check


@contextmanager
def sort_by_pairs(n: int, chunks: int) -> Iterator[Any]:
    """A sort with one task for each pair of chunks, on two workers. The cuts of uniform keys are given."""
    with two_workers() as client:
        graph = pairwise_graph(chunks, n)
        check = partial(check_sorted, distribution="uniform", n=n, chunks=chunks)
        yield lambda: client.get(graph, [("part", chunk) for chunk in range(chunks)]), check


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
    """Task: join and sort the pieces of one output chunk, and summarize the chunk."""
    return summarize(np.sort(np.concatenate(pieces)))


def build(chunks: int, exchange: str) -> tuple[float, int]:
    """Seconds to call `sort` and make every task, and the number of tasks except those of the input."""
    x = da.zeros(chunks * 1_000_000, chunks=1_000_000, dtype="i8")
    start = time.perf_counter()
    tasks = dict(dask_gpusort.sort(x, exchange=exchange).__dask_graph__())
    return time.perf_counter() - start, len(tasks) - chunks
