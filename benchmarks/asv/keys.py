"""Sorts of keys alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import dask_gpusort
from dask_gpusort import keys as key_codes

from .base import _Sorting, _Uniform, _WithBandwidth, _WithMemory
from .clock import seconds
from .data import BACKENDS, DISTRIBUTIONS, dask_keys, held, make_chunk

N = 4_000_000


class Dtypes(_Uniform, _WithBandwidth):
    params = ([N], ["u1", "i2", "i4", "i8", "f4", "f8", "M8[ns]", "c16", "S16"], [1, 16], BACKENDS)

    def work(self, *_: Any) -> None:
        held(dask_gpusort.sort(self.x))


class Sizes(_Uniform):
    params = ([10_000, 1_000_000, 32_000_000], ["i4", "i8"], [1, 16], BACKENDS)

    def work(self, *_: Any) -> None:
        held(dask_gpusort.sort(self.x))


class Distributions(_Sorting, _WithMemory):
    params = ([N], ["i8", "f8"], list(DISTRIBUTIONS), [16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "chunks", "backend")

    def setup(self, n: int, dtype: str, distribution: str, chunks: int, backend: str) -> None:
        self.x = held(dask_keys(distribution, n, chunks, dtype, backend))

    def work(self, *_: Any) -> None:
        held(dask_gpusort.sort(self.x))


class Options(_Sorting):
    params = ([N], [{"descending": True}, {"stable": True}, {"method": "merge"}], [16], BACKENDS)
    param_names = ("n", "options", "chunks", "backend")

    def setup(self, n: int, options: dict[str, Any], chunks: int, backend: str) -> None:
        self.x = held(dask_keys("uniform", n, chunks, "f8", backend))

    def work(self, n: int, options: dict[str, Any], chunks: int, backend: str) -> None:
        held(dask_gpusort.sort(self.x, **options))


class Codes:
    """Codes of NumPy keys; on a device the kernels encode as they read."""

    timer = staticmethod(seconds)
    params = ([N], ["i8", "f4", "f8", "M8[ns]", "c8"])
    param_names = ("n", "dtype")

    def setup(self, n: int, dtype: str) -> None:
        self.keys = make_chunk(0, n, n, "uniform", dtype)
        self.codes = key_codes.encode(self.keys)

    def time_encode(self, n: int, dtype: str) -> None:
        key_codes.encode(self.keys)

    def time_decode(self, n: int, dtype: str) -> None:
        key_codes.decode(self.codes.copy(), np.dtype(dtype))
