"""Time and rates, by CUDA events if there is a device and by the wall clock otherwise."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

#: Number of runs; a rate is their median.
REPEATS = 3
#: Bytes of the array that is copied to measure the bandwidth, larger than the caches.
COPY_BYTES = 1 << 28


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
