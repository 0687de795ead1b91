"""Sorts of keys with positions or values: argsort, sort_by_key, lexsort."""

from __future__ import annotations

from typing import Any

import dask.array as da

import dask_gpusort

from .base import _Sorting, _WithMemory
from .data import BACKENDS, held, module_of

N = 2_000_000


class Argsort(_Sorting, _WithMemory):
    params = ([N], ["i4", "i8", "f8"], ["uniform", "zipf", "sorted"], [1, 16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "chunks", "backend")
    function = staticmethod(dask_gpusort.argsort)


class Companions(_Sorting):
    params = ([N], ["i4", "i8"], [0, 4], [16], BACKENDS)
    param_names = ("n", "dtype", "columns", "chunks", "backend")

    def setup(self, n: int, dtype: str, columns: int, chunks: int, backend: str) -> None:
        super().setup(n, dtype, columns, chunks, backend)
        shape = (self.x.size, columns) if columns else self.x.shape
        like = module_of(backend).empty(0, "f4")
        self.values = held(da.ones_like(like, shape=shape, chunks=(self.x.chunks[0], *shape[1:])))

    def work(self, *_: Any) -> None:
        held(*dask_gpusort.sort_by_key(self.x, self.values))


class Several(_Sorting):
    params = ([N], ["i4", "i8"], [16], BACKENDS)

    def setup(self, *parameters: Any) -> None:
        super().setup(*parameters)
        self.ties = held(self.x % 16)

    def work(self, *_: Any) -> None:
        held(dask_gpusort.lexsort((self.x, self.ties)))
