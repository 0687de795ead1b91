"""Sorts in which something travels with the keys: argsort and sort_by_key."""

from __future__ import annotations

import dask
import dask.array as da

import dask_gpusort

from .data import dask_keys

N = 2_000_000


class Argsort:
    params = ([N], ["i4", "i8", "f8"], ["uniform", "zipf", "sorted"], [1, 16])
    param_names = ("n", "dtype", "distribution", "chunks")

    def setup(self, n: int, dtype: str, distribution: str, chunks: int) -> None:
        self.x = dask_keys(distribution, n, chunks, dtype).persist(scheduler="threads")

    def time_argsort(self, n: int, dtype: str, distribution: str, chunks: int) -> None:
        dask_gpusort.argsort(self.x).compute(scheduler="threads")

    def peakmem_argsort(self, n: int, dtype: str, distribution: str, chunks: int) -> None:
        dask_gpusort.argsort(self.x).compute(scheduler="threads")


class Companions:
    params = ([N], ["i4", "i8"], [0, 4], [16])
    param_names = ("n", "dtype", "columns", "chunks")

    def setup(self, n: int, dtype: str, columns: int, chunks: int) -> None:
        keys = dask_keys("uniform", n, chunks, dtype)
        shape = (keys.size, columns) if columns else keys.shape
        values = da.ones(shape, chunks=(keys.chunks[0], *shape[1:]), dtype="f4")
        self.keys, self.values = dask.persist(keys, values, scheduler="threads")

    def time_sort_by_key(self, n: int, dtype: str, columns: int, chunks: int) -> None:
        dask.compute(*dask_gpusort.sort_by_key(self.keys, self.values), scheduler="threads")
