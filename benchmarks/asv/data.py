"""Keys in distributions that are hard to sort, the same for the same arguments."""

from __future__ import annotations

import functools
from typing import Any

import dask
import dask.array as da
import numpy as np

#: Exponent of the Zipf distribution. More than a third of the keys equal the most frequent one.
ZIPF = 1.5

BACKENDS = ["numpy", "cupy"]
DISTRIBUTIONS = ("uniform", "zipf", "mostly equal", "equal", "sorted", "reversed")


def make_chunk(number: int, n: int, total: int, distribution: str, dtype: str) -> np.ndarray:
    """Keys of one chunk. It starts at key ``number * n`` of `total` keys.

    In "mostly equal", 90 % of the keys are equal. The dtype is complex, ``S<length>``, or a target for integers.
    """
    rng = np.random.default_rng([1, number])
    if distribution == "uniform":
        keys = rng.integers(0, np.iinfo(np.int64).max, n)
    elif distribution == "zipf":
        keys = np.minimum(rng.random(n) ** (-1 / (ZIPF - 1)), 2.0**62).astype(np.int64)
    elif distribution == "mostly equal":
        keys = np.where(rng.random(n) < 0.9, 42, rng.integers(0, np.iinfo(np.int64).max, n))
    elif distribution == "equal":
        keys = np.full(n, 42)
    else:
        keys = number * n + np.arange(n)
        if distribution == "reversed":
            keys = total - 1 - keys
    if np.dtype(dtype).kind == "c":
        return (keys % 1000 + 1j * keys).astype(dtype)
    return (np.char.mod("%x", keys) if np.dtype(dtype).kind == "S" else keys).astype(dtype)


def _chunk_of(number: np.ndarray, *args: Any) -> np.ndarray:
    return make_chunk(int(number[0]) if number.size else 0, *args)


def dask_keys(distribution: str, n: int, chunks: int, dtype: str = "i8", backend: str = "numpy") -> da.Array:
    """Keys in equal chunks, made lazily. Raises `NotImplementedError`, so that asv skips what CuPy cannot do here."""
    size, numbers = n // chunks, da.arange(chunks, chunks=1)
    args = size, size * chunks, distribution, dtype
    keys = numbers.map_blocks(_chunk_of, *args, chunks=((size,) * chunks,), dtype=dtype)
    if backend == "numpy":
        return keys
    if not has_device() or np.dtype(dtype).kind not in "biufc":
        raise NotImplementedError(f"needs a GPU, and a dtype of CuPy, not {dtype}")
    import cupy

    return keys.map_blocks(cupy.asarray, dtype=dtype, meta=cupy.empty(0, dtype))


def held(*arrays: Any) -> Any:
    """Compute arrays on the threads of this process, to the end of what they launch, and keep their chunks."""
    found = dask.persist(*arrays, scheduler="threads")
    if has_device():
        import cupy

        cupy.cuda.Device().synchronize()
    return found[0] if len(arrays) == 1 else found


@functools.cache
def has_device() -> bool:
    """Whether CuPy is installed and finds a GPU."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # CuPy reports a missing driver or library in many ways
        return False
