"""A soak: sorts and what depends on them, of random shapes, one after another on a cluster, and the memory they leave.

    python -m benchmarks.cpu.soak [--seconds 7200] [--quick] [--output DIRECTORY]

Writes results/soak.json. The cluster has two workers with one thread each; the client, the scheduler and the workers
are four processes. Every result is compared with NumPy's, in the client. Between two computations, at equal distances
of time, the resident memory and the number of Python objects of each process are recorded.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
from distributed import Client, wait

import dask_gpusort

from ..harness.command import arguments, measure
from ..harness.jobs import two_workers
from ..harness.records import Point, Record, Row, slug

WORKER_MEMORY = "1 GiB"
SECONDS, QUICK_SECONDS = 7200.0, 8.0
#: Times at which memory is recorded.
RECORDED, QUICK_RECORDED = 200, 4
#: Elements of the largest array, given or found. Numbers of elements are uniform in their logarithm.
MOST_ELEMENTS = 1 << 20
MOST_CHUNKS = 12  # along an axis
MOST_DIMENSIONS = 3
#: Seconds for one computation. One that takes longer hangs.
TIMEOUT = 120.0
DTYPES = ("i4", "u8", "i8", "f4", "f8", "M8[ns]")
EXCHANGES = ("auto", "runs", "tasks", "gather", "gang")
#: Memory and objects are figures of points.
MEMORY, OBJECTS = "soak memory", "soak objects"

#: What is computed: lazy results, and what NumPy gives.
Pair = tuple[Any, Any]


def draw(dtype: str, few: bool, seed: int, block_info: Any = None) -> Any:
    """Task: a chunk of random keys, a hundred different ones if they are `few`."""
    block = block_info[None]
    rng = np.random.default_rng([seed, *block["chunk-location"]])
    return rng.integers(0, 100 if few else 1 << 30, block["chunk-shape"]).astype(dtype)


def some_chunks(rng: Any, size: int) -> tuple[int, ...]:
    """Chunk sizes of an axis; some may be zero."""
    cuts = np.sort(rng.integers(0, size + 1, rng.integers(0, min(MOST_CHUNKS, size))))
    return tuple(map(int, np.diff([0, *cuts, size])))


def some_array(rng: Any, dimensions: int, dtypes: tuple[str, ...] = DTYPES, most: int = MOST_ELEMENTS) -> Any:
    """A Dask array of random shape, whose chunks are made by tasks or held by the workers."""
    elements = most ** rng.random()
    shape = [max(1, int(elements ** (1 / dimensions) * rng.uniform(0.5, 1))) for _ in range(dimensions)]
    chunks = tuple(some_chunks(rng, size) for size in shape)
    dtype, few, seed = str(rng.choice(dtypes)), bool(rng.integers(2)), int(rng.integers(1 << 30))
    meta = np.empty((0,) * dimensions, dtype)
    x = da.map_blocks(draw, dtype, few, seed, chunks=chunks, dtype=meta.dtype, meta=meta)
    if rng.integers(2):
        x = x.persist()
        wait(x, timeout=TIMEOUT)
    return x


def sort(rng: Any) -> Pair:
    dimensions = int(rng.integers(1, MOST_DIMENSIONS + 1))
    x, axis = some_array(rng, dimensions), int(rng.integers(dimensions))
    return dask_gpusort.sort(x, axis), np.sort(np.asarray(x), axis)


def argsort(rng: Any) -> Pair:
    x = some_array(rng, 1)
    return dask_gpusort.argsort(x), np.argsort(np.asarray(x), kind="stable")


def quantile(rng: Any) -> Pair:
    dimensions = int(rng.integers(1, MOST_DIMENSIONS + 1))
    x, q = some_array(rng, dimensions, ("i4", "i8", "f4", "f8")), rng.random(3)
    axis = None if dimensions == 1 else int(rng.integers(dimensions))
    return dask_gpusort.quantile(x, q, axis=axis), np.quantile(np.asarray(x), q, axis=axis)


def unique(rng: Any) -> Pair:
    x = some_array(rng, 1)
    extra = {"return_inverse": True, "return_counts": True}
    return dask_gpusort.unique(x, **extra), np.unique(np.asarray(x), **extra)


def take(rng: Any) -> Pair:
    x = some_array(rng, int(rng.integers(1, 3)))
    # The result is no larger than other arrays.
    positions = some_array(rng, 1, ("i8",), MOST_ELEMENTS // (x.size // x.shape[0])) % x.shape[0]
    return dask_gpusort.take(x, positions, axis=0), np.take(np.asarray(x), np.asarray(positions), axis=0)


FUNCTIONS: tuple[Callable[[Any], Pair], ...] = (sort, argsort, quantile, unique, take)


def compute_one(client: Client, seed: int) -> str:
    """Compute something random and compare it with NumPy's; gives the name of the function."""
    rng = np.random.default_rng(seed)
    function, exchange = FUNCTIONS[rng.integers(len(FUNCTIONS))], str(rng.choice(EXCHANGES))
    try:
        with dask.config.set({"gpusort.exchange": exchange}):
            lazy, wanted = function(rng)
        several = isinstance(wanted, tuple)
        futures = client.compute(list(lazy) if several else [lazy])
        wait(futures, timeout=TIMEOUT)
        found = client.gather(futures)
        for one, other in zip(found, wanted if several else (wanted,), strict=True):
            np.testing.assert_array_equal(one, other)
    except Exception as error:
        # A run may fail after hours. The seed alone repeats the computation, the stacks tell where a worker hangs.
        error.add_note(f"{function.__name__} with exchange {exchange!r}: repeat it with --seed {seed}")
        error.add_note(f"Stacks of the workers' tasks: {client.call_stack()}")
        raise
    return function.__name__


def serve(connection: Connection) -> None:
    """Process: a scheduler and two workers, until the connection is closed."""
    with two_workers(memory=WORKER_MEMORY) as client:
        connection.send(client.scheduler.address)
        connection.poll(None)


@contextmanager
def served_cluster() -> Iterator[Client]:
    """A client of a cluster whose scheduler is another process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,))
    process.start()
    there.close()
    try:
        with Client(here.recv()) as client:
            yield client
    finally:
        here.close()
        process.join(TIMEOUT)


def count_objects() -> int:
    """Python objects of this process that are not garbage."""
    gc.collect()
    return len(gc.get_objects())


def record_processes(client: Client, minutes: float) -> Iterator[Point]:
    """The resident memory in MiB of every process, and its number of Python objects."""
    found = {"client": (os.getpid(), count_objects())}
    found["scheduler"] = client.run_on_scheduler(os.getpid), client.run_on_scheduler(count_objects)
    pids, counts = client.run(os.getpid), client.run(count_objects)
    for number, address in enumerate(sorted(pids), 1):
        found[f"worker {number}"] = pids[address], counts[address]
    for name, (pid, objects) in found.items():
        yield Point(MEMORY, name, minutes, [psutil.Process(pid).memory_info().rss / 2**20], "MiB")
        yield Point(OBJECTS, name, minutes, [float(objects)], "objects")


def growth(record: Record, figure: str) -> Iterator[Row]:
    """The last quarter of the time against the second one."""
    for name, points in record.lines(figure).items():
        half, quarter = len(points) // 2, len(points) // 4
        second, last = (median(p.median for p in part) for part in (points[quarter:half], points[-quarter:]))
        work = f"{figure}, {name}: last quarter"
        yield Row(slug(figure, name), work, last, points[0].unit, {"second quarter": second})


def soak(seconds: float, seed: int, recorded: int) -> Iterator[Any]:
    """Points of memory, and rows of what was computed and of what grew."""
    done: Counter[str] = Counter()
    record = Record({})
    with served_cluster() as client:
        start, elapsed, due = time.monotonic(), 0.0, 0.0
        while elapsed < seconds:
            done[compute_one(client, seed + done.total())] += 1
            elapsed = time.monotonic() - start
            if elapsed >= due:
                record.points += (found := list(record_processes(client, elapsed / 60)))
                yield from found
                due = elapsed + seconds / recorded
    for name, count in sorted(done.items()):
        yield Row(slug("results", name), f"{name}: results, all right", float(count), "")
    for figure in (MEMORY, OBJECTS):
        yield from growth(record, figure)


if __name__ == "__main__":
    more = {
        "--seconds": {"type": float, "default": SECONDS, "help": "time that it takes (default: %(default)s)"},
        "--seed": {"type": int, "default": 0, "help": "of the first computation (default: %(default)s)"},
    }
    options = arguments("cpu.soak", __doc__, more=more)
    effort = options.effort
    seconds, recorded = (QUICK_SECONDS, QUICK_RECORDED) if effort.quick else (options.seconds, RECORDED)
    measure(options, "soak", {"all": soak}, seconds, options.seed, recorded, seconds=seconds, seed=options.seed)
