"""Measure sorts of keys that are no 64-bit integer, on the CPU, and write the table.

Run as ``python -m benchmarks.comparison``. Every job runs in a process of its own, in turns with the peer it is
compared with, twice, of which the second time counts: the first one imports modules and gets memory from the system.
Every result is checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from rich.console import Console

import dask_gpusort

from .core.beside import row_of_two
from .core.contents import check_indices
from .core.measure import Effort
from .core.report import ROOT, Row, as_markdown, machine, table, write

SCRIPT = "benchmarks.comparison"
RESULTS = ROOT / "benchmarks" / "results"

#: Exponents of two: keys of one chunk, of several, and of what costs more.
ONE, MANY, STRINGS, LESS = 22, 24, 20, 20
CHUNKS = 16


def make(kind: str, n: int) -> list[np.ndarray]:
    """The keys of one job, most significant first."""
    rng = np.random.default_rng(3)

    def normal() -> np.ndarray:
        return rng.standard_normal(n)

    def integers(bits: int) -> np.ndarray:
        return rng.integers(-(1 << bits - 1), (1 << bits - 1) - 1, n, dtype=f"i{bits // 8}")

    makers: dict[str, Callable[[], list[np.ndarray]]] = {
        "complex128": lambda: [normal() + 1j * normal()],
        "complex128 of few values": lambda: [np.round(normal() + 1j * normal(), 1)],
        "S20": lambda: [rng.integers(33, 127, (n, 20), np.uint8).view("S20").ravel()],
        "U12": lambda: [rng.integers(48, 58, (n, 12), np.uint32).view("U12").ravel()],
        "two int32": lambda: [integers(32), integers(32)],
        "two int64": lambda: [integers(64), integers(64)],
        "three float64, the first two of few values": lambda: [np.round(normal(), 1), np.round(normal(), 1), normal()],
        "int64": lambda: [integers(64)],
    }
    return makers[kind]()


def chunked(keys: list[np.ndarray], chunks: int) -> list[Any]:
    return [da.from_array(key, chunks=-(-len(key) // chunks)) for key in keys]


@contextmanager
def ours(work: str, kind: str, n: int, chunks: int, threads: int) -> Iterator[Any]:
    """One of our functions, on a number of threads."""
    keys = make(kind, n)
    found = {
        "sort": lambda: dask_gpusort.sort(*chunked(keys, chunks)),
        "lexsort": lambda: dask_gpusort.lexsort(chunked(keys, chunks)[::-1]),
        "less": lambda: dask_gpusort.argsort(*chunked(keys, chunks), less=np.less),
    }[work]()
    with dask.config.set(scheduler="threads" if threads > 1 else "synchronous", num_workers=threads):
        found.compute()
        yield found.compute, lambda got: check(work, keys, got)


@contextmanager
def numpys(work: str, kind: str, n: int) -> Iterator[Any]:
    """NumPy's function on the whole array."""
    keys = make(kind, n)
    run = {
        "sort": lambda: np.sort(keys[0]),
        "lexsort": lambda: np.lexsort(keys[::-1]),
        "less": lambda: np.argsort(keys[0], kind="stable"),
    }[work]
    run()
    yield run, lambda got: check(work, keys, got)


def check(work: str, keys: list[np.ndarray], got: np.ndarray) -> None:
    if work == "sort":
        np.testing.assert_array_equal(got, np.sort(keys[0]))
    else:
        check_indices(keys, got)


@contextmanager
def merging(way: str, n: int) -> Iterator[Any]:
    """Two sorted arrays made one: by merging, or by sorting again."""
    keys = make("int64", n)[0]
    halves = [np.sort(half) for half in np.split(keys, 2)]
    arrays = [da.from_array(half, chunks=n // CHUNKS) for half in halves]
    merge = way == "merge"
    found = dask_gpusort.merge_sorted(*arrays) if merge else dask_gpusort.sort(da.concatenate(arrays))
    with dask.config.set(scheduler="threads"):
        found.compute()
        yield found.compute, lambda got: np.testing.assert_array_equal(got, np.sort(keys))


def rows(effort: Effort) -> Iterator[Row]:
    """Measure everything."""
    for work, kind, bits, least in (
        ("sort", "complex128", ONE, 1),
        ("sort", "complex128 of few values", ONE, None),
        ("sort", "S20", STRINGS, 1),
        ("sort", "U12", STRINGS, None),
        ("lexsort", "two int32", ONE, 1),
        ("lexsort", "two int64", ONE, 1),
        ("lexsort", "three float64, the first two of few values", ONE, None),
        ("less", "int64", LESS, None),
    ):
        n, what = 1 << effort.size(bits, 10), "argsort by `less=numpy.less`" if work == "less" else f"`{work}`"
        jobs = {"ours": (ours, work, kind, n, 1, 1), "NumPy's": (numpys, work, kind, n)}
        title, asked = f"{what} of 2^{n.bit_length() - 1} {kind}, one chunk", "no slower" if least else ""
        yield row_of_two(effort, "one chunk", title, asked, least, jobs)
    for work, kind, bits in (
        ("sort", "complex128", MANY),
        ("sort", "S20", STRINGS + 2),
        ("lexsort", "two int32", MANY),
        ("lexsort", "two int64", MANY),
    ):
        n = 1 << effort.size(bits, 12)
        what = f"`{work}` of 2^{n.bit_length() - 1} {kind}, {CHUNKS} chunks"
        two = (ours, work, kind, n, CHUNKS, 2)
        jobs = {"ours": two, "NumPy's": (numpys, work, kind, n)}
        yield row_of_two(effort, "chunks", f"{what}, two threads", "", None, jobs)
        jobs = {"two threads": two, "ours, one thread": (ours, work, kind, n, CHUNKS, 1)}
        yield row_of_two(effort, "threads", "the same, two threads beside one", "", None, jobs)
    n = 1 << effort.size(MANY, 12)
    jobs = {"ours": (merging, "merge", n), "`sort` of both": (merging, "sort", n)}
    title = f"`merge_sorted` of two halves of 2^{n.bit_length() - 1} int64"
    yield row_of_two(effort, "chunks", title, "", None, jobs)


def main() -> None:
    """Run everything; a wrong result raises."""
    parser = argparse.ArgumentParser(prog=f"python -m {SCRIPT}", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each job (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes, once: only to see that everything works")
    parser.add_argument("--output", type=Path, help="directory for the results (default: benchmarks/results)")
    options = parser.parse_args()
    effort = Effort(options.quick, 1 if options.quick else options.repeat)
    settings = {"quick": effort.quick, "repeat": effort.repeat}
    where = machine()
    console = Console()
    found: list[Row] = []
    for one in rows(effort):
        found.append(replace(one, reached=None) if effort.quick else one)
        console.print(table(found[-1:]).splitlines()[-1], markup=False, highlight=False, soft_wrap=True)
    console.print(as_markdown(found, where, settings, SCRIPT), markup=False, highlight=False, soft_wrap=True)
    if directory := options.output or (None if options.quick else RESULTS):
        write(directory, found, where, settings, SCRIPT)
        console.print(f"written to {directory}")


if __name__ == "__main__":
    main()
