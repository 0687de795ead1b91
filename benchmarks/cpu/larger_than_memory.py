"""Sorts an array from Zarr to Zarr that is larger than the workers' memory, beside a copy, NumPy's sort and DuckDB.

    python -m benchmarks.cpu.larger_than_memory [--keys-log2 30] [--chunks 256] [--workers 4] [--threads 4]
        [--memory 1GiB 4GiB 16GiB] [--kinds int64 skewed sorted companion S20] [--directory DIRECTORY] [--quick]
        [--output DIRECTORY] [--commit COMMIT]

Writes results/larger_than_memory_cpu.json. `--memory` is that of each worker. All rows of a run read arrays of the same
machine and disk; the files of a run are in a new directory, which is removed. A row has the seconds of the call that
stores the result, the bytes that the workers' processes read and wrote, the peak memory of each, the bytes that Dask
spilled, how often a worker was paused, and for each stage its first start, its last end and its thread seconds. Results
are read back with zarr and numpy alone: each chunk is in order, also with the one before it, and all rows together have
the sums and the hashes of the input.

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

P2P = "P2P rechunk"
BASELINES = (P2P, "DuckDB", "copy", "numpy.sort of each chunk")
#: Bytes of a row of each kind. All kinds have as many bytes, in chunks of as many.
KINDS = {"int64": 8, "skewed": 8, "sorted": 8, "companion": 16, "S20": 20}
#: An odd number, by which equal keys are told from others that have the same sum.
MIX = np.uint64(0x9E3779B97F4A7C15)


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


def sums(array: np.ndarray) -> tuple[int, int]:
    """The sum and the sum of hashes of all words, modulo 2^64; neither depends on the order of elements."""
    words = np.ascontiguousarray(array).view(np.uint64 if array.itemsize % 8 == 0 else np.uint32).astype(np.uint64)
    mixed = words * MIX
    mixed ^= mixed >> np.uint64(29)
    return int(words.sum(dtype=np.uint64)), int((mixed * MIX).sum(dtype=np.uint64))


def summed(path: Path, in_order: bool) -> tuple[int, int]:
    """The sums over an array in Zarr; raises AssertionError if it should be in order and is not."""
    array = zarr.open_array(path, mode="r")
    size = array.chunks[0]

    def read(start: int) -> tuple[int, int]:
        part = np.asarray(array[max(start - 1, 0) : start + size])
        if in_order:
            assert (part[1:] >= part[:-1]).all(), f"{path} is not in order behind {start}"
        return sums(part[start > 0 :])

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(read, range(0, array.shape[0], size)))
    return sum(one for one, _ in found) % 2**64, sum(one for _, one in found) % 2**64


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
    spilled = metrics.get(("disk-write", "bytes"), 0)
    read, written = (getattr(io, f"{what}_chars", getattr(io, f"{what}_bytes")) for what in ("read", "write"))
    return {"read": read, "written": written, "peak": peak_memory(), "spilled by Dask": int(spilled)}


def on_cluster(
    options: Any, memory: int, made: Callable[..., Any], sources: list[Path], targets: list[Path]
) -> tuple[float, dict[str, Any]]:
    """Seconds in which new workers store what a function makes of arrays in Zarr, and what it took."""
    folder = str(options.directory / "workers")
    kinds = {"n_workers": options.workers, "threads_per_worker": options.threads, "memory_limit": memory}
    with (
        dask.config.set(temporary_directory=folder),
        LocalCluster(**kinds, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for path in targets:
            shutil.rmtree(path, ignore_errors=True)
        before = client.run(usage)
        stages = Stages()
        cluster.scheduler.add_plugin(stages)
        start = time.perf_counter()
        stored(made, sources, targets)
        seconds = time.perf_counter() - start
        after = client.run(usage)
        details: dict[str, Any] = {}
        for what in ("read", "written", "spilled by Dask"):
            details[f"{what}, GiB"] = sum(after[one][what] - before[one][what] for one in before) / 2**30
        details |= {"peak of a worker, MiB": max(one["peak"] for one in after.values()) / 2**20}
        details["paused"] = stages.paused
        details["stages"] = {name: [round(one, 3) for one in found] for name, found in stages.stages.items()}
    return seconds, details


def stored(made: Callable[..., Any], sources: list[Path], targets: list[Path], compute: bool = True) -> Any:
    """Store what a function makes of arrays in Zarr, or return a task that does."""
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

    array, folder = zarr.open_array(source, mode="r"), options.directory / "parquet"
    folder.mkdir()
    with duckdb.connect() as connection:
        for start in range(0, array.shape[0], array.chunks[0]):
            keys = {"k": np.asarray(array[start : start + array.chunks[0]])}
            connection.register("keys", keys)
            connection.execute(
                f"COPY (SELECT k FROM keys) TO '{folder}/{start:015}.parquet' (COMPRESSION uncompressed)"
            )
            connection.unregister("keys")
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit='{memory // 2**20}MiB'; SET threads={options.workers * options.threads}")
        connection.execute(f"SET temp_directory='{options.directory / 'duckdb'}'; SET preserve_insertion_order=true")
        start = time.perf_counter()
        query = f"SELECT k FROM '{folder}/*.parquet' ORDER BY k"
        connection.execute(f"COPY ({query}) TO '{options.directory}/sorted.parquet' (COMPRESSION uncompressed)")
        seconds = time.perf_counter() - start
        wrong = f"SELECT count(*) FROM (SELECT k, lag(k) OVER () AS before FROM '{options.directory}/sorted.parquet')"
        assert connection.execute(f"{wrong} WHERE k < before").fetchone() == (0,)
    shutil.rmtree(folder)
    (options.directory / "sorted.parquet").unlink()
    return seconds


def write_source(options: Any, kind: str, path: Path) -> tuple[int, int]:
    """Write keys to Zarr; gives their sums."""
    size = 8 * options.keys // options.chunks // KINDS[kind]
    kind = "int64" if kind == "companion" else kind
    dtype = make_chunk(kind, 0, 1, 1).dtype
    array = zarr.create_array(path, shape=(size * options.chunks,), chunks=(size,), dtype=dtype, compressors=None)

    def write(number: int) -> tuple[int, int]:
        keys = make_chunk(kind, number, size, options.chunks)
        array[number * size : (number + 1) * size] = keys
        return sums(keys)

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(write, range(options.chunks)))
    return sum(one for one, _ in found) % 2**64, sum(one for _, one in found) % 2**64


def rows(options: Any) -> Iterator[Row]:
    """The baselines with the least memory, then our sort with each amount, then other keys with the least memory."""
    least = min(options.memory)
    baselines: dict[str, float] = {}
    for kind in options.kinds:
        source = options.directory / f"{kind}.zarr"
        wanted = write_source(options, kind, source)
        sources, targets = [source], [options.directory / "result.zarr"]
        if kind == "companion":
            sources.append(options.directory / "values.zarr")
            targets.append(options.directory / "moved.zarr")
            write_source(options, kind, sources[1])
        if kind == "int64":
            for name, function in (("copy", lambda block: block), ("numpy.sort of each chunk", np.sort)):
                work = partial(_mapped, function)
                seconds, details = on_cluster(options, least, work, sources, targets)
                baselines[name] = seconds
                yield _row(options, name, least, seconds, details)
            if find_spec("duckdb"):
                baselines["DuckDB"] = by_duckdb(options, source, least * options.workers)
                work = f"DuckDB, {format_bytes(least * options.workers)}"
                yield Row("DuckDB", work, baselines["DuckDB"], "s", keys=options.keys)
        for memory in options.memory if kind == "int64" else [least]:
            if kind == "int64" and memory > least:
                baselines[P2P], details = on_cluster(options, memory, to_columns, sources, targets)
                yield _row(options, P2P, memory, baselines[P2P], details)
            sort = dask_gpusort.sort_by_key if kind == "companion" else dask_gpusort.sort
            seconds, details = on_cluster(options, memory, sort, sources, targets)
            found = summed(targets[0], in_order=True)
            if kind == "companion":
                assert summed(targets[1], in_order=True) == wanted  # the values are the keys
            row = _row(options, f"sort {kind}", memory, seconds, details)
            row.keys = 8 * options.keys // options.chunks // KINDS[kind] * options.chunks
            row.baselines = {name: baselines[name] for name in BASELINES if name in baselines and kind == "int64"}
            row.verified = found == wanted
            yield row
        for path in (*sources, *targets):
            shutil.rmtree(path)


def to_columns(array: Any) -> Any:
    """The bytes of an array, whose chunks are rows, in as many chunks of columns."""
    rows = array.reshape(array.numblocks[0], -1)
    return rows.rechunk((len(rows), rows.shape[1] // len(rows)), method="p2p")


def _mapped(function: Callable[..., Any], array: Any) -> Any:
    return array.map_blocks(function, dtype=array.dtype)


def _row(options: Any, work: str, memory: int, seconds: float, details: dict[str, Any]) -> Row:
    amount = format_bytes(memory).replace(".00", "")
    name = slug(work) if memory == min(options.memory) else slug(work, amount)
    text = f"{work}, {options.workers} workers of {amount}, {options.threads} thread{'s' * (options.threads > 1)} each"
    return Row(name, text, seconds, "s", keys=options.keys, details=details)


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
