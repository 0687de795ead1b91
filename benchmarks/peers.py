"""Sort the same keys by every library that one could use instead, and keep how long each takes.

    python -m benchmarks.peers [--libraries ...] [--keys 10000 1000000 ...] [--repeat 3] [--output DIRECTORY]
    python -m benchmarks.peers --compare OLD.json NEW.json

One array in memory goes in and one comes out, whoever sorts; in one row the result is consumed chunk by chunk. Every
measurement is made in a process of its own, in turns with the others, after one sort that is not timed, and its result
is checked. Libraries that are not installed, or need a GPU where there is none, are left out and named. Ratios are only
printed of one machine.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from rich.console import Console

import dask_gpusort

from .core.contents import Part, check_parts, checksums, look_at, parts_of
from .core.measure import Effort, Job
from .measured import describe_machine, devices, measured_points
from .points import RESULTS, DifferentMachinesError, Point, Record, read, times_faster
from .suites.data import make_chunk

#: Keys in a Dask chunk; fewer where there are fewer keys.
CHUNK_KEYS = 1 << 20
KEYS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
FIGURE = "peers"
OURS = "dask_gpusort"

Sorting = Iterator[tuple[Callable[[], Any], Callable[[Any], Any]]]


def make_keys(n: int) -> np.ndarray:
    """Uniform int64: the same for all libraries."""
    return make_chunk(0, n, n, "uniform", "i8")


def checked(keys: np.ndarray) -> Callable[[Any], None]:
    """A check that raises unless an array is these keys, sorted."""
    wanted = checksums([look(keys)])

    def check(found: Any) -> None:
        check_parts([look(np.asarray(found))], wanted)

    return check


def look(keys: np.ndarray) -> Part:
    """Summary of an array of integers."""
    return look_at(keys if keys.itemsize == 8 else keys.astype("u8"))


def chunked(keys: Any) -> da.Array:
    """A Dask array of chunks that are views of one array."""
    return da.from_array(keys, chunks=min(len(keys), CHUNK_KEYS), name=False)


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
    """Dask DataFrame: quantiles, then a shuffle of partitions."""
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
    wanted = checksums([look(keys)])

    def check(found: Any) -> None:
        check_parts(found, wanted)

    yield lambda: parts_of(dask_gpusort.sort(x)).compute(scheduler="threads"), check


@contextmanager
def on_device(sort: Callable[[Any], Any], n: int) -> Sorting:
    """A sort of a CuPy array that is on the device, timed between CUDA events."""
    import cupy

    keys = make_keys(n)
    device_keys = cupy.asarray(keys)
    check = checked(keys)
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()

    def work() -> Any:
        begin.record()
        found = sort(device_keys)
        end.record()
        end.synchronize()
        return found

    def check_and_tell(found: Any) -> float:
        check(cupy.asnumpy(found))
        return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3

    yield work, check_and_tell


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
    """CUB's radix sort, which is given its scratch memory before the clock starts."""
    import cupy

    from .gpu_table import HERE, Cub

    keys = make_keys(n)
    device_keys, found = cupy.asarray(keys), cupy.empty(n, np.int64)
    library = Cub(HERE / "libcub_baseline.so")
    check = checked(keys)

    def check_and_tell(milliseconds: float) -> float:
        check(cupy.asnumpy(found))
        return milliseconds / 1e3

    sort = library.library.cub_keys_int64
    sort.restype, sort.argtypes = ctypes.c_float, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    yield lambda: sort(device_keys.data.ptr, found.data.ptr, n), check_and_tell


def by_our_kernels(n: int) -> Any:
    """Ours: the kernels alone."""
    from dask_gpusort import kernels

    return on_device(kernels.sort_keys, n)


def by_ours_on_device(n: int) -> Any:
    """Ours, of CuPy chunks."""
    return on_device(lambda keys: dask_gpusort.sort(chunked(keys)).compute(scheduler="synchronous"), n)


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
    """

    job: Job
    needs: tuple[str, ...] = ()
    device: bool = False


LIBRARIES = {
    OURS: Library(by_ours),
    f"{OURS}, chunk by chunk": Library(by_ours_in_chunks),
    "numpy.sort": Library(by_numpy),
    "Polars": Library(by_polars, ("polars",)),
    "array-api-compat": Library(by_array_api, ("array_api_compat",)),
    "dask.dataframe": Library(by_dataframe, ("pandas", "pyarrow")),
    f"{OURS}, kernels": Library(by_our_kernels, ("cupy",), device=True),
    f"{OURS}, CuPy chunks": Library(by_ours_on_device, ("cupy",), device=True),
    "cupy.sort": Library(by_cupy, ("cupy",), device=True),
    "torch.sort": Library(by_torch, ("cupy", "torch"), device=True),
    "CUB": Library(by_cub, ("cupy",), device=True),
}


def missing(library: Library) -> str:
    """Why a library cannot sort here; empty if it can."""
    absent = [name for name in library.needs if importlib.util.find_spec(name) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    return "needs a GPU" if library.device and not devices() else ""


def points(effort: Effort, names: list[str], sizes: list[int]) -> Iterator[Point]:
    """Measure the libraries in turns, size by size."""
    for n in sizes:
        jobs = {name: (LIBRARIES[name].job, n) for name in names}
        yield from measured_points(effort, FIGURE, n, jobs)


def table(record: Record) -> str:
    """The points as Markdown: milliseconds, and times faster than each other library ours is."""
    lines = record.lines(FIGURE)
    sizes = sorted({point.x for points in lines.values() for point in points})
    rows = ["| library | " + " | ".join(f"{n:,.0f} keys, ms" for n in sizes) + " |", "|---|" + "--:|" * len(sizes)]
    ours = {point.x: point for point in lines.get(OURS, [])}
    for name, points in lines.items():
        here = {point.x: point for point in points}
        cells = []
        for n in sizes:
            text = f"{1000 * here[n].median:,.3g}" if n in here else ""
            if n in here and n in ours and name != OURS:
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


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--keys", type=int, nargs="+", default=KEYS, help="sizes (default: 10,000 to 100,000,000)")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes, once: only to see that everything works")
    parser.add_argument("--output", type=Path, help="directory for the results (default: benchmarks/results)")
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
    sizes = [1_000, 10_000] if options.quick else sorted(options.keys)
    settings = {"quick": effort.quick, "repeat": effort.repeat, "chunk_keys": CHUNK_KEYS, "dtype": "int64"}
    record = Record(describe_machine("polars", "pyarrow", "array-api-compat", "cupy-cuda13x", "torch"), settings)
    for point in points(effort, names, sizes):
        record.points.append(point)
        say(f"{point.series:28} {point.x:13,.0f} keys {1000 * point.median:12,.2f} ms")
    say(table(record))
    if directory := options.output or (None if options.quick else RESULTS):
        record.write(directory / f"peers_{'gpu' if devices() else 'cpu'}.json")


if __name__ == "__main__":
    main()
