"""Jobs (`harness.jobs`) that sort uniform int64 in chunks on the threads of one process, by us and by others."""

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
from ..harness.verify import check_sorted, parts_of, summarize


@contextmanager
def our_sort(n: int, chunks: int, held: bool, computed: bool) -> Iterator[Any]:
    """Ours. `held`: the input is in memory. `computed`: the output is one array; otherwise consumed by chunks."""
    x = dask_keys("uniform", n, chunks)
    x = x.persist(scheduler="threads") if held else x
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
    check = partial(check_sorted, distribution="uniform", n=n, chunks=chunks)
    yield lambda: dataframe_parts(x).compute(scheduler="threads"), check


def dataframe_parts(x: da.Array) -> Any:
    """Summaries of the partitions into which Dask DataFrame sorts an array, lazily."""
    frame = dd.from_dask_array(x.reshape(-1, 1), columns=["key"]).sort_values("key")
    return frame.map_partitions(summarize_frame, meta=("part", object))


def summarize_frame(frame: Any) -> Any:
    series = frame["key"].iloc[:1].astype(object)
    return series._constructor([summarize(frame["key"].to_numpy())], name="part", dtype=object)
