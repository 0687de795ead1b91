"""Jobs (`harness.jobs`) of one process: our sorts and the baselines, of uniform int64 in chunks or of one chunk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np

import dask_gpusort
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.order import Order

from ..asv.data import dask_keys
from ..harness.verify import check_indices, check_sorted, parts_of, summarize

#: Random keys over the whole range of a dtype, and int64 keys below 2**32, which are common for counters and times.
KINDS = {"int32": ("i4", 31), "int64": ("i8", 63), "int64 below 2**32": ("i8", 32)}


@contextmanager
def our_sort(n: int, chunks: int, held: bool, computed: bool) -> Iterator[Any]:
    """Our sort. `held`: the input is in memory. `computed`: the output is one array, else it is consumed by chunks."""
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


def make_keys(kind: str, n: int) -> np.ndarray:
    dtype, bits = KINDS[kind]
    low = 0 if kind.endswith("2**32") else -(1 << bits)
    return np.random.default_rng(3).integers(low, (1 << bits) - 1, n, dtype=dtype)


@contextmanager
def our_argsort(kind: str, n: int) -> Iterator[Any]:
    """Our argsort, through the public function."""
    keys = make_keys(kind, n)
    y = dask_gpusort.argsort(da.from_array(keys, chunks=-1), stable=True)
    yield lambda: y.compute(scheduler="synchronous"), lambda found: check_indices([keys], found)


@contextmanager
def numpy_argsort(kind: str, n: int) -> Iterator[Any]:
    keys = make_keys(kind, n)
    yield lambda: np.argsort(keys, kind="stable"), lambda found: check_indices([keys], found)


def make_runs(kind: str, n: int, runs: int) -> list[np.ndarray]:
    """Make sorted runs of codes, all with the same length."""
    order = Order(np.dtype(KINDS[kind][0]))
    blocks = np.split(make_keys(kind, n), runs)
    return [numpy_ops.local_sort(block, (), order, positions=False).keys for block in blocks]


def check_merged(runs: list[np.ndarray], found: np.ndarray) -> None:
    np.testing.assert_array_equal(found, np.sort(np.concatenate(runs)))


@contextmanager
def our_merge(kind: str, n: int, runs: int) -> Iterator[Any]:
    """The merge of the runs of an exchange group."""
    order = Order(np.dtype(KINDS[kind][0]))
    arrays = make_runs(kind, n, runs)
    pieces = [numpy_ops.Run(array.copy()) for array in arrays]
    yield lambda: numpy_ops.merge(pieces, order), lambda found: check_merged(arrays, found.keys)


@contextmanager
def fresh_sort(kind: str, n: int, runs: int) -> Iterator[Any]:
    """Join the runs and sort them instead of a merge."""
    arrays = make_runs(kind, n, runs)
    yield lambda: np.sort(np.concatenate(arrays)), partial(check_merged, arrays)
