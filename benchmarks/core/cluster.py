"""Section "cluster": many small chunks, where the exchange decides, beside one task for each pair of chunks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
from dask._task_spec import List, Task, TaskRef
from distributed import Client, LocalCluster

import dask_gpusort

from ..suites.data import dask_keys, make_chunk
from .contents import check_sorted, look_at, parts_of
from .measure import Effort, in_turns, seconds_of
from .report import Row

CHUNK_KEYS = 50_000
#: Chunks up to which a task for each pair is measured; each doubling costs about four times as much.
PAIRED_CHUNKS = (64, 128, 256)


@contextmanager
def two_workers() -> Iterator[Client]:
    """A cluster of two processes of one thread."""
    logging.getLogger("distributed.shuffle").setLevel(logging.ERROR)  # it reports each exchange as a warning
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


@contextmanager
def sort_on_cluster(chunks: int, n: int, distribution: str) -> Iterator[Any]:
    """Ours, on two workers; the output is consumed where it is."""
    with two_workers() as client:
        x = dask_keys(distribution, n, chunks)
        yield (
            lambda: client.compute(parts_of(dask_gpusort.sort(x))).result(),
            partial(check_sorted, distribution=distribution, n=n, chunks=chunks),
        )


@contextmanager
def sort_on_threads(chunks: int, n: int, distribution: str) -> Iterator[Any]:
    """Ours, on the threads of this process."""
    x = dask_keys(distribution, n, chunks)
    yield (
        lambda: parts_of(dask_gpusort.sort(x)).compute(scheduler="threads"),
        partial(check_sorted, distribution=distribution, n=n, chunks=chunks),
    )


@contextmanager
def sort_by_pairs(chunks: int, n: int) -> Iterator[Any]:
    """One task for each pair of chunks, on two workers. It knows beforehand where uniform keys are to be cut."""
    with two_workers() as client:
        graph = pairwise_graph(chunks, n)
        yield (
            lambda: client.get(graph, [("part", chunk) for chunk in range(chunks)]),
            partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
        )


def pairwise_graph(chunks: int, n: int) -> dict[Any, Task]:
    """Graph of a sort in which each chunk sends a piece to each other chunk."""
    size = n // chunks
    everyone = range(chunks)
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
    """Task: join and sort the pieces of one output chunk, and summarise it."""
    return look_at(np.sort(np.concatenate(pieces)))


def rows(effort: Effort) -> Iterator[Row]:
    """Measure the section."""
    chunks = effort.size(1024, 16)
    keys = effort.size(CHUNK_KEYS, 500)
    title = f"{chunks:,} chunks of {keys:,} int64"
    jobs = {
        name: (job, chunks, chunks * keys, "uniform")
        for name, job in (("two workers", sort_on_cluster), ("threads", sort_on_threads))
    }
    found = in_turns(effort, jobs)
    for (name, samples), most in zip(found.items(), (16, 3), strict=True):
        seconds = seconds_of(samples)
        all_seconds = {name: [sample.seconds for sample in samples]}
        yield Row(
            "cluster", f"{title}, {name}", f"at most {most} s", seconds, "s", None, "", seconds <= most, all_seconds
        )

    once = Effort(effort.quick, 1)
    for count in (4, 8) if effort.quick else PAIRED_CHUNKS:
        pair = in_turns(
            once,
            {
                "ours": (sort_on_cluster, count, count * keys, "uniform"),
                "pairs": (sort_by_pairs, count, count * keys),
            },
        )
        ours, theirs = (samples[0].seconds for samples in pair.values())
        yield Row(
            "cluster",
            f"{count:,} chunks of {keys:,} int64, two workers",
            "",
            ours,
            "s",
            theirs / ours,
            f"a task for each of {count**2:,} pairs, {theirs:.3g} s",
            None,
            {"ours": [ours], "pairs": [theirs]},
        )
