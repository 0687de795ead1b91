"""Runs functions from Zarr to Zarr on arrays larger than the workers' memory, beside copies, DuckDB and Polars.

    python -m benchmarks.cpu.larger_than_memory [--keys-log2 30] [--chunks 256] [--workers 4] [--threads 4]
        [--memory 1GiB 4GiB 16GiB] [--calls "sort int64" rank ...] [--directory DIRECTORY] [--repeat 3] [--quick]
        [--output DIRECTORY] [--commit COMMIT]

Writes results/larger_than_memory_cpu.json. `--memory` is that of each worker. All calls read as many bytes, in turns;
the files of a run are in a new directory, which is removed. A row has the seconds of the call that stores the result,
and of the last turn the bytes that the workers read and wrote ("to files": without memory and messages), their
processor time, the peak of each, the bytes that Dask spilled, how often a worker was paused, and for each stage its
first start, its last end and its thread seconds. Results of the last turn are read back with zarr and numpy alone:
sorted chunks are in order and have the sums of the input, others are what NumPy says.

The copy of a row is that of as many bytes in and out, from one that stores its input and one that only reads. These and
``numpy.sort`` of each chunk have the least memory, Dask's P2P rechunk each other one. DuckDB and Polars, if installed,
run what SQL has once, from Parquet to Parquet, with as much memory (`POLARS_OOC_MEMORY_BUDGET_MB`) and as many threads
as all workers of the least memory.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import psutil
import zarr
from dask.utils import format_bytes, key_split, parse_bytes
from distributed import Client, LocalCluster, SchedulerPlugin
from pyarrow import parquet

import dask_gpusort

from ..harness.command import arguments, measure
from ..harness.jobs import peak_memory
from ..harness.records import Row, slug
from ..harness.verify import Part, checksums, fault_of, summarize

P2P = "P2P rechunk"
#: Bytes of a key of each kind. Chunks of all calls have as many bytes.
KINDS = {"int64": 8, "skewed": 8, "sorted": 8, "repeated": 8, "permuted": 8, "S20": 20, "U10": 40}
#: Number, sum and sum of squares of the words of an array.
Sums = tuple[int, int, int]


def make_chunk(kind: str, number: int, size: int, chunks: int) -> np.ndarray:
    """Keys of one chunk, the same for the same number."""
    rng = np.random.default_rng([7, number])
    if kind == "skewed":
        return rng.lognormal(10, 4, size).astype(np.int64)
    if kind in ("S20", "U10"):
        letters = rng.integers(ord("0"), ord("9") + 1, int(kind[1:]) * size, np.uint8 if kind == "S20" else np.uint32)
        return letters.view(kind)
    if kind == "permuted":  # by a prime number
        return np.arange(number * size, (number + 1) * size) * 2654435761 % (size * chunks)
    keys = rng.integers(-(1 << 62), 1 << 62, size)
    if kind == "sorted":
        step = (1 << 62) // chunks
        return np.sort(number * step + keys % step)
    return keys % (size * chunks // 16) if kind == "repeated" else keys


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


def usage(dask_worker: Any = None) -> dict[str, float]:
    """What a worker's process has read, written, held at most, and spilled."""
    io = psutil.Process().io_counters()
    metrics = getattr(dask_worker.data, "cumulative_metrics", {})  # of Dask's spilling, where there is a limit
    spilled = int(metrics.get(("disk-write", "bytes"), 0))
    found = {"read": io.read_chars, "written": io.write_chars, "to files": io.write_bytes, "spilled by Dask": spilled}
    return {**found, "processor": sum(psutil.Process().cpu_times()[:2]), "peak": peak_memory()}


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


def on_cluster(options: Any, work: str, memory: int, call: Call) -> Row:
    """A row for what new workers store of what a function makes of arrays in Zarr."""
    sources, target = sources_of(options, call), options.directory / "out"
    with cluster_of(options, memory) as (cluster, client):
        remove([target])
        before = client.run(usage)
        cluster.scheduler.add_plugin(stages := Stages())
        start = time.perf_counter()
        stored(call.function, sources, [target / str(number) for number in range(9)])
        seconds = time.perf_counter() - start
        after = client.run(usage)
    details: dict[str, Any] = {}
    for what in ("read", "written", "to files", "spilled by Dask"):
        details[f"{what}, x input"] = sum(after[one][what] - before[one][what] for one in before) / (8 * options.keys)
    details["result, x input"] = (
        sum(one.stat().st_size for one in target.rglob("*") if one.is_file()) / 8 / options.keys
    )
    details["peak of a worker, % of its limit"] = round(100 * max(one["peak"] for one in after.values()) / memory)
    details["processor, s"] = sum(after[one]["processor"] - before[one]["processor"] for one in before)
    details["paused"] = stages.paused
    details["stages"] = {name: [round(one, 3) for one in found] for name, found in stages.stages.items()}
    amount = format_bytes(memory).replace(".00", "")
    name = slug(work) if memory == min(options.memory) else slug(work, amount)
    text = f"{work}, {options.workers} workers of {amount}, {options.threads} thread{'s' * (options.threads > 1)} each"
    return Row(name, text, seconds, "s", keys=int(sources[0].name.split(".")[0]), details=details)


def remove(paths: list[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def stored(made: Callable[..., Any], sources: list[Path], targets: list[Path], compute: bool = True) -> Any:
    """Store what a function makes of arrays in Zarr in new ones, or return a task that does.

    Chunks of unknown sizes become files of NumPy.
    """
    found = made(*map(da.from_zarr, sources))
    pairs = list(zip(targets, found if isinstance(found, tuple) else (found,), strict=False))
    known = [pair for pair in pairs if not np.isnan(pair[1].size)]
    files = [
        zarr.create_array(path, shape=one.shape, chunks=one.chunksize, dtype=one.dtype, compressors=None)
        for path, one in known
    ]
    tasks = [da.store([one for _, one in known], files, lock=False, compute=False)]
    for path, one in (pair for pair in pairs if np.isnan(pair[1].size)):
        path.mkdir(parents=True)
        tasks.append(da.map_blocks(save, one, path, dtype=bool, chunks=(np.nan,), meta=np.empty(0, bool)))
    return dask.compute(*tasks) if compute else tasks[0]


def save(block: np.ndarray, folder: Path, block_info: Any = None) -> np.ndarray:
    """Task: store a chunk."""
    np.save(folder / f"{block_info[0]['chunk-location'][0]:06}.npy", block)
    return np.empty(0, bool)


def load(path: Path) -> np.ndarray:
    """What is stored, in memory."""
    files = sorted(path.glob("*.npy"))
    return np.concatenate(list(map(np.load, files))) if files else np.asarray(zarr.open_array(path, mode="r")[...])


def by_sql(options: Any, call: Call, memory: int) -> Iterator[tuple[str, float]]:
    """Seconds of DuckDB and of Polars for a call, from Parquet to Parquet."""
    os.environ["POLARS_OOC_MEMORY_BUDGET_MB"] = str(memory // 2**20)  # before the import
    os.environ["POLARS_MAX_THREADS"] = str(threads := options.workers * options.threads)
    folder, plain = options.directory / "parquet", "(COMPRESSION uncompressed)"
    (folder / "rows").mkdir(parents=True)
    arrays = [zarr.open_array(path, mode="r") for path in sources_of(options, call)]
    import duckdb

    with duckdb.connect() as connection:
        for start in range(0, arrays[0].shape[0], size := arrays[0].chunks[0]):
            connection.register(
                "part", {f"c{at}": np.asarray(one[start : start + size]) for at, one in enumerate(arrays)}
            )
            connection.execute(f"COPY (SELECT * FROM part) TO '{folder}/rows/{start:015}.parquet' {plain}")
            connection.unregister("part")
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit='{memory // 2**20}MiB'; SET threads={threads}")
        connection.execute(f"SET temp_directory='{options.directory / 'duckdb'}'; SET preserve_insertion_order=true")
        connection.execute(f"CREATE VIEW rows AS SELECT * FROM '{folder}/rows/*.parquet'")
        start = time.perf_counter()
        connection.execute(f"COPY ({call.sql}) TO '{folder}/DuckDB.parquet' {plain}")
        yield "DuckDB", time.perf_counter() - start
    if find_spec("polars"):
        import polars

        start = time.perf_counter()
        lazy = polars.scan_parquet(folder / "rows" / "*.parquet").sql(call.sql, table_name="rows")
        lazy.sink_parquet(folder / "Polars.parquet", compression="uncompressed", engine="streaming")
        yield "Polars", time.perf_counter() - start
    for path in folder.glob("*.parquet"):
        first = parquet.read_table(path).column(0).to_numpy()
        assert (first[1:] >= first[:-1]).all(), path
    remove([folder])


def sources_of(options: Any, call: Call) -> list[Path]:
    """The arrays of a call, whose names begin with their number of rows."""
    rows = 8 * options.keys // options.chunks // sum(KINDS[kind] for kind in call.kinds) * options.chunks
    return [options.directory / f"{rows}.{number}.{kind}" for number, kind in enumerate(call.kinds)]


def write_source(options: Any, path: Path) -> Sums:
    """Write keys to Zarr; gives their checksums."""
    rows, kind = int(path.name.split(".")[0]), path.name.split(".")[2]
    size, dtype = rows // options.chunks, make_chunk(kind, 0, 16, 1).dtype
    array = zarr.create_array(path, shape=(rows,), chunks=(size,), dtype=dtype, compressors=None)

    def write(number: int) -> Part:
        keys = make_chunk(kind, number, size, options.chunks)
        array[number * size : (number + 1) * size] = keys
        return summarize(keys)

    with ThreadPoolExecutor() as pool:
        return checksums(pool.map(write, range(options.chunks)))


def right(options: Any, call: Call, wanted: Sums) -> bool:
    """Whether what is stored is the result of a call: without NumPy's function that is the sorted input."""
    targets = sorted((options.directory / "out").iterdir())
    if call.numpy is None:
        return not faults(targets, wanted)
    expected = call.numpy(*map(load, sources_of(options, call)))
    pairs = zip(expected if isinstance(expected, tuple) else (expected,), map(load, targets), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


def rows(options: Any) -> Iterator[Row]:
    """The copies, then the calls with the least memory, and our sort with each amount."""
    least = min(options.memory)
    works = {(name, least): call for name, call in (COPIES | {one: CALLS[one] for one in options.calls}).items()}
    for memory in sorted(options.memory)[1:]:
        works |= {(P2P, memory): Call(to_columns), (SORT, memory): CALLS[SORT]}
    sources = dict.fromkeys(path for call in works.values() for path in sources_of(options, call))
    sums = {path: write_source(options, path) for path in sources}
    taken: dict[tuple[str, int], list[float]] = {work: [] for work in works}
    found: dict[tuple[str, int], Row] = {}
    for turn in range(options.effort.repeat):
        for work, call in works.items():
            found[work] = row = on_cluster(options, *work, call)
            taken[work].append(row.ours)
            if turn + 1 == options.effort.repeat and work[0] in CALLS:
                row.verified = right(options, call, sums[sources_of(options, call)[0]])
    copy, read, *_ = (statistics.median(taken[name, least]) for name in COPIES)
    for (name, memory), row in found.items():
        row.samples, row.ours = {"ours": taken[name, memory]}, statistics.median(taken[name, memory])
        if name in CALLS:
            row.baselines["copy"] = read + (copy - read) * row.details["result, x input"]
            for other in (SORT, P2P, *list(COPIES)[2:]):
                if name != other and (name == SORT or other == SORT) and (other, memory) in found:
                    row.baselines[other] = statistics.median(taken[other, memory])
        if name in CALLS and CALLS[name].sql and memory == least and find_spec("duckdb"):
            row.baselines |= dict(by_sql(options, CALLS[name], least * options.workers))
        yield row


def to_columns(array: Any) -> Any:
    """The bytes of an array, whose chunks are rows, in as many chunks of columns."""
    rows = array.reshape(array.numblocks[0], -1)
    return rows.rechunk((len(rows), rows.shape[1] // len(rows)), method="p2p")


class Call(NamedTuple):
    """A function of arrays in Zarr of some kinds, and the same in NumPy (see `right`) and in SQL."""

    function: Callable[..., Any]
    kinds: tuple[str, ...] = ("int64",)
    numpy: Callable[..., Any] | None = None
    sql: str = ""


def median_of_months(rows: Any, median: Any) -> Any:
    return median(rows.reshape(-1, 1024), 0, by=np.arange(rows.size // 1024) % 12)


def median_by(rows: Any, axis: int, by: Any) -> Any:
    return np.array([np.median(rows[by == group], axis) for group in range(12)])


both, ours = {"return_inverse": True, "return_counts": True}, dask_gpusort
SORT, SHARES = "sort int64", [0.05, 0.25, 0.5, 0.75, 0.95]
COPIES = {
    "copy": Call(partial(da.map_blocks, lambda block: block)),
    "read": Call(lambda array: array.map_blocks(lambda block: block[:0], chunks=(np.nan,), dtype=array.dtype)),
    "numpy.sort of each chunk": Call(partial(da.map_blocks, np.sort)),
}
BY_KEY = "SELECT * FROM rows ORDER BY c0"
CALLS = {
    SORT: Call(ours.sort, sql=BY_KEY),
    "sort skewed": Call(ours.sort, ("skewed",)),
    "sort sorted": Call(ours.sort, ("sorted",)),
    "sort S20": Call(ours.sort, ("S20",)),
    "sort U10": Call(ours.sort, ("U10",)),
    "sort companion": Call(ours.sort_by_key, ("int64",) * 2, sql=BY_KEY),
    "sort four companions": Call(ours.sort_by_key, ("int64",) * 5, sql=BY_KEY),
    "argsort": Call(ours.argsort, numpy=partial(np.argsort, kind="stable")),
    "lexsort": Call(lambda *keys: ours.lexsort(keys), ("int64", "repeated"), lambda *keys: np.lexsort(keys)),
    "rank": Call(ours.rank, numpy=lambda keys: np.argsort(np.argsort(keys)) + 1.0),  # of distinct keys
    "unique with counts": Call(
        partial(ours.unique, return_counts=True),
        ("repeated",),
        partial(np.unique, return_counts=True),
        "SELECT c0, COUNT(*) AS n FROM rows GROUP BY c0 ORDER BY c0",
    ),
    "unique with inverse and counts": Call(partial(ours.unique, **both), ("repeated",), partial(np.unique, **both)),
    "five quantiles": Call(
        partial(ours.quantile, q=SHARES),
        numpy=partial(np.quantile, q=SHARES),
        sql=f"SELECT {', '.join(f'QUANTILE_CONT(c0, {share}) AS q{share * 100:.0f}' for share in SHARES)} FROM rows",
    ),
    "medians of groups": Call(
        partial(median_of_months, median=ours.median), numpy=partial(median_of_months, median=median_by)
    ),
    "take by a permutation": Call(ours.take, ("int64", "permuted"), np.take),
    "intersect1d": Call(ours.intersect1d, ("repeated",) * 2, np.intersect1d),
}


OPTIONS: dict[str, dict[str, Any]] = {
    "--keys-log2": {"type": int, "default": 30},
    "--chunks": {"type": int, "default": 256},
    "--workers": {"type": int, "default": 4},
    "--threads": {"type": int, "default": 4},
    "--memory": {"type": parse_bytes, "nargs": "+", "default": [1 << 30, 4 << 30, 16 << 30]},
    "--calls": {"nargs": "+", "choices": list(CALLS), "default": list(CALLS)},
    "--directory": {"type": Path},
}


def main() -> None:
    options = arguments("cpu.larger_than_memory", __doc__, more=OPTIONS)
    options.keys = 1 << options.effort.size(options.keys_log2, 18)
    if options.effort.quick:
        options.chunks, options.workers, options.threads = 8, 2, 1
    settings = {"keys": options.keys, "chunks": options.chunks, "cores": os.cpu_count()}
    with in_new_directory(options):
        measure(options, "larger_than_memory_cpu", {"all": rows}, options, packages=["duckdb", "polars"], **settings)


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
