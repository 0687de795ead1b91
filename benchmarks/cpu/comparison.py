"""Sorts of keys without a 64-bit code, and of several keys, against NumPy.

    python -m benchmarks.cpu.comparison [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/comparison_cpu.json. Each job takes turns with its baseline in a separate process. It runs twice, and
only the second run is timed: the first one imports modules and allocates memory. Every result is verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np

import dask_gpusort

from ..harness.command import run_rows
from ..harness.jobs import Effort, compare, in_turns, warmed
from ..harness.records import Row
from .jobs import by_numpy, by_ours, make

#: Numbers of keys as powers of two: in one chunk, in several chunks, and for sorts that cost more.
ONE, MANY, STRINGS, LESS = 22, 24, 20, 20
CHUNKS = 16


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
        jobs = (by_ours, work, kind, n), (by_numpy, work, kind, n)
        yield pair(effort, title, *jobs, "NumPy", section="one chunk", wanted=wanted, least=least)
    for work, kind, bits in (
        ("sort", "complex128", MANY),
        ("sort", "S20", STRINGS + 2),
        ("lexsort", "two int32", MANY),
        ("lexsort", "two int64", MANY),
    ):
        n = 1 << effort.size(bits, 12)
        title = f"`{work}` of 2^{n.bit_length() - 1} {kind}, {CHUNKS} chunks, two threads"
        two = (by_ours, work, kind, n, CHUNKS, 2)
        yield pair(effort, title, two, (by_numpy, work, kind, n), "NumPy", section="chunks")
        title, one = "the same, two threads against one", (by_ours, work, kind, n, CHUNKS, 1)
        yield pair(effort, title, two, one, "ours, one thread", section="threads")
    n = 1 << effort.size(MANY, 12)
    title = f"`merge_sorted` of two halves of 2^{n.bit_length() - 1} int64"
    yield pair(effort, title, (merging, True, n), (merging, False, n), "`sort` of both", section="chunks")


if __name__ == "__main__":
    run_rows("benchmarks.cpu.comparison", __doc__, "comparison_cpu", {"table": rows})
