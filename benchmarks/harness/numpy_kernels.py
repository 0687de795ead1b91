"""The functions of `dask_gpusort.kernels` that the benchmarks call, by NumPy: to try a command without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dask_gpusort.keys import encode

__all__ = [
    "argsort",
    "argsort_by_comparison",
    "encode",
    "lexsort",
    "merge_runs",
    "sort_by_comparison",
    "sort_keys",
    "sort_pairs",
    "sort_rows",
    "sort_wide",
]


def into(out: Any, found: np.ndarray) -> np.ndarray:
    if out is not None:
        out[...] = found
    return found


def sort_keys(keys: np.ndarray, *, out: Any = None) -> np.ndarray:
    return into(out, np.sort(keys))


def argsort(keys: np.ndarray, *, out: Any = None) -> np.ndarray:
    return into(out, np.argsort(keys, kind="stable"))


def lexsort(keys: Sequence[np.ndarray], *, out: Any = None) -> np.ndarray:
    return into(out, np.lexsort(keys))


def sort_by_comparison(keys: np.ndarray, *, out: Any = None, descending: bool = False, **_: Any) -> np.ndarray:
    return into(out, np.sort(keys)[:: -1 if descending else 1])


def sort_pairs(keys: np.ndarray, values: np.ndarray, *, keys_out: Any = None, values_out: Any = None) -> Any:
    order = argsort(keys)
    return into(keys_out, keys[order]), into(values_out, values[order])


def merge_runs(runs: Sequence[np.ndarray], companions: Sequence[Sequence[np.ndarray]] = ()) -> Any:
    keys = np.concatenate(runs)
    order = argsort(keys)
    return keys[order], tuple(np.concatenate(one)[order] for one in companions)


sort_rows = sort_wide = sort_keys
argsort_by_comparison = argsort
