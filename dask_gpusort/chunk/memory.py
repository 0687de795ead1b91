"""Memory of a device that threads share, and of the host, which goes back to the system."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..order import Order

#: Share of a device's memory that arrays may take together. The rest is for CUDA's context, the kernels' code and
#: tables, and blocks that the pool cannot reuse.
USABLE_FRACTION = 0.9
#: Copies of coded keys alone while they are sorted: the keys, their codes and the scratch memory of the sort.
KEY_COPIES = 3
#: Copies of keys with companions: as given, joined, and sorted, and two of digits that are sorted with positions.
ROW_COPIES = 5
#: Bytes of the permutation of each key, and of its scratch memory.
PERMUTATION_BYTES = 24
#: Bytes of the elements of groups that are gathered, or of their ranks, at a time: a cache of the host, or enough for a
#: GPU; an element counts as so many at least.
GATHERED_BYTES, GATHERED_WIDTH = {"numpy": 4 << 20, "cupy": 1 << 29}, 8
#: Bytes of runs whose memory is returned to the system when they are freed; for fewer it takes longer than it is worth.
RETURNED_BYTES = 64 << 20
#: Seconds until a thread looks again whether others than those who passed have freed memory.
LOOK_SECONDS = 0.05


def step_bytes(order: Order, rows: float, companion_bytes: int) -> float:
    """Count bytes of the device that the sort or the merge of some keys takes at its peak, input and output included.

    Companions include positions; `rows` is nan if unknown.
    """
    width = order.transit_dtype.itemsize
    # Complex keys that compare equal are put in order by their positions.
    by_positions = order.has_ties and order.dtype.kind == "c"
    if order.coded and not companion_bytes and not by_positions:
        return rows * width * (KEY_COPIES + order.has_ties)
    return rows * (ROW_COPIES * (width + companion_bytes) + PERMUTATION_BYTES)


class Gate:
    """Let threads pass while their shares of a memory are free, in the order in which they come."""

    # `used` tells what is in the memory now, of anybody. Threads inside may have taken none of their shares yet.

    def __init__(self, size: float = 1, used: Callable[[], float] = lambda: 0.0) -> None:
        self._size, self._used = size, used
        self._before = 0.0  # what was in use when nobody was inside
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._inside: list[float] = []

    @contextmanager
    def reserved(self, share: float) -> Iterator[None]:
        """Wait until a share of the memory is free, and hold it; a larger share passes alone."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                while self._waiting[0] is not ticket or not self._is_free(share):
                    self._changed.wait(LOOK_SECONDS)
                self._inside.append(share)
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(share)
                self._changed.notify_all()

    def _is_free(self, share: float) -> bool:
        if not self._inside:
            self._before = self._used()
            return True
        return max(self._before + sum(self._inside), self._used()) + share <= self._size


_gates: dict[int, Gate] = {}


def gate_of(device: int) -> Gate:
    """Give the gate of a device, the same one for all threads."""
    return _gates.setdefault(device, Gate())


def return_free_memory() -> None:
    """Return the freed memory of this process to the system, with the GNU C library; others do so by themselves."""
    # It keeps freed arrays of less than 32 MiB, into which the result of a large sort does not fit.
    trim = _malloc_trim()
    if trim is not None and not sys.is_finalizing():
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


class RunList:
    """Hold runs of some bytes, whose memory returns to the system with the list."""

    def __init__(self, runs: list[Any], nbytes: int):
        self.runs, self._nbytes = runs, nbytes

    def __del__(self) -> None:
        self.runs.clear()
        if self._nbytes >= RETURNED_BYTES:
            return_free_memory()
