"""Sorts of keys alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import dask_gpusort
from dask_gpusort import keys as key_codes

from .data import DISTRIBUTIONS, dask_keys, make_chunk

N = 4_000_000


class Dtypes:
    params = ([N], ["u1", "i2", "i4", "i8", "f4", "f8", "M8[ns]", "c16", "S16"], [1, 16])
    param_names = ("n", "dtype", "chunks")

    def setup(self, n: int, dtype: str, chunks: int) -> None:
        self.x = dask_keys("uniform", n, chunks, dtype).persist(scheduler="threads")

    def time_sort(self, n: int, dtype: str, chunks: int) -> None:
        dask_gpusort.sort(self.x).compute(scheduler="threads")


class Distributions:
    params = ([N], ["i8", "f8"], list(DISTRIBUTIONS), [16])
    param_names = ("n", "dtype", "distribution", "chunks")

    def setup(self, n: int, dtype: str, distribution: str, chunks: int) -> None:
        self.x = dask_keys(distribution, n, chunks, dtype).persist(scheduler="threads")

    def time_sort(self, n: int, dtype: str, distribution: str, chunks: int) -> None:
        dask_gpusort.sort(self.x).compute(scheduler="threads")

    def peakmem_sort(self, n: int, dtype: str, distribution: str, chunks: int) -> None:
        dask_gpusort.sort(self.x).compute(scheduler="threads")


class Options:
    params = ([N], [{"descending": True}, {"stable": True}, {"method": "merge"}], [16])
    param_names = ("n", "options", "chunks")

    def setup(self, n: int, options: dict[str, Any], chunks: int) -> None:
        self.x = dask_keys("uniform", n, chunks, "f8").persist(scheduler="threads")

    def time_sort(self, n: int, options: dict[str, Any], chunks: int) -> None:
        dask_gpusort.sort(self.x, **options).compute(scheduler="threads")


class Codes:
    params = ([N], ["i8", "f4", "f8", "M8[ns]", "c8"])
    param_names = ("n", "dtype")

    def setup(self, n: int, dtype: str) -> None:
        self.keys = make_chunk(0, n, n, "uniform", dtype)
        self.codes = key_codes.encode(self.keys)

    def time_encode(self, n: int, dtype: str) -> None:
        key_codes.encode(self.keys)

    def time_decode(self, n: int, dtype: str) -> None:
        key_codes.decode(self.codes.copy(), np.dtype(dtype))
