"""Jobs (`harness.jobs`) of the steps on one chunk and one thread: ours and NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import dask_gpusort
from dask_gpusort.chunk import numpy_ops
from dask_gpusort.order import Order

from ..harness.verify import check_indices

#: Random keys over the whole range of a dtype; and int64 of values below 2**32, as counters and times often are.
KINDS = {"int32": ("i4", 31), "int64": ("i8", 63), "int64 below 2**32": ("i8", 32)}


def make_keys(kind: str, n: int) -> np.ndarray:
    dtype, bits = KINDS[kind]
    low = 0 if kind.endswith("2**32") else -(1 << bits)
    return np.random.default_rng(3).integers(low, (1 << bits) - 1, n, dtype=dtype)


@contextmanager
def our_argsort(kind: str, n: int) -> Iterator[Any]:
    """Ours, through the public function."""
    keys = make_keys(kind, n)
    y = dask_gpusort.argsort(da.from_array(keys, chunks=-1), stable=True)
    yield lambda: y.compute(scheduler="synchronous"), lambda found: check_indices([keys], found)


@contextmanager
def numpy_argsort(kind: str, n: int) -> Iterator[Any]:
    keys = make_keys(kind, n)
    yield lambda: np.argsort(keys, kind="stable"), lambda found: check_indices([keys], found)


def make_runs(kind: str, n: int, runs: int) -> list[np.ndarray]:
    """Sorted codes in equal runs."""
    order = Order(np.dtype(KINDS[kind][0]))
    blocks = np.split(make_keys(kind, n), runs)
    return [numpy_ops.local_sort(block, (), order, positions=False).keys for block in blocks]


def check_merged(runs: list[np.ndarray], found: np.ndarray) -> None:
    np.testing.assert_array_equal(found, np.sort(np.concatenate(runs)))


@contextmanager
def our_merge(kind: str, n: int, runs: int) -> Iterator[Any]:
    """The merge that finishes a group."""
    order = Order(np.dtype(KINDS[kind][0]))
    arrays = make_runs(kind, n, runs)
    pieces = [numpy_ops.Run(array.copy()) for array in arrays]
    yield lambda: numpy_ops.merge(pieces, order), lambda found: check_merged(arrays, found.keys)


@contextmanager
def fresh_sort(kind: str, n: int, runs: int) -> Iterator[Any]:
    """Without a merge: join the runs and sort."""
    arrays = make_runs(kind, n, runs)
    yield lambda: np.sort(np.concatenate(arrays)), partial(check_merged, arrays)
