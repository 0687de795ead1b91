"""What work takes, whatever the machine and its load: bytes of NumPy's arrays, and calls of Python."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import dask
import dask.utils
from dask.callbacks import Callback


def peak_of(work: Callable[[], Any]) -> int:
    """Bytes at the peak of some work, in its second run: the first one may fill caches."""
    work()
    dask.utils.key_split.cache_clear()  # Dask's cache of names may take megabytes more when it grows
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def calls_of(work: Callable[[], Any]) -> int:
    """Calls of functions, those in C too, that some work makes in this thread."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


class Tasks(Callback):
    """Measure the most bytes that one task takes beside what is there before it."""

    most = before = 0

    def _pretask(self, key: Any, graph: Any, state: Any) -> None:
        tracemalloc.reset_peak()
        self.before = tracemalloc.get_traced_memory()[0]

    def _posttask(self, key: Any, value: Any, graph: Any, state: Any, worker: Any) -> None:
        if not str(key).startswith("finalize"):  # Dask concatenates the chunks of results
            self.note()

    def note(self) -> None:
        """Note the peak of the task up to now."""
        self.most = max(self.most, tracemalloc.get_traced_memory()[1] - self.before)


def peak_of_tasks(arrays: Any, tasks: Tasks | None = None) -> int:
    """Bytes of the task that takes most to compute some arrays, with its result and without its input."""
    tracemalloc.start()
    try:
        with tasks or Tasks() as tasks:
            dask.compute(arrays, scheduler="synchronous")
        return tasks.most
    finally:
        tracemalloc.stop()
