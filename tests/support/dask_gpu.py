"""Keys for Dask arrays of CuPy chunks."""

from __future__ import annotations

import numpy as np

#: Without dates, which CuPy does not support.
DTYPES = ["?", "i1", "u2", "i4", "u8", "i8", "f2", "f4", "f8", "c8"]


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
