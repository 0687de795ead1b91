"""What work takes, whatever the machine and its load: bytes of NumPy's arrays, and calls of Python."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import dask.utils


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
