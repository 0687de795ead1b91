"""Jobs (`harness.jobs`) of one process: our sorts and the baselines, of keys in chunks or in one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np

import dask_gpusort
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.order import Order

from ..asv.data import and_of, dask_keys
from ..baselines.libraries import make_keys
from ..harness.verify import check_indices, check_sorted, parts_of, summarize


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


def make(kind: str, n: int) -> list[np.ndarray]:
    """Make the keys of one job, the most significant key first."""
    rng = np.random.default_rng(3)

    def normal() -> np.ndarray:
        return rng.standard_normal(n)

    def integers(bits: int) -> np.ndarray:
        return rng.integers(-(1 << bits - 1), (1 << bits - 1) - 1, n, dtype=f"i{bits // 8}")

    if " and of " in kind:  # keys of low entropy
        dtype, words = kind.split(" and of ")
        return [and_of(int(words), n, dtype)]
    makers: dict[str, Callable[[], list[np.ndarray]]] = {
        "uniform": lambda: [make_keys(n)],
        "few int64, float64": lambda: [rng.integers(0, 1_000, n), normal()],
        "int32": lambda: [integers(32)],
        "int64": lambda: [integers(64)],
        "int64 below 2**32": lambda: [rng.integers(0, (1 << 32) - 1, n)],  # common for counters and times
        "complex128": lambda: [normal() + 1j * normal()],
        "complex128 of few values": lambda: [np.round(normal() + 1j * normal(), 1)],
        "S20": lambda: [rng.integers(33, 127, (n, 20), np.uint8).view("S20").ravel()],
        "U12": lambda: [rng.integers(48, 58, (n, 12), np.uint32).view("U12").ravel()],
        "two int32": lambda: [integers(32), integers(32)],
        "two int64": lambda: [integers(64), integers(64)],
        "three float64, the first two of few values": lambda: [np.round(normal(), 1), np.round(normal(), 1), normal()],
    }
    return makers[kind]()


def stable_argsort(keys: np.ndarray) -> np.ndarray:
    return np.argsort(keys, kind="stable")


#: Our functions and NumPy's, of keys of which the first is the most significant one.
WORKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sort": (dask_gpusort.sort, np.sort),
    "argsort": (dask_gpusort.argsort, stable_argsort),
    "lexsort": (lambda *keys: dask_gpusort.lexsort(keys[::-1]), lambda *keys: np.lexsort(keys[::-1])),
    "less": (partial(dask_gpusort.argsort, less=np.less), stable_argsort),
}


@contextmanager
def by_ours(work: str, kind: str, n: int, chunks: int = 1, threads: int = 1, computed: bool = True) -> Iterator[Any]:
    """One of our functions, on a number of threads. `computed`: the output is one array, else it stays in chunks."""
    keys = make(kind, n)
    found = WORKS[work][0](*(da.from_array(key, chunks=-(-n // chunks), name=False) for key in keys))
    with dask.config.set(scheduler="threads" if threads > 1 else "synchronous", num_workers=threads):
        yield found.compute if computed else found.persist, partial(check, work, keys)


@contextmanager
def by_numpy(work: str, kind: str, n: int) -> Iterator[Any]:
    keys = make(kind, n)
    yield lambda: WORKS[work][1](*keys), partial(check, work, keys)


def check(work: str, keys: list[np.ndarray], got: Any) -> None:
    if work == "sort":
        np.testing.assert_array_equal(np.asarray(got), np.sort(keys[0]))
    else:
        check_indices(keys, np.asarray(got))


def make_runs(kind: str, n: int, runs: int) -> list[np.ndarray]:
    """Make sorted runs of codes, all with the same length."""
    (keys,) = make(kind, n)
    blocks = np.split(keys, runs)
    return [numpy_ops.local_sort(block, (), Order(keys.dtype), positions=False).keys for block in blocks]


def check_merged(runs: list[np.ndarray], found: np.ndarray) -> None:
    np.testing.assert_array_equal(found, np.sort(np.concatenate(runs)))


@contextmanager
def our_merge(kind: str, n: int, runs: int) -> Iterator[Any]:
    """The merge of the runs of an exchange group."""
    order = Order(np.dtype(kind))
    arrays = make_runs(kind, n, runs)
    pieces = [numpy_ops.Run(array.copy()) for array in arrays]
    yield lambda: numpy_ops.merge(pieces, order), lambda found: check_merged(arrays, found.keys)


@contextmanager
def fresh_sort(kind: str, n: int, runs: int) -> Iterator[Any]:
    """Join the runs and sort them instead of a merge."""
    arrays = make_runs(kind, n, runs)
    yield lambda: np.sort(np.concatenate(arrays)), partial(check_merged, arrays)
