"""Measures the public functions against the number of threads, on a host with many cores, beside NumPy and Polars.

    python -m benchmarks.cpu.cores [threads one cluster] [--keys-log2 28] [--repeat 3] [--quick] [--output DIRECTORY]
                                   [--commit COMMIT]

Writes results/cores_cpu.json. The input is in memory, in 64 chunks that are slices of one array; a time is the wall
time of the call with ``persist(scheduler="threads")``, the median after a warm-up. On one and two threads it is
measured once. NumPy works on the whole array, on one thread, and is measured once after no warm-up, as it takes as long
as all others together. Polars uses all cores. Every result equals NumPy's, element by element.

"one" measures stable `argsort` of one chunk and few keys. "cluster" compares a cluster of one process with as many
threads as the host has cores with threads alone, and a sort of 1,024 small chunks on two workers with ``numpy.sort`` of
each chunk where it is.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
import polars
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster, wait

import dask_gpusort

from ..harness.command import parse, parser_of, run_sections
from ..harness.machine import describe_machine
from ..harness.records import Point, Record, Row
from .jobs import make, stable_argsort

FILE = "cores_cpu.json"
CHUNKS, ROW_CHUNKS = 64, 64
#: Keys in a row of the matrix, which is sorted along axis 0.
ROW_KEYS = 1 << 13
#: Threads on which a sort takes so long that it is measured once.
FEW_THREADS = 2
SMALL_CHUNKS, SMALL_KEYS = 1_024, 50_000

Arrays = list[np.ndarray]


def by_polars(arrays: Arrays, work: str) -> Callable[[], Any]:
    """Polars' sort of one array, or the positions that sort one or several, the first the most significant."""
    columns = [polars.Series(str(number), _for_polars(array)) for number, array in enumerate(arrays)]
    if work == "sort":
        return columns[0].sort
    names = [column.name for column in columns]
    return lambda: polars.DataFrame(columns).select(polars.arg_sort_by(names, maintain_order=True)).to_series()


def _for_polars(array: np.ndarray) -> Any:
    return array.astype(str) if array.dtype.kind == "S" else array


@dataclass(frozen=True)
class Work:
    """A function of arrays, ours and NumPy's.

    Attributes
    ----------
    kind : str
        Keys, as for `jobs.make`.
    fewer : int
        Keys are this power of two fewer than those of the longest work.
    ours, numpy : callable(*arrays)
    polars : str
        As for `by_polars`; empty if Polars has no such function.
    companion : bool
        Whether an array of positions travels with the keys.
    """

    kind: str
    fewer: int
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    polars: str = ""
    companion: bool = False

    def arrays(self, n: int) -> Arrays:
        found = make(self.kind, n)
        return [*found, np.arange(n)] if self.companion else found


def sort_values(keys: Any, values: Any) -> Any:
    """The values in the order of their keys."""
    return dask_gpusort.sort_by_key(keys, values)[1]


#: Works by name. NumPy takes two to twenty times as long for them as for int64.
WORKS = {
    "sort int64": Work("int64", 0, dask_gpusort.sort, np.sort, "sort"),
    "stable argsort int64": Work("int64", 3, dask_gpusort.argsort, stable_argsort, "argsort"),
    "sort_by_key int64": Work("int64", 3, sort_values, lambda k, v: v.take(stable_argsort(k)), companion=True),
    "sort S20": Work("S20", 3, dask_gpusort.sort, np.sort, "sort"),
    "sort complex128": Work("complex128", 3, dask_gpusort.sort, np.sort),
    "lexsort two keys": Work(
        "few int64, float64",
        3,
        lambda first, second: dask_gpusort.lexsort((second, first)),
        lambda first, second: np.lexsort((second, first)),
        "lexsort",
    ),
}


@dataclass(frozen=True)
class Options:
    """What is measured: keys of the longest work, measurements of each, numbers of threads."""

    keys: int
    repeat: int
    threads: tuple[int, ...] = field(
        default_factory=lambda: tuple(2**bits for bits in range(CPU_COUNT.bit_length()) if 2**bits <= CPU_COUNT)
    )


def seconds(work: Callable[[], Any], check: Callable[[Any], None], repeat: int, warm_ups: int = 1) -> list[float]:
    """Wall times of a function; its first result is checked."""
    samples = []
    for number in range(warm_ups + repeat):
        start = time.perf_counter()
        found = work()
        samples.append(time.perf_counter() - start)
        if number == 0:
            check(found)
        del found
    return samples[warm_ups:]


def equals(wanted: np.ndarray) -> Callable[[Any], None]:
    """A check that an array, given in chunks or whole, has the elements of another."""

    def check(found: Any) -> None:
        if isinstance(found, da.Array):
            found = found.compute(scheduler="synchronous")
        if not np.array_equal(np.asarray(found).astype(wanted.dtype, copy=False), wanted):
            raise AssertionError("the result differs from NumPy's")

    return check


def resident(array: np.ndarray, chunks: Any) -> da.Array:
    return da.from_array(array, chunks=chunks, name=False).persist(scheduler="synchronous")


def thread_points(options: Options) -> Iterator[Point]:
    for name, work in WORKS.items():
        arrays = work.arrays(options.keys >> work.fewer)
        yield from _points(name, work, arrays, [resident(array, -(-len(array) // CHUNKS)) for array in arrays], options)
    keys = np.random.default_rng(3).standard_normal((options.keys // 4 // ROW_KEYS, ROW_KEYS))
    rows = Work("", 2, partial(dask_gpusort.sort, axis=0), partial(np.sort, axis=0))
    name = "sort float64 along axis 0"
    yield from _points(name, rows, [keys], [resident(keys, (-1, ROW_KEYS // ROW_CHUNKS))], options)


def _points(name: str, work: Work, arrays: Arrays, chunked: list[da.Array], options: Options) -> Iterator[Point]:
    figure, start = f"threads {name}", time.perf_counter()
    wanted = work.numpy(*arrays)
    size = arrays[0].size
    yield Point(figure, "NumPy", 1, [time.perf_counter() - start])
    check = equals(wanted)
    if work.polars:
        with_polars = by_polars(arrays, work.polars)
        yield Point(figure, "Polars", CPU_COUNT, seconds(with_polars, check, options.repeat))
    for threads in options.threads:
        few = threads <= FEW_THREADS
        with dask.config.set(scheduler="threads", num_workers=threads):
            samples = seconds(
                lambda: dask.persist(work.ours(*chunked))[0], check, 1 if few else options.repeat, 0 if few else 1
            )
        yield Point(figure, f"ours, {size:,} keys", threads, samples)


def one_rows(options: Options) -> Iterator[Row]:
    """Works that one thread does, or for which several are hardly worth it."""
    n = options.keys >> 4
    with dask.config.set(scheduler="threads"):
        for kind, least in (("int32", 5.0), ("int64", 3.0)):
            (keys,) = make(kind, n)
            x = resident(keys, -1)
            wanted = stable_argsort(keys)
            theirs = seconds(partial(stable_argsort, keys), equals(wanted), options.repeat)
            ours = seconds(lambda x=x: dask_gpusort.argsort(x).persist(), equals(wanted), options.repeat)
            yield _row(f"stable argsort of 2^{n.bit_length() - 1} {kind}, one chunk", ours, "NumPy", theirs, least)
        (keys,) = make("int64", 10_000)
        x = resident(keys, 2_500)
        check = equals(np.sort(keys))
        theirs = seconds(lambda: x.rechunk(-1).map_blocks(np.sort).persist(), check, 20 * options.repeat, 5)
        ours = seconds(lambda: dask_gpusort.sort(x).persist(), check, 20 * options.repeat, 5)
        yield _row("sort of 10,000 int64 in 4 chunks", ours, "rechunk(-1).map_blocks(np.sort)", theirs, 1 / 1.1)


def cluster_rows(options: Options) -> Iterator[Row]:
    (keys,) = make("int64", options.keys >> 2)
    check, wanted = equals(np.sort(keys)), np.sort(keys)
    x = resident(keys, -(-len(keys) // CHUNKS))
    with dask.config.set(scheduler="threads"):
        threads = seconds(lambda: dask_gpusort.sort(x).persist(), check, options.repeat)
    with _cluster(1, CPU_COUNT, processes=False):
        x = da.from_array(keys, chunks=-(-len(keys) // CHUNKS), name=False, inline_array=True).persist()
        ours = seconds(lambda: _held(dask_gpusort.sort(x)), equals_on_cluster(wanted), options.repeat)
    title = f"sort of 2^{len(keys).bit_length() - 1} int64 in {CHUNKS} chunks, a cluster of one process"
    yield _row(f"{title} of {CPU_COUNT} threads", ours, "threads", threads, 1 / 1.3)
    chunks = SMALL_CHUNKS if options.keys > SMALL_CHUNKS * SMALL_KEYS else CHUNKS
    with _cluster(2, 1, processes=True):
        x = da.random.default_rng(3).integers(0, 1 << 62, chunks * SMALL_KEYS, chunks=SMALL_KEYS).persist()
        wait(x)
        wanted = np.sort(x.compute())
        theirs = seconds(lambda: _held(x.map_blocks(np.sort)), lambda _: None, options.repeat)
        ours = seconds(lambda: _held(dask_gpusort.sort(x)), equals_on_cluster(wanted), options.repeat)
    title = f"sort of {chunks:,} chunks of {SMALL_KEYS:,} int64, two workers of one thread"
    yield _row(title, ours, "np.sort of each chunk", theirs, 1 / 3.5)


def _cluster(workers: int, threads: int, *, processes: bool) -> Client:
    options = {"n_workers": workers, "threads_per_worker": threads, "processes": processes}
    return Client(LocalCluster(**options, dashboard_address=None, memory_limit="auto" if processes else 0))


def _held(x: da.Array) -> da.Array:
    found = x.persist()
    wait(found)
    return found


def equals_on_cluster(wanted: np.ndarray) -> Callable[[Any], None]:
    return lambda found: np.testing.assert_array_equal(found.compute(), wanted)


def _row(work: str, ours: list[float], baseline: str, theirs: list[float], least: float) -> Row:
    row = Row(
        work,
        statistics.median(ours),
        unit="s",
        baselines={baseline: statistics.median(theirs)},
        samples={"ours": ours, baseline: theirs},
    )
    return row.aiming(round(least, 3))


SECTIONS: dict[str, Callable[[Options], Iterator[Any]]] = {
    "threads": thread_points,
    "one": one_rows,
    "cluster": cluster_rows,
}


def main() -> None:
    parser = parser_of("benchmarks.cpu.cores", __doc__, list(SECTIONS))
    parser.add_argument("--keys-log2", type=int, default=28, help="keys of the longest work (default: %(default)s)")
    options = parse(parser, list(SECTIONS))
    if not options.output:
        parser.error("--quick says nothing of speed: store its results elsewhere with --output")
    log2 = options.effort.size(options.keys_log2, 18)
    machine = describe_machine("polars", commit=options.commit)
    record = Record(machine, {"quick": options.effort.quick, "repeat": options.effort.repeat, "keys": 1 << log2})
    run_sections(options, record, FILE, SECTIONS, Options(1 << log2, options.effort.repeat))


if __name__ == "__main__":
    main()
