"""Sorts an array from Zarr to Zarr that is larger than the workers' memory, beside a copy, NumPy's sort and DuckDB.

    python -m benchmarks.cpu.larger_than_memory [--keys-log2 30] [--chunks 256] [--workers 4] [--threads 4]
        [--memory 1GiB 4GiB 16GiB] [--kinds int64 skewed sorted companion S20] [--directory DIRECTORY] [--quick]
        [--output DIRECTORY] [--commit COMMIT]

Writes results/larger_than_memory_cpu.json. `--memory` is that of each worker. All rows of a run read arrays of the same
machine and disk; the files of a run are in a new directory, which is removed. A row has the seconds of the call that
stores the result, the bytes that the workers' processes read and wrote, the peak memory of each, the bytes that Dask
spilled, how often a worker was paused, and for each stage its first start, its last end and its thread seconds. Results
are read back with zarr and numpy alone: each chunk is in order, also with the one before it, and all rows together have
the sums of the input.

A copy and ``numpy.sort`` of each chunk in place run with the least memory, and Dask's P2P rechunk of as many bytes with
each other one. DuckDB sorts Parquet files into one, with as much memory and as many threads as all the workers of the
least memory have, if it is installed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
import zarr
from dask.utils import format_bytes, key_split, parse_bytes
from distributed import Client, LocalCluster, SchedulerPlugin

import dask_gpusort

from ..harness.command import arguments, measure
from ..harness.jobs import peak_memory
from ..harness.records import Row, slug
from ..harness.verify import Part, checksums, fault_of, summarize

P2P = "P2P rechunk"
#: Bytes of a row of each kind. All kinds have as many bytes, in chunks of as many.
KINDS = {"int64": 8, "skewed": 8, "sorted": 8, "companion": 16, "S20": 20}
#: Number, sum and sum of squares of the words of an array.
Sums = tuple[int, int, int]


def make_chunk(kind: str, number: int, size: int, chunks: int) -> np.ndarray:
    """Keys of one chunk, the same for the same number."""
    rng = np.random.default_rng([7, number])
    if kind == "skewed":
        return rng.lognormal(10, 4, size).astype(np.int64)
    if kind == "S20":
        return rng.integers(ord("0"), ord("9") + 1, 20 * size, np.uint8).view("S20")
    keys = rng.integers(-(1 << 62), 1 << 62, size)
    if kind == "sorted":
        step = (1 << 62) // chunks
        return np.sort(number * step + keys % step)
    return keys


def faults(paths: list[Path], wanted: Sums) -> list[str]:
    """What is wrong with arrays in Zarr that should be in order and have these checksums."""

    def summary(array: Any, number: int) -> Part:
        return summarize(np.asarray(array.blocks[number]))

    with ThreadPoolExecutor() as pool:
        arrays = [zarr.open_array(path, mode="r") for path in paths]
        found = [fault_of(pool.map(partial(summary, array), range(array.nchunks)), wanted) for array in arrays]
    return list(filter(None, found))


class Stages(SchedulerPlugin):
    """Notes when tasks of each name ran, and how often workers were paused."""

    name = "stages"

    def __init__(self) -> None:
        self.began, self.paused = time.time(), 0
        self.stages: dict[str, list[float]] = {}

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        for one in kwargs.get("startstops") or () if finish == "memory" else ():
            if one["action"] == "compute":
                first, last = one["start"] - self.began, one["stop"] - self.began
                known = self.stages.get(key_split(key), [first, last, 0.0])
                self.stages[key_split(key)] = [min(known[0], first), max(known[1], last), known[2] + last - first]

    def log_event(self, topic: Any, msg: Any) -> None:
        if isinstance(msg, dict) and msg.get("action") == "worker-status-change":
            self.paused += msg.get("status") == "paused"


def usage(dask_worker: Any = None) -> dict[str, int]:
    """What a worker's process has read, written, held at most, and spilled."""
    io = psutil.Process().io_counters()
    metrics = getattr(dask_worker.data, "cumulative_metrics", {})  # of Dask's spilling, where there is a limit
    spilled = int(metrics.get(("disk-write", "bytes"), 0))
    return {"read": io.read_chars, "written": io.write_chars, "spilled by Dask": spilled, "peak": peak_memory()}


@contextmanager
def cluster_of(options: Any, memory: int) -> Iterator[Any]:
    """New workers, whose files are in the directory of the run, and a client."""
    kinds = {"n_workers": options.workers, "threads_per_worker": options.threads, "memory_limit": memory}
    with (
        dask.config.set({"temporary-directory": str(options.directory / "workers")}),
        LocalCluster(**kinds, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


def on_cluster(
    options: Any, work: str, memory: int, made: Callable[..., Any], sources: list[Path], targets: list[Path]
) -> Row:
    """A row for what new workers store of what a function makes of arrays in Zarr."""
    with cluster_of(options, memory) as (cluster, client):
        remove(targets)
        before = client.run(usage)
        cluster.scheduler.add_plugin(stages := Stages())
        start = time.perf_counter()
        stored(made, sources, targets)
        seconds = time.perf_counter() - start
        after = client.run(usage)
    details: dict[str, Any] = {}
    for what in ("read", "written", "spilled by Dask"):
        details[f"{what}, GiB"] = sum(after[one][what] - before[one][what] for one in before) / 2**30
    details["peak of a worker, MiB"] = max(one["peak"] for one in after.values()) / 2**20
    details["paused"] = stages.paused
    details["stages"] = {name: [round(one, 3) for one in found] for name, found in stages.stages.items()}
    amount = format_bytes(memory).replace(".00", "")
    name = slug(work) if memory == min(options.memory) else slug(work, amount)
    text = f"{work}, {options.workers} workers of {amount}, {options.threads} thread{'s' * (options.threads > 1)} each"
    return Row(name, text, seconds, "s", keys=options.keys, details=details)


def remove(paths: list[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def stored(made: Callable[..., Any], sources: list[Path], targets: list[Path], compute: bool = True) -> Any:
    """Store what a function makes of arrays in Zarr in new ones, or return a task that does."""
    found = made(*map(da.from_zarr, sources))
    found = found if isinstance(found, tuple) else (found,)
    files = [
        zarr.create_array(path, shape=one.shape, chunks=one.chunksize, dtype=one.dtype, compressors=None)
        for path, one in zip(targets, found, strict=True)
    ]
    return da.store(list(found), files, lock=False, compute=compute)


def by_duckdb(options: Any, source: Path, memory: int) -> float:
    """Seconds of DuckDB's sort of the same keys, from Parquet to Parquet."""
    import duckdb

    folder, plain = options.directory / "parquet", "(COMPRESSION uncompressed)"
    (folder / "keys").mkdir(parents=True)
    array = zarr.open_array(source, mode="r")
    with duckdb.connect() as connection:
        for start in range(0, array.shape[0], array.chunks[0]):
            connection.register("keys", {"k": np.asarray(array[start : start + array.chunks[0]])})
            connection.execute(f"COPY (SELECT k FROM keys) TO '{folder}/keys/{start:015}.parquet' {plain}")
            connection.unregister("keys")
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit='{memory // 2**20}MiB'; SET threads={options.workers * options.threads}")
        connection.execute(f"SET temp_directory='{options.directory / 'duckdb'}'; SET preserve_insertion_order=true")
        start = time.perf_counter()
        connection.execute(
            f"COPY (SELECT k FROM '{folder}/keys/*.parquet' ORDER BY k) TO '{folder}/sorted.parquet' {plain}"
        )
        seconds = time.perf_counter() - start
        pairs = f"SELECT k, lag(k) OVER () AS before FROM '{folder}/sorted.parquet'"
        assert connection.execute(f"SELECT count(*) FROM ({pairs}) WHERE k < before").fetchone() == (0,)
    remove([folder])
    return seconds


def write_source(options: Any, kind: str, path: Path) -> Sums:
    """Write keys to Zarr; gives their checksums."""
    size = 8 * options.keys // options.chunks // KINDS[kind]
    kind = "int64" if kind == "companion" else kind
    dtype = make_chunk(kind, 0, 1, 1).dtype
    array = zarr.create_array(path, shape=(size * options.chunks,), chunks=(size,), dtype=dtype, compressors=None)

    def write(number: int) -> Part:
        keys = make_chunk(kind, number, size, options.chunks)
        array[number * size : (number + 1) * size] = keys
        return summarize(keys)

    with ThreadPoolExecutor() as pool:
        return checksums(pool.map(write, range(options.chunks)))


def prepared(options: Any, kind: str) -> tuple[Callable[..., Any], list[Path], list[Path], Sums]:
    """Our sort of a kind, its sources, which are written, its targets, and the checksums of each: values are keys."""
    names = ("keys", "values") if kind == "companion" else ("keys",)
    sources, targets = ([options.directory / f"{kind}.{name}.{end}" for name in names] for end in ("in", "out"))
    (wanted,) = {write_source(options, kind, path) for path in sources}
    return dask_gpusort.sort_by_key if kind == "companion" else dask_gpusort.sort, sources, targets, wanted


def rows(options: Any) -> Iterator[Row]:
    """The baselines with the least memory, then our sort with each amount, then other keys with the least memory."""
    least = min(options.memory)
    baselines: dict[str, float] = {}
    for kind in options.kinds:
        sort, sources, targets, wanted = prepared(options, kind)
        run = partial(on_cluster, options)
        if kind == "int64":
            for name, function in (("copy", lambda block: block), ("numpy.sort of each chunk", np.sort)):
                yield (row := run(name, least, partial(da.map_blocks, function), sources, targets))
                baselines[name] = row.ours
            if find_spec("duckdb"):
                baselines["DuckDB"] = by_duckdb(options, sources[0], memory := least * options.workers)
                yield Row("DuckDB", f"DuckDB, {format_bytes(memory)}", baselines["DuckDB"], "s", keys=options.keys)
        for memory in options.memory if kind == "int64" else [least]:
            if memory > least:
                yield (row := run(P2P, memory, to_columns, sources, targets))
                baselines[P2P] = row.ours
            row = run(f"sort {kind}", memory, sort, sources, targets)
            row.keys = 8 * options.keys // options.chunks // KINDS[kind] * options.chunks
            row.baselines = dict(baselines) if kind == "int64" else {}
            row.verified = not faults(targets, wanted)
            yield row
        remove([*sources, *targets])


def to_columns(array: Any) -> Any:
    """The bytes of an array, whose chunks are rows, in as many chunks of columns."""
    rows = array.reshape(array.numblocks[0], -1)
    return rows.rechunk((len(rows), rows.shape[1] // len(rows)), method="p2p")


OPTIONS: dict[str, dict[str, Any]] = {
    "--keys-log2": {"type": int, "default": 30},
    "--chunks": {"type": int, "default": 256},
    "--workers": {"type": int, "default": 4},
    "--threads": {"type": int, "default": 4},
    "--memory": {"type": parse_bytes, "nargs": "+", "default": [1 << 30, 4 << 30, 16 << 30]},
    "--kinds": {"nargs": "+", "choices": list(KINDS), "default": list(KINDS)},
    "--directory": {"type": Path},
}


def main() -> None:
    options = arguments("cpu.larger_than_memory", __doc__, more=OPTIONS)
    options.keys = 1 << options.effort.size(options.keys_log2, 18)
    if options.effort.quick:
        options.chunks, options.workers, options.threads = 8, 2, 1
    settings = {"keys": options.keys, "chunks": options.chunks, "cores": os.cpu_count()}
    with in_new_directory(options):
        measure(options, "larger_than_memory_cpu", {"all": rows}, options, packages=["duckdb"], **settings)


@contextmanager
def in_new_directory(options: Any) -> Iterator[None]:
    """Make the directory of a run, in the one that was given, and remove it."""
    if options.directory:
        options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        options.directory = Path(directory)
        yield


if __name__ == "__main__":
    main()
