"""Keys in distributions that are hard to sort, the same for the same arguments, and a clock of this process."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

#: Number of runs; a rate is their median.
REPEATS = 3
#: Bytes of the array that is copied to measure the bandwidth, larger than the caches.
COPY_BYTES = 1 << 28
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
    return _cast(keys, np.dtype(dtype))


def _cast(keys: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind == "c":
        return (keys % 1000 + 1j * keys).astype(dtype)
    if dtype.kind in "iuf" or dtype.kind in "mM":
        return keys.astype(dtype)
    return np.char.mod("%x", keys).astype(dtype)


def module_of(backend: str) -> Any:
    """NumPy or CuPy. Without a GPU, CuPy raises `NotImplementedError`, so asv skips the benchmark."""
    if backend == "numpy":
        return np
    if not has_device():
        raise NotImplementedError("needs CuPy and a GPU")
    import cupy

    return cupy


def dask_keys(distribution: str, n: int, chunks: int, dtype: str = "i8", backend: str = "numpy") -> da.Array:
    """Keys in equal chunks, made lazily. Raises `NotImplementedError` if the backend lacks the dtype."""
    module = module_of(backend)
    if module is not np and np.dtype(dtype).kind not in "biufc":
        raise NotImplementedError(f"CuPy has no {dtype}")
    size = n // chunks
    numbers = da.arange(chunks, chunks=1)
    keys = numbers.map_blocks(
        _chunk_of, size, size * chunks, distribution, dtype, chunks=((size,) * chunks,), dtype=dtype
    )
    return keys if module is np else keys.map_blocks(module.asarray, dtype=dtype, meta=module.empty(0, dtype))


def _chunk_of(number: np.ndarray, *args: Any) -> np.ndarray:
    return make_chunk(int(number[0]) if number.size else 0, *args)


def held(*arrays: Any) -> Any:
    """Compute arrays on the threads of this process and keep their chunks in memory."""
    found = dask.persist(*arrays, scheduler="threads")
    return found[0] if len(arrays) == 1 else found


@functools.cache
def has_device() -> bool:
    """Whether CuPy is installed and finds a GPU."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # CuPy reports a missing driver or library in many ways
        return False


class DeviceClock:
    """Measures seconds since its creation by CUDA events on the default stream."""

    def __init__(self) -> None:
        self._seconds, self._last = 0.0, self._event()

    def _event(self) -> Any:
        import cupy

        event = cupy.cuda.Event()
        event.record()
        event.synchronize()  # include the work that was launched
        return event

    def __call__(self) -> float:
        import cupy

        now = self._event()
        # The device reports milliseconds as a 32-bit float, too coarse for a long time: sum from event to event.
        self._seconds += cupy.cuda.get_elapsed_time(self._last, now) / 1e3
        self._last = now
        return self._seconds


@functools.cache
def clock() -> Callable[[], float]:
    """The clock of this process."""
    return DeviceClock() if has_device() else time.perf_counter


def seconds() -> float:
    """The time in seconds, as asv calls its timer."""
    return clock()()


def seconds_of(work: Callable[[], Any]) -> float:
    """Median seconds of several runs, after one warm-up."""
    work()
    samples = []
    for _ in range(REPEATS):
        start = seconds()
        work()
        samples.append(seconds() - start)
    return statistics.median(samples)


@functools.cache
def copy_bandwidth(backend: str) -> float:
    """Bandwidth of a copy in bytes per second; reads and writes both count."""
    module: Any = __import__(backend)
    source = module.ones(COPY_BYTES // 8)
    target = module.empty_like(source)
    return 2 * source.nbytes / seconds_of(lambda: module.copyto(target, source))
