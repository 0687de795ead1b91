"""Sort the same keys by every library that one could use instead, and keep how long each takes.

    python -m benchmarks.peers [--libraries ...] [--keys 10000 1000000 ...] [--repeat 3] [--output DIRECTORY]
    python -m benchmarks.peers --compare OLD.json NEW.json

One array in memory goes in and one comes out, whoever sorts; in one row the result is consumed chunk by chunk.
Libraries take turns, each turn in a process of its own; every sort follows one that is not timed, and its result is
checked. Libraries that are not installed, or need a GPU where there is none, are left out and named. Ratios are only
printed of one machine.

Where there is a GPU, the libraries that sort on it are measured, beside `numpy.sort`. A process needs seconds before it
can use the GPU, so a turn is all sizes there, not one. Keys are made and results are checked on the device, and a time
is the median of some runs between CUDA events.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from rich.console import Console

import dask_gpusort

from .core.contents import Part, check_parts, checksums, look_at, parts_of
from .core.measure import Effort, Job, in_turns
from .measured import MOST_TIMES, describe_machine, devices, quiet_rounds, seconds_here
from .points import RESULTS, ROOT, DifferentMachinesError, Point, Record, commit_of, read, times_faster

#: Keys in a Dask chunk; fewer where there are fewer keys.
CHUNK_KEYS = 1 << 20
#: The same on a GPU, which a chunk of 512 MiB keeps busy for longer than a task takes to start.
DEVICE_CHUNK_KEYS = 1 << 26
KEYS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
#: Keys that a library of the host sorts at most, unless sizes are asked for: ten times as many take it half a minute.
HOST_KEYS = 100_000_000
#: The same beside a GPU, which sorts a hundred times as many in less time.
HOST_KEYS_BESIDE = 10_000_000
#: Keys that are looked at together, and made together on a GPU: so few that neither takes much memory beside the keys.
PIECE_KEYS = 1 << 22
#: Keys that are made together on a CPU, within its cache.
CACHED_KEYS = 1 << 16
FIGURE = "peers"
OURS = "dask_gpusort"
OUR_KERNELS, OURS_ON_DEVICE = f"{OURS}, kernels", f"{OURS}, CuPy chunks"
CUB_LIBRARY = Path(__file__).parent / "libcub_baseline.so"

Sorting = Iterator[tuple[Callable[[], Any], Callable[[Any], Any]]]


def make_keys(n: int, module: Any = np) -> Any:
    """Uniform int64 from 0 on, the same for all libraries, wherever they are made: numbers mixed as splitmix64 does."""
    keys = module.empty(n, np.int64)
    step = CACHED_KEYS if module is np else PIECE_KEYS
    for first in range(0, n, step):
        last = min(first + step, n)
        mixed = module.arange(first + 1, last + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys[first:last] = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).view(np.int64)
    return keys


def checked(keys: Any) -> Callable[[Any], None]:
    """A check that raises unless an array is these keys, sorted; both are looked at where they lie."""
    wanted = checksums(look(keys))

    def check(found: Any) -> None:
        check_parts(look(found), wanted)

    return check


def look(keys: Any) -> list[Part]:
    """Summaries of an array of integers, piece by piece."""
    pieces = (keys[first : first + PIECE_KEYS] for first in range(0, len(keys), PIECE_KEYS))
    return [look_at(piece if piece.itemsize == 8 else piece.astype(np.uint64)) for piece in pieces]


def chunked(keys: Any, chunk_keys: int = CHUNK_KEYS) -> da.Array:
    """A Dask array of chunks that are views of one array."""
    return da.from_array(keys, chunks=min(len(keys), chunk_keys), name=False)


@contextmanager
def by_numpy(n: int) -> Sorting:
    """NumPy: one thread."""
    keys = make_keys(n)
    yield lambda: np.sort(keys), checked(keys)


@contextmanager
def by_polars(n: int) -> Sorting:
    """Polars: all threads."""
    import polars

    keys = make_keys(n)
    series = polars.Series(keys)
    yield lambda: series.sort().to_numpy(), checked(keys)


@contextmanager
def by_dataframe(n: int) -> Sorting:
    """Dask DataFrame: splitters, then a shuffle of partitions."""
    import dask.dataframe as dd

    keys = make_keys(n)
    frame = dd.from_dask_array(chunked(keys).reshape(-1, 1), columns=["key"])
    yield lambda: frame.sort_values("key").compute(scheduler="threads")["key"].to_numpy(), checked(keys)


@contextmanager
def by_array_api(n: int) -> Sorting:
    """array-api-compat on Dask: one chunk of everything."""
    import array_api_compat.dask.array as xp

    keys = make_keys(n)
    x = chunked(keys)
    yield lambda: xp.sort(x).compute(scheduler="threads"), checked(keys)


@contextmanager
def by_ours(n: int) -> Sorting:
    """Ours: all threads."""
    keys = make_keys(n)
    x = chunked(keys)
    yield lambda: dask_gpusort.sort(x).compute(scheduler="threads"), checked(keys)


@contextmanager
def by_ours_in_chunks(n: int) -> Sorting:
    """Ours, the result consumed chunk by chunk, as one does with what is larger than memory."""
    keys = make_keys(n)
    x = chunked(keys)
    wanted = checksums(look(keys))

    def check(found: Any) -> None:
        check_parts(found, wanted)

    yield lambda: parts_of(dask_gpusort.sort(x)).compute(scheduler="threads"), check


@contextmanager
def on_device(sort: Callable[[Any], Any], n: int) -> Sorting:
    """A sort of a CuPy array that is on the device: median of some runs between CUDA events, once the GPU is awake."""
    import cupy

    from .gpu_figures import timed

    keys = make_keys(n, cupy)
    check = checked(keys)
    result: list[Any] = []

    def run() -> None:
        result.clear()  # so that the next result takes its memory
        result.append(sort(keys))

    def check_and_tell(seconds: float) -> float:
        check(result.pop())
        return seconds

    yield lambda: statistics.median(timed({"": run})[""]), check_and_tell


def by_cupy(n: int) -> Any:
    """CuPy."""
    import cupy

    return on_device(cupy.sort, n)


def by_torch(n: int) -> Any:
    """PyTorch, which carries positions along always."""
    import cupy
    import torch

    return on_device(lambda keys: cupy.from_dlpack(torch.sort(torch.from_dlpack(keys)).values), n)


@contextmanager
def by_cub(n: int) -> Sorting:
    """CUB's radix sort, which is given its scratch memory before the clock starts: the median of its own runs."""
    import cupy

    from .gpu_figures import keep_busy
    from .gpu_table import Cub

    keys, found = make_keys(n, cupy), cupy.empty(n, np.int64)
    check = checked(keys)
    call = partial(Cub(CUB_LIBRARY).call, "cub_keys_int64", keys, found)

    def work() -> float:
        keep_busy(call)
        return call() / 1e3

    def check_and_tell(seconds: float) -> float:
        check(found)
        return seconds

    yield work, check_and_tell


def by_our_kernels(n: int) -> Any:
    """Ours: the kernels alone."""
    from dask_gpusort import kernels

    return on_device(kernels.sort_keys, n)


def by_ours_on_device(n: int) -> Any:
    """Ours, of CuPy chunks."""
    return on_device(
        lambda keys: dask_gpusort.sort(chunked(keys, DEVICE_CHUNK_KEYS)).compute(scheduler="synchronous"), n
    )


@dataclass(frozen=True)
class Library:
    """One way to sort.

    Attributes
    ----------
    job : callable
        As `core.measure` runs it, for a number of keys.
    needs : tuple of str
        Modules without which it is left out.
    device : bool
        Whether it sorts on a GPU.
    built : Path or None
        What nvcc builds for it, if it is not there yet.
    """

    job: Job
    needs: tuple[str, ...] = ()
    device: bool = False
    built: Path | None = None


LIBRARIES = {
    OURS: Library(by_ours),
    f"{OURS}, chunk by chunk": Library(by_ours_in_chunks),
    "numpy.sort": Library(by_numpy),
    "Polars": Library(by_polars, ("polars",)),
    "array-api-compat": Library(by_array_api, ("array_api_compat",)),
    "dask.dataframe": Library(by_dataframe, ("pandas", "pyarrow")),
    OUR_KERNELS: Library(by_our_kernels, ("cupy",), device=True),
    OURS_ON_DEVICE: Library(by_ours_on_device, ("cupy",), device=True),
    "cupy.sort": Library(by_cupy, ("cupy",), device=True),
    "torch.sort": Library(by_torch, ("cupy", "torch"), device=True),
    "CUB": Library(by_cub, ("cupy",), device=True, built=CUB_LIBRARY),
}


def missing(library: Library) -> str:
    """Why a library cannot sort here; empty if it can."""
    absent = [name for name in library.needs if importlib.util.find_spec(name) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    if library.device and not devices():
        return "needs a GPU"
    if library.built and not library.built.exists() and shutil.which("nvcc") is None:
        return "needs nvcc"
    return ""


def sizes_of(name: str, asked: Sequence[int] | None, quick: bool) -> list[int]:
    """How many keys a library sorts."""
    if quick:
        return [1_000, 10_000]
    most = KEYS[-1] if LIBRARIES[name].device else HOST_KEYS_BESIDE if devices() else HOST_KEYS
    return sorted(asked or [n for n in KEYS if n <= most])


@contextmanager
def turn(job: Job, sizes: list[int]) -> Iterator[Any]:
    """A turn of one library: seconds of each size."""
    yield lambda: {n: seconds_here(job, n) for n in sizes}, lambda found: found


def points(effort: Effort, sizes: dict[str, list[int]]) -> Iterator[Point]:
    """Measure the sizes of each library, in turns.

    Where there is a GPU a turn is all sizes, and no round is measured again because others kept the CPU busy: most
    times are those of the GPU.
    """
    every = sorted(set().union(*sizes.values()))
    for together in [every] if devices() else [[n] for n in every]:
        taken = {name: [n for n in own if n in together] for name, own in sizes.items()}
        jobs = {name: (turn, LIBRARIES[name].job, own) for name, own in taken.items() if own}
        one_round = partial(in_turns, Effort(effort.quick, 1), jobs)
        rounds, others = quiet_rounds(effort, one_round, 1 if devices() else MOST_TIMES)
        for name in jobs:
            for n in taken[name]:
                yield Point(FIGURE, name, n, [found[name][0].found[n] for found in rounds], "s", others)


def table(record: Record) -> str:
    """The points as Markdown: milliseconds, and times faster than each other library ours is, or our kernels are."""
    lines = record.lines(FIGURE)
    sizes = sorted({point.x for points in lines.values() for point in points})
    rows = ["| library | " + " | ".join(f"{n:,.0f} keys, ms" for n in sizes) + " |", "|---|" + "--:|" * len(sizes)]
    reference = OURS if OURS in lines else OUR_KERNELS
    ours = {point.x: point for point in lines.get(reference, [])}
    for name, points in lines.items():
        here = {point.x: point for point in points}
        cells = []
        for n in sizes:
            text = f"{1000 * here[n].median:,.3g}" if n in here else ""
            if n in here and n in ours and name != reference:
                text += f" ({times_faster((ours[n], record.machine), (here[n], record.machine)):.2g} x)"
            cells.append(text)
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def comparison(old: Record, new: Record) -> str:
    """How many times faster each library is in a new record, as Markdown; refused of two machines."""
    before = {(point.series, point.x): point for point in old.points}
    rows = ["| library | keys | times faster than before |", "|---|--:|--:|"]
    for point in new.points:
        if (earlier := before.get((point.series, point.x))) is not None:
            ratio = times_faster((point, new.machine), (earlier, old.machine))
            rows.append(f"| {point.series} | {point.x:,.0f} | {ratio:.2f} |")
    return "\n".join(rows)


def usual() -> list[str]:
    """What is measured unless libraries are named: where there is a GPU, what sorts on it, and NumPy."""
    return [name for name in LIBRARIES if not devices() or LIBRARIES[name].device or name == "numpy.sort"]


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=usual(), help="(default: see above)")
    parser.add_argument("--keys", type=int, nargs="+", help="sizes (default: 10,000 to 100,000,000, on a GPU to 10^9)")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes, once: only to see that everything works")
    parser.add_argument("--output", type=Path, help="directory for the results (default: benchmarks/results)")
    parser.add_argument("--commit", default=commit_of(ROOT), help="what is measured, where there is no git")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"), help="compare two records instead")
    return parser.parse_args()


def main() -> None:
    """Measure or compare; a wrong result raises."""
    options = parse()
    console = Console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if options.compare:
        try:
            say(comparison(*map(read, options.compare)))
        except DifferentMachinesError as error:
            raise SystemExit(str(error)) from None
        return
    names = [name for name in options.libraries if not missing(LIBRARIES[name])]
    for name in sorted(set(options.libraries) - set(names)):
        say(f"{name}: left out, {missing(LIBRARIES[name])}")
    effort = Effort(options.quick, 1 if options.quick else options.repeat)
    settings = {"quick": effort.quick, "repeat": effort.repeat, "dtype": "int64"}
    settings |= {"chunk_keys": CHUNK_KEYS, "device_chunk_keys": DEVICE_CHUNK_KEYS}
    machine = describe_machine("polars", "pyarrow", "array-api-compat", "cupy-cuda13x", "torch")
    record = Record(machine | {"commit": options.commit}, settings)
    for built in filter(None, (LIBRARIES[name].built for name in names)):
        importlib.import_module(".gpu_table", __package__).Cub(built)  # so that no turn waits for the compiler
    for point in points(effort, {name: sizes_of(name, options.keys, effort.quick) for name in names}):
        record.points.append(point)
        say(f"{point.series:28} {point.x:13,.0f} keys {1000 * point.median:12,.2f} ms")
    say(table(record))
    if directory := options.output or (None if options.quick else RESULTS):
        record.write(directory / f"peers_{'gpu' if devices() else 'cpu'}.json")


if __name__ == "__main__":
    main()
