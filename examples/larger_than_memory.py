"""Sort an array that is larger than the memory of the cluster, and verify the result.

Four steps, each with a progress bar::

    1  write   an unsorted array to disk, as Zarr, chunk by chunk
    2  sort    it into another Zarr array, on a cluster of workers with a memory limit
    3  verify  the result: read both arrays again, with zarr and numpy alone, and compare
    4  report  what was verified, the time, and the peak memory of each worker

The default is 1 GiB of int64 and two workers of 400 MiB each, with ``--large`` 4 GiB and two workers of 1 GiB;
``--help`` lists the options. The example needs about three times the array's size on disk (for the input, the output
and the sorted runs) and removes all files at the end. The exit code is 1 if the verification fails.

Run it with ``python examples/larger_than_memory.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import dask.array as da
    import numpy as np
    import zarr
    from dask.utils import format_bytes, key_split, parse_bytes
    from distributed import Client, LocalCluster, SchedulerPlugin
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, track
except ImportError as error:
    raise SystemExit(f"{error}: pip install '.[examples]'") from None

import dask_gpusort

if sys.platform == "win32":
    import psutil
else:
    import resource

KEY = np.dtype("i8")
console = Console()


# ---------------------------------------------------------------------------------------------------------------------
# Step 1: the input


def make_chunk(number: int, keys: int) -> np.ndarray:
    """Make the keys of one chunk, the same keys for the same number.

    Half of the keys are uniform over all of int64, a quarter are heavily skewed, an eighth repeat a few hundred values,
    and an eighth are sorted already.
    """
    rng = np.random.default_rng([2026, number])
    uniform, skewed, repeated = keys // 2, keys // 4, keys // 8
    in_order = keys - uniform - skewed - repeated
    bounds = np.iinfo(KEY)
    return np.concatenate(
        [
            rng.integers(bounds.min, bounds.max, uniform, endpoint=True, dtype=KEY),
            rng.lognormal(10, 4, skewed).astype(KEY),
            rng.integers(0, 300, repeated, dtype=KEY) ** 2,
            number * in_order + np.arange(in_order, dtype=KEY),
        ]
    )


def write_input(path: Path, keys: int, chunk: int) -> None:
    """Write the unsorted array, with one chunk in memory at a time."""
    array = zarr.create_array(path, shape=(keys,), chunks=(chunk,), dtype=KEY, compressors=None)
    for start in track(range(0, keys, chunk), "Write the input ", console=console):
        stop = min(start + chunk, keys)
        array[start:stop] = make_chunk(start // chunk, stop - start)


# ---------------------------------------------------------------------------------------------------------------------
# Step 2: the sort


#: Prefixes of the names of tasks that have a progress bar, and its label.
SHOWN_STAGES = {
    "sort-local": "  sort each chunk",
    "sort-scan": "  find the cuts",
    "sort-store": "  merge and write",
}


class Stages(SchedulerPlugin):
    """A progress bar for each stage of the sort, which the scheduler advances as tasks finish."""

    name = "stages"

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.bars: dict[str, Any] = {}
        self.finished: set[Any] = set()

    def update_graph(self, scheduler: Any, *, tasks: Any, **kwargs: Any) -> None:
        """Count the tasks of a graph that arrives."""
        prefixes = [self._prefix(key) for key in tasks]
        for prefix, text in SHOWN_STAGES.items():
            self.bars[prefix] = self.progress.add_task(text, total=prefixes.count(prefix))

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Count a task that has finished."""
        prefix = self._prefix(key)
        if finish == "memory" and prefix in self.bars and key not in self.finished:
            self.finished.add(key)  # a task that runs again is not counted twice
            self.progress.advance(self.bars[prefix])

    def _prefix(self, key: Any) -> str:
        return next((prefix for prefix in SHOWN_STAGES if key_split(key).startswith(prefix)), "")


def peak_memory() -> tuple[int, int]:
    """Return the id of this process and its peak memory, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return os.getpid(), int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return os.getpid(), psutil.Process().memory_info().peak_wset
    unit = 1 if sys.platform == "darwin" else 1024
    return os.getpid(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def sort_on_cluster(source: Path, target: Path, cluster: LocalCluster) -> tuple[list[int], int]:
    """Sort one Zarr array into another.

    Returns
    -------
    list of int
        Peak memory of each worker, in bytes.
    int
        Number of workers that had to be restarted.
    """
    with Client(cluster) as client:
        started = {pid for pid, _ in client.run(peak_memory).values()}
        x = da.from_zarr(source)
        y = dask_gpusort.sort(x)
        console.print(str(dask_gpusort.explain(x)), style="dim")

        array = zarr.create_array(target, shape=x.shape, chunks=x.chunksize, dtype=KEY, compressors=None)
        columns = TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console) as progress:
            stages = Stages(progress)
            cluster.scheduler.add_plugin(stages)
            try:
                client.compute(da.store(y, array, lock=False, compute=False)).result()
            finally:
                cluster.scheduler.remove_plugin(stages.name)
        peaks = dict(client.run(peak_memory).values())
    return list(peaks.values()), len(peaks.keys() - started)


# ---------------------------------------------------------------------------------------------------------------------
# Step 3: the verification


@dataclass
class Contents:
    """Sums over the keys of an array that do not depend on their order: equal for two arrays of the same keys."""

    keys: int = 0
    sum: int = 0
    hashes: int = 0

    def add(self, chunk: np.ndarray) -> None:
        """Add one chunk, modulo 2**64."""
        words = chunk.view("u8")
        self.keys += len(words)
        self.sum = (self.sum + int(words.sum(dtype="u8"))) % 2**64
        self.hashes = (self.hashes + int(mixed(words).sum(dtype="u8"))) % 2**64


def mixed(words: np.ndarray) -> np.ndarray:
    """Hash 64-bit words, so that two errors in a sum of keys do not cancel.

    The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    """
    words = (words ^ (words >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> 27)) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> 31)


def verify(source: Path, target: Path) -> list[str]:
    """Compare input and output with zarr and numpy alone, and return a list of errors, empty if there is none."""
    wrong = []
    before, after = Contents(), Contents()
    array = zarr.open_array(source, mode="r")
    for start in track(range(0, array.shape[0], array.chunks[0]), "Read the input  ", console=console):
        before.add(np.asarray(array[start : start + array.chunks[0]]))
    array = zarr.open_array(target, mode="r")
    last = None
    for start in track(range(0, array.shape[0], array.chunks[0]), "Read the output ", console=console):
        chunk = np.asarray(array[start : start + array.chunks[0]])
        after.add(chunk)
        if (chunk[1:] < chunk[:-1]).any():
            wrong.append(f"the chunk at {start:,} is not in order")
        if last is not None and chunk[0] < last:
            wrong.append(f"the chunk at {start:,} begins below the end of the previous one")
        last = chunk[-1]
    if before != after:
        wrong.append(f"the output does not contain the keys of the input: {after} instead of {before}")
    return wrong


# ---------------------------------------------------------------------------------------------------------------------
# The whole example


def check_disk(directory: Path, size: int) -> None:
    """Exit with a message if the disk is too small for the input, the output and the sorted runs."""
    needed, free = int(3.2 * size), shutil.disk_usage(directory).free
    if free < needed:
        raise SystemExit(
            f"{directory} has {format_bytes(free)} free; sorting {format_bytes(size)} needs {format_bytes(needed)}: "
            "choose another --directory or a smaller --size."
        )


def run(options: argparse.Namespace, directory: Path) -> bool:
    """Make, sort and verify an array; return whether the result is right."""
    keys, chunk = max(1, options.size // KEY.itemsize), max(1, options.chunk // KEY.itemsize)
    source, target = directory / "input.zarr", directory / "sorted.zarr"
    memory = options.workers * options.memory_limit
    console.print(
        f"{format_bytes(keys * KEY.itemsize)} of {KEY} in {-(-keys // chunk):,} chunks, "
        f"on {options.workers} workers of {format_bytes(options.memory_limit)}: "
        f"{keys * KEY.itemsize / memory:.1f} times their memory. In {directory}",
        highlight=False,
    )
    write_input(source, keys, chunk)

    console.print("Sort it")
    with LocalCluster(
        n_workers=options.workers,
        threads_per_worker=1,
        memory_limit=options.memory_limit,
        local_directory=str(directory / "workers"),
        dashboard_address=":0",
    ) as cluster:
        start = time.perf_counter()
        peaks, restarts = sort_on_cluster(source, target, cluster)
        seconds = time.perf_counter() - start

    wrong = verify(source, target)
    console.print(f"\nsorted in     {seconds:.1f} s, from disk to disk")
    console.print(f"worker peak   {', '.join(map(format_bytes, peaks))}; {restarts} workers restarted")
    if wrong:
        console.print("[bold red]NOT SORTED[/]    " + "; ".join(wrong[:5]))
    else:
        console.print(f"[bold green]verified[/]      order within and across chunks, and all {keys:,} keys by count,")
        console.print("              sum and sum of hashes, read back with zarr and numpy alone")
        console.print("next          --keep, then dask_gpusort.searchsorted finds keys in sorted.zarr")
    if options.report:
        figures = {"bytes": keys * KEY.itemsize, "seconds": seconds, "peaks": peaks, "restarts": restarts}
        options.report.write_text(json.dumps({**figures, "wrong": wrong}))
    return not wrong


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Sort an array larger than memory, and verify the result.")
    parser.add_argument("--large", action="store_true", help="4 GiB, workers of 1 GiB and chunks of 32 MiB")
    parser.add_argument("--size", type=parse_bytes, help="size of the array (default: 1 GiB)")
    parser.add_argument("--memory-limit", type=parse_bytes, help="memory of one worker (default: 400 MiB)")
    parser.add_argument("--workers", type=int, default=2, help="number of workers (default: %(default)s)")
    parser.add_argument("--chunk", type=parse_bytes, help="size of a chunk (default: 8 MiB)")
    parser.add_argument("--directory", type=Path, help="where to write the arrays (default: a temporary directory)")
    parser.add_argument("--keep", action="store_true", help="do not remove the arrays")
    parser.add_argument("--report", type=Path, help="also write the results to this file, as JSON")
    options = parser.parse_args(arguments)
    sizes = ("4 GiB", "1 GiB", "32 MiB") if options.large else ("1 GiB", "400 MiB", "8 MiB")
    for name, size in zip(("size", "memory_limit", "chunk"), sizes, strict=True):
        setattr(options, name, getattr(options, name) or parse_bytes(size))
    return options


def main() -> int:
    """Run the example in a new directory and return the exit code."""
    options = parse()
    if options.directory:
        options.directory.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="larger-than-memory-", dir=options.directory))
    try:
        check_disk(directory, options.size)
        return 0 if run(options, directory) else 1
    finally:
        if options.keep:
            console.print(f"kept in       {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
