"""Section "threads": a large sort on the threads of one machine, time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np

import dask_gpusort

from ..suites.data import dask_keys
from .contents import check_sorted, look_at, parts_of
from .measure import Effort, in_turns, peak_of, seconds_of, times_faster
from .report import Row

CHUNKS = 64
#: Makes glibc give freed memory back to the system: distributed sets it for its workers, plain Python does not.
TRIMMED = {"MALLOC_TRIM_THRESHOLD_": "65536"}


@contextmanager
def sort_held(n: int, chunks: int) -> Iterator[Any]:
    """Ours; the input is in memory, the output consumed chunk by chunk."""
    x = dask_keys("uniform", n, chunks).persist(scheduler="threads")
    yield (
        lambda: parts_of(dask_gpusort.sort(x)).compute(scheduler="threads"),
        partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
    )


@contextmanager
def sort_streamed(n: int, chunks: int) -> Iterator[Any]:
    """Ours; the input is made by chunks, the output consumed chunk by chunk."""
    x = dask_keys("uniform", n, chunks)
    yield (
        lambda: parts_of(dask_gpusort.sort(x)).compute(scheduler="threads"),
        partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
    )


@contextmanager
def sort_computed(n: int, chunks: int) -> Iterator[Any]:
    """Ours; the input is made by chunks, the output is one NumPy array."""
    x = dask_keys("uniform", n, chunks)

    def check(result: np.ndarray) -> list[int]:
        return check_sorted([look_at(result)], "uniform", n, chunks)

    yield lambda: dask_gpusort.sort(x).compute(scheduler="threads"), check


@contextmanager
def numpy_sort(n: int, chunks: int) -> Iterator[Any]:
    """NumPy, on one thread; the input is one array in memory."""
    x = dask_keys("uniform", n, chunks).compute(scheduler="threads")

    def check(result: np.ndarray) -> list[int]:
        return check_sorted([look_at(result)], "uniform", n, chunks)

    yield lambda: np.sort(x), check


@contextmanager
def dataframe_sort(n: int, chunks: int) -> Iterator[Any]:
    """Dask DataFrame; the input is in memory, the output consumed partition by partition."""
    x = dask_keys("uniform", n, chunks).persist(scheduler="threads")
    yield (
        lambda: dataframe_parts(x).compute(scheduler="threads"),
        partial(check_sorted, distribution="uniform", n=n, chunks=chunks),
    )


def dataframe_parts(x: da.Array) -> Any:
    """Summaries of the partitions that Dask DataFrame sorts an array into, lazily."""
    frame = dd.from_dask_array(x.reshape(-1, 1), columns=["key"]).sort_values("key")
    return frame.map_partitions(look_at_frame, meta=("part", object))


def look_at_frame(frame: Any) -> Any:
    """Task: summarise a partition."""
    series = frame["key"].iloc[:1].astype(object)
    part = look_at(frame["key"].to_numpy())
    return series._constructor([part], name="part", dtype=object)


def rows(effort: Effort) -> Iterator[Row]:
    """Measure the section."""
    n = effort.size(51_200_000, 64_000)
    data = n * 8
    jobs = {
        "ours": (sort_held, n, CHUNKS),
        "numpy.sort": (numpy_sort, n, CHUNKS),
        "dask.dataframe": (dataframe_sort, n, CHUNKS),
        "ours, streamed": (sort_streamed, n, CHUNKS),
        "ours, computed": (sort_computed, n, CHUNKS),
    }
    found = in_turns(effort, jobs)
    seconds = {name: [sample.seconds for sample in samples] for name, samples in found.items()}
    title = f"{n / 1e6:g}M int64 in {CHUNKS} chunks, threads"
    for peer, least in (("numpy.sort", 1), ("dask.dataframe", 5)):
        ratio = times_faster(found["ours"], found[peer])
        yield Row(
            "threads",
            title,
            f"{least} times faster" if least > 1 else "faster",
            seconds_of(found["ours"]),
            "s",
            ratio,
            f"`{peer}`{' on one thread' if peer == 'numpy.sort' else ' sort_values'}, {seconds_of(found[peer]):.3g} s",
            ratio >= least,
            {"ours": seconds["ours"], peer: seconds[peer]},
        )
    found |= in_turns(effort, {"ours, computed, trimmed": (sort_computed, n, CHUNKS)}, TRIMMED)
    for name, text in (
        ("ours, streamed", "consumed by chunks"),
        ("ours, computed", "`compute()`"),
        ("ours, computed, trimmed", "`compute()`, `MALLOC_TRIM_THRESHOLD_=65536`"),
    ):
        memory = peak_of(found[name]) / data
        yield Row(
            "threads",
            f"peak memory of it, {text} ({seconds_of(found[name]):.3g} s)",
            "at most 2.5 times the data",
            memory,
            "x",
            reached=memory <= 2.5,
            samples={name: [sample.peak / data for sample in found[name]]},
        )
