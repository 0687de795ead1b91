"""The functions of `dask_gpusort.kernels` that the benchmarks call, by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dask_gpusort.keys import encode as encode


def into(out: Any, found: np.ndarray) -> np.ndarray:
    if out is not None:
        out[...] = found
    return found


def by(function: Any, keys: Any, *, out: Any = None, descending: bool = False, **_: Any) -> np.ndarray:
    return into(out, function(keys)[:: -1 if descending else 1])


sort_keys = sort_wide = sort_rows = sort_by_comparison = partial(by, np.sort)
argsort = argsort_by_comparison = partial(by, partial(np.argsort, kind="stable"))


def sort_pairs(keys: np.ndarray, values: np.ndarray, *, keys_out: Any = None, values_out: Any = None) -> Any:
    order = argsort(keys)
    return into(keys_out, keys[order]), into(values_out, values[order])


def merge_runs(runs: Sequence[np.ndarray], companions: Sequence[Sequence[np.ndarray]] = ()) -> Any:
    order = argsort(keys := np.concatenate(runs))
    return keys[order], tuple(np.concatenate(one)[order] for one in companions)
