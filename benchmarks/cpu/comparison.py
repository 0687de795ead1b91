"""Sorts of keys without a 64-bit code, and of several keys, against NumPy.

    python -m benchmarks.cpu.comparison [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/comparison_cpu.json. Each job takes turns with its baseline in a separate process. It runs twice, and
only the second run is timed: the first one imports modules and allocates memory. Every result is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np

import dask_gpusort

from ..harness.command import run_rows
from ..harness.jobs import Effort, compare, in_turns, warmed
from ..harness.records import Row
from ..harness.verify import check_indices

#: Numbers of keys as powers of two: in one chunk, in several chunks, and for sorts that cost more.
ONE, MANY, STRINGS, LESS = 22, 24, 20, 20
CHUNKS = 16


def make(kind: str, n: int) -> list[np.ndarray]:
    """Make the keys of one job, the most significant key first."""
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
        yield found.compute, lambda got: check(work, keys, got)


@contextmanager
def numpys(work: str, kind: str, n: int) -> Iterator[Any]:
    keys = make(kind, n)
    run = {
        "sort": lambda: np.sort(keys[0]),
        "lexsort": lambda: np.lexsort(keys[::-1]),
        "less": lambda: np.argsort(keys[0], kind="stable"),
    }[work]
    yield run, lambda got: check(work, keys, got)


def check(work: str, keys: list[np.ndarray], got: np.ndarray) -> None:
    if work == "sort":
        np.testing.assert_array_equal(got, np.sort(keys[0]))
    else:
        check_indices(keys, got)


@contextmanager
def merging(merge: bool, n: int) -> Iterator[Any]:
    """Join two sorted arrays into one, by a merge or by a sort."""
    keys = make("int64", n)[0]
    halves = [np.sort(half) for half in np.split(keys, 2)]
    arrays = [da.from_array(half, chunks=n // CHUNKS) for half in halves]
    found = dask_gpusort.merge_sorted(*arrays) if merge else dask_gpusort.sort(da.concatenate(arrays))
    with dask.config.set(scheduler="threads"):
        yield found.compute, lambda got: np.testing.assert_array_equal(got, np.sort(keys))


def pair(effort: Effort, work: str, one: tuple[Any, ...], two: tuple[Any, ...], baseline: str, **row: Any) -> Row:
    found = in_turns(effort, {"one": (warmed, *one), "two": (warmed, *two)})
    return compare(*found.values(), baseline, work=work, **row)


def rows(effort: Effort) -> Iterator[Row]:
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
        title, wanted = f"{what} of 2^{n.bit_length() - 1} {kind}, one chunk", "no slower" if least else ""
        jobs = (ours, work, kind, n, 1, 1), (numpys, work, kind, n)
        yield pair(effort, title, *jobs, "NumPy", section="one chunk", wanted=wanted, least=least)
    for work, kind, bits in (
        ("sort", "complex128", MANY),
        ("sort", "S20", STRINGS + 2),
        ("lexsort", "two int32", MANY),
        ("lexsort", "two int64", MANY),
    ):
        n = 1 << effort.size(bits, 12)
        title = f"`{work}` of 2^{n.bit_length() - 1} {kind}, {CHUNKS} chunks, two threads"
        two = (ours, work, kind, n, CHUNKS, 2)
        yield pair(effort, title, two, (numpys, work, kind, n), "NumPy", section="chunks")
        title, one = "the same, two threads against one", (ours, work, kind, n, CHUNKS, 1)
        yield pair(effort, title, two, one, "ours, one thread", section="threads")
    n = 1 << effort.size(MANY, 12)
    title = f"`merge_sorted` of two halves of 2^{n.bit_length() - 1} int64"
    yield pair(effort, title, (merging, True, n), (merging, False, n), "`sort` of both", section="chunks")


if __name__ == "__main__":
    run_rows("benchmarks.cpu.comparison", __doc__, "comparison_cpu", {"table": rows})
