"""Sorts and its relatives again and again, of arrays in Zarr, while something goes wrong in each of them, at random.

    python -m benchmarks.cpu.soak [--seconds 3600] [--seed SEED] [--directory DIRECTORY] [--quick]

Each round draws a function, a dtype, keys, chunks, an exchange, a fault, and the share of the tasks after which it
comes. It prints a line: what was drawn, whether the fault found what it needs (`missed` if, say, no file was there),
and the outcome. Results, which go to Zarr if their sizes are known, are compared with NumPy's. An error that a fault
explains (a source that raises, a restart, a full disk) is not the end of a round: it is computed again then, without a
fault. At last all counts are printed. A wrong result, another error, a round without an end and a file of a run that
stays end the command with an error.

Workers have one thread, and 512 MiB, so that all runs are in files, or 2 GiB; they are new every 20 rounds. Their files
are in a tmpfs if this user may mount one, which the fault `full` fills.
"""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Timer
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from distributed import SchedulerPlugin, TimeoutError, wait

import dask_gpusort
from dask_gpusort.graph.runs.plugins import NAME

from ..harness.command import arguments
from .larger_than_memory import cluster_of, in_new_directory, remove

WORKERS, MEMORIES, ROUNDS = 2, (1 << 29, 1 << 31), 20
#: Seconds for a round, for workers, and for the end of files. What takes longer hangs.
TIMEOUT, WORKERS_TIMEOUT, FILES_TIMEOUT = 300.0, 300.0, 30.0
#: Bytes of the disk of workers; one that may be filled.
DISK = 1 << 30
#: Dask gives up a worker of a LocalCluster that is not there again after 15 s, and a task after three lost workers.
PATIENT = {"distributed.deploy.lost-worker-timeout": "1h", "distributed.scheduler.allowed-failures": 1_000}
STEP = 1_000_003  # a prime: positions are a permutation
QUANTILES = [0.0, 0.1, 0.5, 0.999]


class SourceError(Exception):
    """Of a source that raises once."""


def raise_once(part: Any, flag: str) -> Any:
    """A chunk of a source, which raises if there is a file, and removes it."""
    try:
        os.unlink(flag)
    except FileNotFoundError:
        return part
    raise SourceError(flag)


def positions(numbers: Any, size: int) -> Any:
    return (numbers * STEP + 7) % size


def lazy_positions(x: Any) -> Any:
    return da.arange(x.size, chunks=x.chunks).map_blocks(partial(positions, size=x.size), dtype="i8")


def average_ranks(x: np.ndarray) -> np.ndarray:
    """As SciPy's; those of NaN are NaN."""
    _, at, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[at]
    ranks[x != x] = np.nan
    return ranks


def sorted_with_positions(x: np.ndarray) -> tuple[np.ndarray, ...]:
    order = np.argsort(x, kind="stable")
    return x[order], order


#: Ours, of a lazy array, and NumPy's.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sort": (dask_gpusort.sort, np.sort),
    "sort_by_key": (
        lambda x: dask_gpusort.sort_by_key(x, da.arange(x.size, chunks=x.chunks), stable=True),
        sorted_with_positions,
    ),
    "argsort": (lambda x: dask_gpusort.argsort(x, stable=True), lambda x: np.argsort(x, kind="stable")),
    "rank": (lambda x: dask_gpusort.rank(x, nan_policy="omit"), average_ranks),
    "unique": (
        lambda x: dask_gpusort.unique(x, return_inverse=True),
        lambda x: np.unique(x, return_inverse=True),
    ),
    "quantile": (
        lambda x: dask_gpusort.quantile(x, QUANTILES, method="inverted_cdf"),
        lambda x: np.quantile(x, QUANTILES, method="inverted_cdf"),
    ),
    "take": (
        lambda x: dask_gpusort.take(x, lazy_positions(x)),
        lambda x: x[positions(np.arange(x.size), x.size)],
    ),
}


def make_keys(dtype: str, size: int) -> np.ndarray:
    """Keys of which some are equal; a few floats are NaN."""
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1 << 33, size)
    keys[::3] &= 0xFFFF
    if dtype == "f8":
        return np.where(rng.random(size) < 0.01, np.nan, keys / 7)
    return keys.astype(dtype)


class Progress(SchedulerPlugin):
    """Tells when a share of the tasks of a graph have ended."""

    name = "progress"

    def begin(self, share: float) -> None:
        self.share, self.left, self.reached = share, 0.0, Event()

    def update_graph(self, scheduler: Any, *, tasks: list[Any], **kwargs: Any) -> None:
        self.left = self.share * len(tasks)

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        if (start, finish) == ("processing", "memory"):
            self.left -= 1
            if self.left <= 0:
                self.reached.set()


@dataclass
class World:
    """What a fault may change."""

    folder: Path
    cluster: Any
    client: Any
    futures: Any = ()

    @property
    def flag(self) -> Path:
        """The file that lets a source raise."""
        return self.folder / "raise"

    def a_process(self) -> int:
        """A worker's process."""
        return int(random.choice(list(self.cluster.workers.values())).pid)

    def a_run(self) -> Path | None:
        """A file of a run, as soon as there is one."""
        while not (found := files_of_runs(self.folder)) and not all(future.done() for future in self.futures):
            time.sleep(0.01)
        return random.choice(found) if found else None

    def settle(self, workers: int = WORKERS) -> None:
        """Wait until as many workers run, and no task is left of results that nobody wants."""
        deadline, scheduler = time.monotonic() + WORKERS_TIMEOUT, self.cluster.scheduler
        while not len(scheduler.running) == len(scheduler.workers) == workers or (not self.futures and scheduler.tasks):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(scheduler.running)} workers run, not {workers}")
            time.sleep(0.05)


@contextmanager
def none(world: World) -> Iterator[bool]:
    yield True


@contextmanager
def kill(world: World) -> Iterator[bool]:
    os.kill(world.a_process(), signal.SIGKILL)
    yield True


@contextmanager
def pause(world: World) -> Iterator[bool]:
    process = world.a_process()
    os.kill(process, signal.SIGSTOP)
    timer = Timer(random.uniform(0.5, 8), os.kill, (process, signal.SIGCONT))
    timer.start()
    yield True
    timer.join()


@contextmanager
def scale(world: World, workers: int) -> Iterator[bool]:
    world.cluster.scale(workers)
    yield True
    world.settle(workers)
    world.cluster.scale(WORKERS)


@contextmanager
def restart_one(world: World) -> Iterator[bool]:
    worker = random.choice(list(world.cluster.scheduler.workers))
    world.client.restart_workers([worker], timeout=WORKERS_TIMEOUT)
    yield True


@contextmanager
def restart_all(world: World) -> Iterator[bool]:
    world.client.restart(timeout=WORKERS_TIMEOUT)
    yield True


@contextmanager
def flip(world: World) -> Iterator[bool]:
    yield change(world.a_run())


def change(path: Path | None) -> bool:
    """Change a bit of a file; whether it was there."""
    try:
        with open(path or "", "r+b", buffering=0) as file:
            at = random.randrange(os.fstat(file.fileno()).st_size)
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1 << random.randrange(8)]))
    except (FileNotFoundError, ValueError):  # it is removed, or has nothing yet
        return False
    return True


@contextmanager
def delete(world: World) -> Iterator[bool]:
    path = world.a_run()
    found = path is not None and path.exists()
    if path:
        path.unlink(missing_ok=True)
    yield found


@contextmanager
def full(world: World) -> Iterator[bool]:
    path = world.folder / "workers" / "full"
    # In pieces, as workers write meanwhile.
    with open(path, "wb") as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
    yield True
    path.unlink()


@contextmanager
def source(world: World) -> Iterator[bool]:
    world.flag.touch()
    yield True
    world.flag.unlink(missing_ok=True)


FAULTS: dict[str, Callable[[World], Any]] = {
    "none": none,
    "kill": kill,
    "pause": pause,
    "retire": partial(scale, workers=1),
    "join": partial(scale, workers=3),
    "restart of a worker": restart_one,
    "restart": restart_all,
    "flip": flip,
    "delete": delete,
    "full": full,
    "source": source,
}


def explained(fault: str, error: BaseException) -> bool:
    """Whether an error is the one that a fault has."""
    if fault == "full":
        return isinstance(error, OSError) and error.errno == errno.ENOSPC and "gpusort.directories" in str(error)
    return isinstance(error, {"source": SourceError, "restart": CancelledError}.get(fault, ()))


def files_of_runs(folder: Path) -> list[Path]:
    return [path for kept in folder.rglob(NAME) for path in kept.glob("*")]


def files_that_stay(folder: Path) -> list[Path]:
    """Files of runs, after a moment."""
    deadline = time.monotonic() + FILES_TIMEOUT
    while (found := files_of_runs(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@dataclass
class Round:
    """What is drawn."""

    function: str
    dtype: str
    keys: int
    chunks: int
    exchange: str
    fault: str
    share: float

    def results(self, world: World) -> list[Any]:
        """Lazy results. Those of a known size are stored."""
        function, _ = FUNCTIONS[self.function]
        remove(list(world.folder.glob("*.out")))
        x = da.from_zarr(world.folder / f"{self.dtype}.in", chunks=-(-self.keys // self.chunks))[: self.keys]
        with dask.config.set({"gpusort.exchange": self.exchange}):
            found = function(x.map_blocks(raise_once, str(world.flag), dtype=x.dtype, meta=np.empty(0, x.dtype)))
        return [
            one if np.isnan(one.size) else stored(one, world.folder / f"{number}.out")
            for number, one in enumerate(found if isinstance(found, tuple) else (found,))
        ]

    def is_wrong(self, found: list[Any], world: World) -> bool:
        """Whether results differ from NumPy's."""
        keys = zarr.open_array(world.folder / f"{self.dtype}.in", mode="r")[: self.keys]
        wanted = FUNCTIONS[self.function][1](keys)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        paths = [world.folder / f"{number}.out" for number in range(len(found))]
        found = [
            zarr.open_array(path, mode="r")[:] if path.exists() else one for path, one in zip(paths, found, strict=True)
        ]
        return not all(
            one.dtype == other.dtype and np.array_equal(one, other, equal_nan=other.dtype.kind == "f")
            for one, other in zip(found, wanted, strict=True)
        )


def stored(array: Any, path: Path) -> Any:
    """A task that stores an array in a new one of Zarr."""
    file = zarr.create_array(path, shape=array.shape, chunks=array.chunksize, dtype=array.dtype, compressors=None)
    return da.store(array, file, lock=False, compute=False)


def draw(options: Any) -> Round:
    function, fault = random.choice(list(FUNCTIONS)), random.choice(options.faults)
    return Round(
        function,
        random.choice(("i8", "f8") if function == "quantile" else ("i8", "f8", "S10")),
        random.randint(1 << options.keys_log2 - 4, 1 << options.keys_log2),
        random.randint(3, 32),
        "runs" if fault in ("flip", "delete") else random.choice(("auto", "runs", "tasks")),
        fault,
        random.uniform(0, 0.9),
    )


def once(world: World, drawn: Round, fault: str, progress: Progress) -> tuple[bool, Any]:
    """Whether a fault came to pass, and the results or the error."""
    progress.begin(drawn.share)
    with ExitStack() as stack:
        world.futures = world.client.compute(drawn.results(world))
        while not progress.reached.wait(0.1) and not all(future.done() for future in world.futures):
            pass
        hit = stack.enter_context(FAULTS[fault](world))
        try:
            wait(world.futures, timeout=TIMEOUT)
            found = [future.result(timeout=TIMEOUT) for future in world.futures]
        except TimeoutError:
            raise
        except (Exception, CancelledError) as error:
            found = error.with_traceback(None)  # which has the futures
        finally:
            world.futures = ()
    gc.collect()  # an error may have the futures
    world.settle()
    return hit, found


def one_round(world: World, drawn: Round, progress: Progress) -> list[str]:
    """The outcomes of a round."""
    hit, found = once(world, drawn, drawn.fault, progress)
    outcomes = ["came" if hit else "missed"]
    if isinstance(found, BaseException) and explained(drawn.fault, found):
        outcomes.append("told")
        _, found = once(world, drawn, "none", progress)
    if isinstance(found, BaseException):
        outcomes.append(f"error {found!r}")
    else:
        outcomes.append("WRONG" if drawn.is_wrong(found, world) else "right")
    del found
    if left := files_that_stay(world.folder):
        outcomes.append(f"files stay {left}")
    return outcomes


def rounds(options: Any, end: float) -> Iterator[tuple[Round, list[str], float]]:
    """Rounds on new workers, until one of them hangs."""
    memory = random.choice(MEMORIES)
    with dask.config.set(PATIENT), cluster_of(options, memory) as (cluster, client):
        world = World(options.directory, cluster, client)
        cluster.scheduler.add_plugin(progress := Progress())
        for _ in range(ROUNDS):
            if time.monotonic() > end:
                break
            start, drawn = time.monotonic(), draw(options)
            try:
                outcomes = one_round(world, drawn, progress)
            except TimeoutError as error:
                states = Counter((dask.utils.key_split(one.key), one.state) for one in cluster.scheduler.tasks.values())
                outcomes = [f"HANGS: {error}: {states}"]
            yield drawn, outcomes, time.monotonic() - start
            if outcomes[0].startswith("HANGS"):
                break


@contextmanager
def disk(options: Any) -> Iterator[None]:
    """A disk for the files of workers, if one can be had."""
    folder = options.directory / "workers"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(folder)]
    mounted = os.name == "posix" and subprocess.run(mount, capture_output=True).returncode == 0
    options.faults = [name for name in FAULTS if name != "full" or mounted]
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def run(options: Any) -> Counter[str]:
    """Rounds until the time is over; gives their counts."""
    count, end = Counter[str](), time.monotonic() + options.seconds
    for dtype in ("i8", "f8", "S10"):
        keys = make_keys(dtype, 1 << options.keys_log2)
        zarr.create_array(options.directory / f"{dtype}.in", data=keys, chunks=(1 << options.keys_log2 - 5,))
    while time.monotonic() < end:
        for drawn, outcomes, seconds in rounds(options, end):
            count["rounds"] += 1
            number = count["rounds"]
            print(f"{number} {seconds:.1f} s {drawn} {', '.join(outcomes)}", flush=True)
            fate = outcomes[-1].split()[0]
            count.update([fate, f"{drawn.function} {fate}", f"{drawn.fault} {outcomes[0].split()[0]}"])
            count["errors told"] += "told" in outcomes
    count["files that stay"] += len(files_of_runs(options.directory))
    return count


def main() -> None:
    more = {"--seconds": {"type": float, "default": 3600.0}, "--seed": {"type": int, "default": time.time_ns() % 10**6}}
    options = arguments("cpu.soak", __doc__, more={**more, "--directory": {"type": Path}})
    options.keys_log2, options.workers, options.threads = 22, WORKERS, 1
    if options.effort.quick:
        options.seconds, options.keys_log2 = 30.0, 18
    random.seed(options.seed)
    print(f"seed {options.seed}")
    with in_new_directory(options), disk(options):
        count = run(options)
    for name, number in sorted(count.items()):
        print(f"{name}: {number:,}")
    assert count["right"] == count["rounds"], "see the lines above"
    assert not count["files that stay"]


if __name__ == "__main__":
    main()
