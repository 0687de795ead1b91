"""What a sorted order gives: ranks, distinct values, searches, elements at positions, order statistics."""

from __future__ import annotations

from typing import Any

import dask

import dask_gpusort

from .base import _Sorting, _WithMemory
from .data import BACKENDS, dask_keys, held

N = 2_000_000


class Rank(_Sorting, _WithMemory):
    params = ([N], ["i4", "f8"], ["uniform", "zipf"], ["average", "ordinal"], [1, 16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "method", "chunks", "backend")

    def work(self, n: int, dtype: str, distribution: str, method: str, *_: Any) -> None:
        held(dask_gpusort.rank(self.x, method=method))


class Unique(_Sorting, _WithMemory):
    params = ([N], ["i4", "f8"], ["uniform", "zipf"], [False, True], [1, 16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "inverse", "chunks", "backend")

    def work(self, n: int, dtype: str, distribution: str, inverse: bool, *_: Any) -> None:
        found = dask_gpusort.unique(self.x, return_inverse=inverse)
        held(*(found if inverse else (found,)))


class Searchsorted(_Sorting):
    """As many needles as keys, in all keys at once, or group by group."""

    params = ([N], ["i8", "f8"], [None, 4], [16], BACKENDS)
    param_names = ("n", "dtype", "groups", "chunks", "backend")

    def setup(self, n: int, dtype: str, groups: int | None, chunks: int, backend: str) -> None:
        super().setup(n, dtype, groups, chunks, backend)
        self.keys = held(dask_gpusort.sort(self.x))

    def work(self, n: int, dtype: str, groups: int | None, *_: Any) -> None:
        with dask.config.set({"gpusort.groups": groups}):
            found = dask_gpusort.searchsorted(self.keys, self.x)
        held(found)


class TakeAlongAxis(_Sorting):
    """A permutation: all chunks joined, or exchanged."""

    params = ([N], ["gather", "tasks"], [16], BACKENDS)
    param_names = ("n", "exchange", "chunks", "backend")

    def setup(self, *parameters: Any) -> None:
        super().setup(*parameters)
        self.positions = held(dask_gpusort.argsort(self.x))

    def work(self, n: int, exchange: str, *_: Any) -> None:
        with dask.config.set({"gpusort.exchange": exchange}):
            found = dask_gpusort.take_along_axis(self.x, self.positions)
        held(found)


class Quantile(_Sorting, _WithMemory):
    """Quantiles of one long lane."""

    params = ([N], ["i4", "f8"], ["uniform", "mostly equal"], [1, 5], [16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "quantiles", "chunks", "backend")

    def work(self, n: int, dtype: str, distribution: str, quantiles: int, *_: Any) -> None:
        held(dask_gpusort.quantile(self.x, [(1 + number) / (1 + quantiles) for number in range(quantiles)]))


class Median(_Sorting):
    """Medians of many lanes, whole in a chunk or in several ones."""

    params = ([N], ["f4", "f8"], [0, 1], BACKENDS)
    param_names = ("n", "dtype", "axis", "backend")

    def setup(self, n: int, dtype: str, axis: int, backend: str) -> None:
        keys = dask_keys("uniform", n, 16, dtype, backend)
        self.x = held(keys.reshape(-1, 64))

    def work(self, n: int, dtype: str, axis: int, backend: str) -> None:
        held(dask_gpusort.median(self.x, axis=axis))
