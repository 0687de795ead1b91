"""Sorts along one axis of arrays of two dimensions."""

from __future__ import annotations

import dask_gpusort

from .data import dask_keys

N = 1 << 22
CHUNKS = 16


class Rows:
    #: Elements in a row, and in how many chunks each row lies.
    params = ([N], ["f4", "i8"], [(1 << 6, 1), (1 << 10, 1), (1 << 10, 4)], [-1, 0])
    param_names = ("n", "dtype", "row", "axis")
    small = 1 << 14

    def setup(self, n: int, dtype: str, row: tuple[int, int], axis: int) -> None:
        length, parts = row
        x = dask_keys("uniform", n, CHUNKS, dtype).reshape(n // length, length)
        x = x.rechunk((-(-n // length * parts // CHUNKS), length // parts))
        self.x = (x if axis == -1 else x.T).persist(scheduler="threads")

    def time_sort(self, n: int, dtype: str, row: tuple[int, int], axis: int) -> None:
        dask_gpusort.sort(self.x, axis=axis).compute(scheduler="threads")

    def time_argsort(self, n: int, dtype: str, row: tuple[int, int], axis: int) -> None:
        dask_gpusort.argsort(self.x, axis=axis).compute(scheduler="threads")
