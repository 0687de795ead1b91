"""Sorts of keys without a 64-bit code, and of several keys, against NumPy.

    python -m benchmarks.cpu.comparison [--repeat 3] [--quick] [--output DIRECTORY]

Writes results/comparison_cpu.json. Each job takes turns with its baseline in a separate process, and is timed in its
second run: the first one imports modules and allocates memory. Every result is verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import dask_gpusort

from ..harness.command import arguments, measure, titled
from ..harness.jobs import Effort, compared, jobs_of, on_threads
from ..harness.records import Row, slug
from .keys import chunked, make, numpy_baseline

#: Numbers of keys as powers of two: in one chunk, in several chunks, and for sorts that cost more.
ONE, MANY, SLOW = 22, 24, 20
CHUNKS = 16
NAMES = ("ours", "NumPy")


def merging(n: int) -> Any:
    """Case: join two sorted arrays into one, by a merge or by a sort."""
    (keys,) = make("int64", n)
    arrays = [chunked(np.sort(half), CHUNKS // 2) for half in np.split(keys, 2)]
    works = {"ours": dask_gpusort.merge_sorted(*arrays), "`sort` of both": dask_gpusort.sort(da.concatenate(arrays))}
    wanted = np.sort(keys)
    return {who: x.compute for who, x in works.items()}, lambda got, _: np.testing.assert_array_equal(got, wanted)


on_one = partial(on_threads, threads=1)


def one_chunk(effort: Effort) -> Iterator[Row]:
    for work, kind, bits in (
        ("sort", "complex128", ONE),
        ("sort", "complex128 of few values", ONE),
        ("sort", "S20", SLOW),
        ("sort", "U12", SLOW),
        ("lexsort", "two int32", ONE),
        ("lexsort", "two int64", ONE),
        ("lexsort", "three float64, the first two of few values", ONE),
        ("less", "int64", SLOW),
    ):
        log2, what = effort.size(bits, 10), "argsort by `less=numpy.less`" if work == "less" else f"`{work}`"
        jobs = jobs_of(numpy_baseline, NAMES, work, kind, 1 << log2, on=on_one)
        yield compared(effort, slug(work, kind), f"{what} of 2^{log2} {kind}, one chunk", jobs)


def several(effort: Effort, section: str) -> Iterator[Row]:
    """Sorts of several chunks, on two threads, against NumPy's or on one thread."""
    for work, kind, bits in (
        ("sort", "complex128", MANY),
        ("sort", "S20", SLOW + 2),
        ("lexsort", "two int32", MANY),
        ("lexsort", "two int64", MANY),
    ):
        log2 = effort.size(bits, 12)
        title, case = f"`{work}` of 2^{log2} {kind}, {CHUNKS} chunks, two threads", (work, kind, 1 << log2, CHUNKS)
        jobs = jobs_of(numpy_baseline, NAMES, *case)
        if section == "threads":
            title = f"{title} against one"
            jobs = {"ours": jobs["ours"], "ours, one thread": (on_one, numpy_baseline, "ours", *case)}
        yield compared(effort, slug(section, work, kind), title, jobs)
    if section == "chunks":
        log2 = effort.size(MANY, 12)
        jobs = jobs_of(merging, ("ours", "`sort` of both"), 1 << log2)
        yield compared(effort, "merge_sorted", f"`merge_sorted` of two halves of 2^{log2} int64", jobs)


SECTIONS = titled(
    {"one chunk": one_chunk, **{section: partial(several, section=section) for section in ("chunks", "threads")}}
)

if __name__ == "__main__":
    options = arguments("cpu.comparison", __doc__, list(SECTIONS))
    measure(options, "comparison_cpu", SECTIONS, options.effort)
