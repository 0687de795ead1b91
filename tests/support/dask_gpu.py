"""Dask arrays of CuPy chunks: keys, arrays, and the comparison with NumPy."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np

#: Without dates, which CuPy does not support.
DTYPES = ["?", "i1", "u2", "i4", "u8", "i8", "f2", "f4", "f8", "c8"]

_DELAY = r"""
extern "C" __global__ void delay(long long ticks) {
    long long start = clock64();
    while (clock64() - start < ticks) {}
}
"""


def sample(dtype, n, seed=0):
    """Few distinct keys; for floats and complex numbers also NaN and negative zeros."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        parts = rng.integers(-9, 9, (2, n)).astype("f4")
        parts[:, rng.integers(0, n, n // 8)] = np.nan
        parts[0, rng.integers(0, n, n // 8)] = -0.0
        return (parts[0] + 1j * parts[1]).astype(dtype)
    keys = rng.integers(-60, 60, n).astype("i8").astype(dtype)
    if dtype.kind == "f":
        keys[rng.integers(0, n, n // 8)] = -0.0
        keys[rng.integers(0, n, n // 8)] = np.nan
        keys[rng.integers(0, n, n // 16)] = -np.nan
    return keys


def on_device(host: Any, chunks: Any) -> Any:
    """The array as CuPy chunks."""
    import cupy

    return da.from_array(cupy.asarray(host), chunks=chunks, asarray=False)


def delay(ticks: int) -> None:
    """Keep the current stream busy for some cycles of its clock, so that work that does not wait for it shows."""
    import cupy

    cupy.RawKernel(_DELAY, "delay")((1,), (1,), (np.int64(ticks),))


def check(found: Any, expected: Any) -> None:
    """The results, one or several, have the dtypes and values of NumPy's, and are CuPy arrays."""
    import cupy

    found, expected = (one if isinstance(one, tuple) else (one,) for one in (found, expected))
    for darr, got, wanted in zip(found, dask.compute(*found), expected, strict=True):
        assert isinstance(darr._meta, cupy.ndarray)
        assert isinstance(got, cupy.ndarray)
        assert got.dtype == darr.dtype == wanted.dtype
        np.testing.assert_array_equal(cupy.asnumpy(got), wanted)
