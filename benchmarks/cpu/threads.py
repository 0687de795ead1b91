"""Sections "threads" (time and memory of a large sort) and "balance" (sizes of its output chunks)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np

import dask_gpusort

from ..asv.data import dask_keys
from ..harness.jobs import Effort, compare, in_turns, seconds_of
from ..harness.records import Row
from ..harness.verify import check_sorted, parts_of, summarize

CHUNKS, QUICK_CHUNKS = 64, 8
#: Makes glibc return freed memory to the system: distributed sets it for its workers, plain Python does not.
TRIMMED = {"MALLOC_TRIM_THRESHOLD_": "65536"}
#: Most memory of a sort, as a multiple of its data.
MOST_MEMORY = 2.5


@contextmanager
def our_sort(n: int, chunks: int, held: bool, computed: bool) -> Iterator[Any]:
    """Ours. `held`: the input is in memory. `computed`: the output is one array; otherwise consumed by chunks."""
    x = dask_keys("uniform", n, chunks)
    if held:
        x = x.persist(scheduler="threads")
    y = (lambda: dask_gpusort.sort(x)) if computed else (lambda: parts_of(dask_gpusort.sort(x)))

    def check(found: Any) -> list[int]:
        return check_sorted([summarize(found)] if computed else found, "uniform", n, chunks)

    yield lambda: y().compute(scheduler="threads"), check


sort_held = partial(our_sort, held=True, computed=False)
sort_streamed = partial(our_sort, held=False, computed=False)
sort_computed = partial(our_sort, held=False, computed=True)


@contextmanager
def numpy_sort(n: int, chunks: int) -> Iterator[Any]:
    """NumPy on one thread; the input is one array in memory."""
    x = dask_keys("uniform", n, chunks).compute(scheduler="threads")
    yield lambda: np.sort(x), lambda found: check_sorted([summarize(found)], "uniform", n, chunks)


@contextmanager
def dataframe_sort(n: int, chunks: int) -> Iterator[Any]:
    """Dask DataFrame; the input is in memory, the output consumed partition by partition."""
    x = dask_keys("uniform", n, chunks).persist(scheduler="threads")
    yield (
        lambda: dataframe_parts(x).compute(scheduler="threads"),
        partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
    )


def dataframe_parts(x: da.Array) -> Any:
    """Summaries of the partitions into which Dask DataFrame sorts an array, lazily."""
    frame = dd.from_dask_array(x.reshape(-1, 1), columns=["key"]).sort_values("key")
    return frame.map_partitions(summarize_frame, meta=("part", object))


def summarize_frame(frame: Any) -> Any:
    """Task: summarize a partition."""
    series = frame["key"].iloc[:1].astype(object)
    return series._constructor([summarize(frame["key"].to_numpy())], name="part", dtype=object)


def rows(effort: Effort) -> Iterator[Row]:
    n, chunks = effort.size(51_200_000, 64_000), effort.size(CHUNKS, QUICK_CHUNKS)
    baselines = {
        "`numpy.sort` on one thread": (numpy_sort, 1, "faster"),
        "`dask.dataframe` sort_values": (dataframe_sort, 5, "5 times faster"),
    }
    jobs = {"ours": (sort_held, n, chunks)} | {name: (job, n, chunks) for name, (job, *_) in baselines.items()}
    jobs |= {"consumed by chunks": (sort_streamed, n, chunks), "`compute()`": (sort_computed, n, chunks)}
    found = in_turns(effort, jobs)
    title = f"{n / 1e6:g}M int64 in {chunks} chunks, threads"
    for name, (_, least, wanted) in baselines.items():
        yield compare(found["ours"], found[name], name, least, "s", section="threads", work=title, wanted=wanted)
    trimmed = "`compute()`, `MALLOC_TRIM_THRESHOLD_=65536`"
    found |= in_turns(effort, {trimmed: (sort_computed, n, chunks)}, TRIMMED)
    for name in ("consumed by chunks", "`compute()`", trimmed):
        shares = [sample.peak / (8 * n) for sample in found[name]]
        yield Row(
            section="threads",
            work=f"peak memory of it, {name} ({seconds_of(found[name]):.3g} s)",
            wanted=f"at most {MOST_MEMORY} times the data",
            ours=max(shares),
            unit="x",
            reached=max(shares) <= MOST_MEMORY,
            samples={name: shares},
        )


def spread(sizes: list[int]) -> float:
    """Largest chunk over the mean one."""
    return max(sizes) * len(sizes) / sum(sizes)


def balance_rows(effort: Effort) -> Iterator[Row]:
    """Sizes do not vary between runs, so each is measured once."""
    n, chunks = effort.size(6_400_000, 64_000), effort.size(CHUNKS, QUICK_CHUNKS)
    for distribution in ("uniform", "zipf", "mostly equal", "equal"):
        x = dask_keys(distribution, n, chunks).persist(scheduler="threads")
        ours, theirs = (
            spread(check_sorted(parts.compute(scheduler="threads"), distribution, n, chunks))
            for parts in (parts_of(dask_gpusort.sort(x)), dataframe_parts(x))
        )
        yield Row(
            section="balance",
            work=f"largest / mean output chunk, {distribution} keys in {chunks} chunks",
            wanted="1",
            ours=ours,
            unit="x",
            baselines={"`dask.dataframe` sort_values": theirs},
            reached=ours == 1.0,
            samples={"ours": [ours], "dask.dataframe": [theirs]},
        )
