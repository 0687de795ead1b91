"""Sorts along one axis of two-dimensional arrays."""

from __future__ import annotations

from typing import Any

import dask_gpusort

from .base import _Sorting
from .data import BACKENDS, dask_keys, held

N = 1 << 22
CHUNKS = 16


class Rows(_Sorting):
    #: Elements of a row, and number of chunks that a row spans.
    params = ([N], ["f4", "i8"], [(1 << 6, 1), (1 << 10, 1), (1 << 10, 4)], [-1, 0], ["sort", "argsort"], BACKENDS)
    param_names = ("n", "dtype", "row", "axis", "function", "backend")
    small = 1 << 14

    def setup(self, n: int, dtype: str, row: tuple[int, int], axis: int, function: str, backend: str) -> None:
        length, parts = row
        x = dask_keys("uniform", n, CHUNKS, dtype, backend).reshape(n // length, length)
        x = x.rechunk((-(-n // length * parts // CHUNKS), length // parts))
        self.x = held(x if axis == -1 else x.T)

    def work(self, n: int, dtype: str, row: tuple[int, int], axis: int, function: str, backend: str) -> Any:
        return held(getattr(dask_gpusort, function)(self.x, axis=axis))
