"""Measures sorts on a CPU, and the steps that they consist of, against the alternatives.

    python -m benchmarks.cpu.core [threads cluster chunk balance] [--repeat 3] [--quick] [--output PATH]

Writes results/core_cpu.json. Every result is verified.

    threads    time and memory of a large sort
    cluster    many small chunks, where the exchange takes most of the time
    chunk      the steps on one chunk and one thread
    balance    sizes of the output chunks
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import getitem
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask._task_spec import List, Task, TaskRef

import dask_gpusort
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.order import Order

from ..asv.data import dask_keys, make_chunk
from ..harness.command import arguments, measure, titled
from ..harness.jobs import Effort, compared, in_turns, jobs_of, on_threads, on_workers
from ..harness.records import Row, slug, timed_row
from ..harness.verify import check_sorted, parts_of, summarize
from .keys import make, numpy_baseline

CHUNKS, QUICK_CHUNKS = 64, 8
NUMPY, DATAFRAME = "`numpy.sort` on one thread", "`dask.dataframe` sort_values"
PAIRS = "a task for each pair of chunks"
CLUSTER_KEYS = 50_000
#: Numbers of chunks for the baseline with a task for each pair. Each doubling takes about four times as long.
PAIRED_CHUNKS = (64, 128, 256)


def sorted_chunks(n: int, chunks: int) -> Any:
    """A check that summaries of chunks, or one array, are the sorted keys."""
    return lambda found, _: check_sorted(
        [summarize(found)] if isinstance(found, np.ndarray) and found.dtype != object else found, "uniform", n, chunks
    )


def of_held_keys(n: int, chunks: int) -> Any:
    """Case: keys in memory; results in chunks are consumed chunk by chunk."""
    x = dask_keys("uniform", n, chunks).persist()
    keys = x.compute()
    works = {
        "ours": lambda: parts_of(dask_gpusort.sort(x)).compute(),
        NUMPY: lambda: np.sort(keys),
        DATAFRAME: lambda: dataframe_parts(x).compute(),
    }
    return works, sorted_chunks(n, chunks)


def of_made_keys(n: int, chunks: int) -> Any:
    """Case: keys made by tasks; the output is consumed chunk by chunk, or is one array."""
    x = dask_keys("uniform", n, chunks)
    works = {
        "by chunks": lambda: parts_of(dask_gpusort.sort(x)).compute(),
        "computed": lambda: dask_gpusort.sort(x).compute(),
    }
    return works, sorted_chunks(n, chunks)


def dataframe_parts(x: da.Array) -> Any:
    """Summaries of the partitions into which Dask DataFrame sorts an array, lazily."""
    frame = dd.from_dask_array(x.reshape(-1, 1), columns=["key"]).sort_values("key")
    return frame.map_partitions(summarize_frame, meta=("part", object))


def summarize_frame(frame: Any) -> Any:
    series = frame["key"].iloc[:1].astype(object)
    return series._constructor([summarize(frame["key"].to_numpy())], name="part", dtype=object)


def threads_rows(effort: Effort) -> Iterator[Row]:
    n, chunks = effort.size(51_200_000, 64_000), effort.size(CHUNKS, QUICK_CHUNKS)
    title = f"{n / 1e6:g}M int64 in {chunks} chunks, threads"
    yield compared(effort, "sort", title, jobs_of(of_held_keys, ("ours", NUMPY, DATAFRAME), n, chunks), "s")
    for how, samples in in_turns(effort, jobs_of(of_made_keys, ("by chunks", "computed"), n, chunks)).items():
        shares = [2**20 * sample.found / (8 * n) for sample in samples]
        yield Row(slug("peak", how), f"peak memory of it, {how}", max(shares), "x")


def on_a_cluster(client: Any, n: int, chunks: int) -> Any:
    """Case: our sort on two workers, which consume the output, and one with a task for each pair of chunks."""
    x, graph = dask_keys("uniform", n, chunks), pairwise_graph(chunks, n)
    works = {
        "ours": lambda: client.compute(parts_of(dask_gpusort.sort(x))).result(),
        PAIRS: lambda: client.get(graph, [("part", chunk) for chunk in range(chunks)]),
    }
    return works, sorted_chunks(n, chunks)


def pairwise_graph(chunks: int, n: int) -> dict[Any, Task]:
    """Graph of a sort in which each chunk sends a piece to each other chunk. The cuts of uniform keys are given."""
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


def cluster_rows(effort: Effort) -> Iterator[Row]:
    chunks, keys = effort.size(1024, 16), effort.size(CLUSTER_KEYS, 500)
    size, title = (chunks * keys, chunks), f"{chunks:,} chunks of {keys:,} int64"
    small = {
        "workers": (on_workers, on_a_cluster, "ours", *size),
        "threads": (on_threads, of_made_keys, "by chunks", *size),
    }
    for where, samples in in_turns(effort, small).items():
        seconds = {"ours": [sample.seconds for sample in samples]}
        yield timed_row(slug("small-chunks", where), f"{title}, {where}", seconds, "s")
    for count in (4, 8) if effort.quick else PAIRED_CHUNKS:
        jobs = jobs_of(on_a_cluster, ("ours", PAIRS), count * keys, count, on=on_workers)
        work = f"{count:,} chunks of {keys:,} int64, two workers"
        yield compared(effort.once, slug("pairs", count), work, jobs, "s")


def of_runs(kind: str, n: int, runs: int) -> Any:
    """Case: the merge of the runs of an exchange group, and a sort of the joined runs."""
    order, (keys,) = Order(np.dtype(kind)), make(kind, n)
    arrays = [numpy_ops.local_sort(block, (), order, positions=False).keys for block in np.split(keys, runs)]
    # A merge may write to its runs, so each call, the warm-up and the timed one, gets copies.
    copies = iter([[numpy_ops.Run(array.copy()) for array in arrays] for _ in range(2)])
    works = {
        "ours": lambda: numpy_ops.merge(next(copies), order).keys,
        "a fresh `numpy.sort`": lambda: np.sort(np.concatenate(arrays)),
    }
    return works, lambda found, _: np.testing.assert_array_equal(found, np.sort(np.concatenate(arrays)))


def chunk_rows(effort: Effort) -> Iterator[Row]:
    on_one, bits = partial(on_threads, threads=1), effort.size(24, 12)
    for kind in ("int32", "int64", "int64 below 2**32"):
        jobs = jobs_of(numpy_baseline, ("ours", "NumPy"), "argsort", kind, 1 << bits, on=on_one)
        jobs['`numpy.argsort(kind="stable")`'] = jobs.pop("NumPy")
        yield compared(effort, slug("argsort", kind), f"stable `argsort` of 2^{bits} {kind}, one chunk", jobs)
    bits = effort.size(22, 10)
    for kind in ("int32", "int64"):
        for runs in (2, 4, 16, 64, 256):
            jobs = jobs_of(of_runs, ("ours", "a fresh `numpy.sort`"), kind, 1 << bits, runs, on=on_one)
            yield compared(effort, slug("merge", kind, runs), f"merge of {runs} runs, 2^{bits} {kind}", jobs)


def balance_rows(effort: Effort) -> Iterator[Row]:
    """Ratio of the largest chunk to the mean. Sizes do not vary between runs, so each is measured once."""
    n, chunks = effort.size(6_400_000, 64_000), effort.size(CHUNKS, QUICK_CHUNKS)
    for distribution in ("uniform", "zipf", "mostly equal", "equal"):
        x, spreads = dask_keys(distribution, n, chunks).persist(scheduler="threads"), []
        for parts in (parts_of(dask_gpusort.sort(x)), dataframe_parts(x)):
            sizes = check_sorted(parts.compute(scheduler="threads"), distribution, n, chunks)
            spreads.append(max(sizes) * len(sizes) / sum(sizes))
        work = f"largest / mean output chunk, {distribution} keys in {chunks} chunks"
        yield Row(slug("balance", distribution), work, spreads[0], "x", {DATAFRAME: spreads[1]})


SECTIONS = titled({"threads": threads_rows, "cluster": cluster_rows, "chunk": chunk_rows, "balance": balance_rows})

if __name__ == "__main__":
    options = arguments("cpu.core", __doc__, list(SECTIONS))
    measure(options, "core_cpu", SECTIONS, options.effort)
