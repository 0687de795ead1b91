"""Keys of many kinds, and our functions beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

import dask_gpusort

from ..harness.verify import check_indices


def make(kind: str, n: int) -> list[np.ndarray]:
    """Make the keys of one job, the most significant key first."""
    rng = np.random.default_rng(3)

    def normal() -> np.ndarray:
        return rng.standard_normal(n)

    def integers(bits: int) -> np.ndarray:
        return rng.integers(-(1 << bits - 1), (1 << bits - 1) - 1, n, dtype=f"i{bits // 8}")

    makers: dict[str, Callable[[], list[np.ndarray]]] = {
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


def chunked(keys: np.ndarray, chunks: int) -> da.Array:
    """A Dask array whose chunks are views of one array."""
    return da.from_array(keys, chunks=-(-len(keys) // chunks), name=False)


def check(work: str, keys: list[np.ndarray], found: np.ndarray) -> None:
    """Raise unless a result is NumPy's. Positions are checked without a sort."""
    if work != "sort":
        check_indices(keys, found)
    elif not np.array_equal(found, np.sort(keys[0])):
        raise AssertionError("the result is not the sorted keys")


def numpy_baseline(work: str, kind: str, n: int, chunks: int = 1) -> Any:
    """Case: one of our functions and NumPy's."""
    keys = make(kind, n)
    ours, theirs = WORKS[work]
    works = {"ours": ours(*(chunked(key, chunks) for key in keys)).compute, "NumPy": lambda: theirs(*keys)}
    return works, lambda found, _: check(work, keys, np.asarray(found))
