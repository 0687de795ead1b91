"""Sorts of keys without values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dask_gpusort import keys as key_codes

from .base import _Sorting, _WithBandwidth, _WithMemory
from .clock import seconds
from .data import BACKENDS, DISTRIBUTIONS, held, make_chunk

N = 4_000_000


class Dtypes(_Sorting, _WithBandwidth):
    params = ([N], ["u1", "i2", "i4", "i8", "f4", "f8", "M8[ns]", "c16", "S16"], [1, 16], BACKENDS)


class Sizes(_Sorting):
    params = ([10_000, 1_000_000, 32_000_000], ["i4", "i8"], [1, 16], BACKENDS)


class Distributions(_Sorting, _WithMemory):
    params = ([N], ["i8", "f8"], list(DISTRIBUTIONS), [16], BACKENDS)
    param_names = ("n", "dtype", "distribution", "chunks", "backend")


class Options(_Sorting):
    params = ([N], [{"descending": True}, {"stable": True}, {"method": "merge"}], [16], BACKENDS)
    param_names = ("n", "options", "chunks", "backend")
    dtype = "f8"

    def work(self, n: int, options: dict[str, Any], *_: Any) -> None:
        held(self.function(self.x, **options))


class Codes:
    """Encoding of NumPy keys. On a device, the kernels encode keys when they read them."""

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
