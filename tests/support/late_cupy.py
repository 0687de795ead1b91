"""Replaces CuPy's arrays, streams and events: every copy on a stream runs as late as CUDA allows.

A stream keeps its work until the host waits for it, or for an event recorded after it. So a pinned buffer that is
overwritten too early, a result that is read too early, and a stream that does not wait for another give wrong bytes.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

#: Byte that fills memory of the device before the work that is queued on the current stream ends, and freed pinned
#: buffers.
POISON = 0xAB


def _nothing() -> None:
    """Work that is done; it keeps no memory alive."""


class OutOfMemoryError(MemoryError):
    """As `cupy.cuda.memory.OutOfMemoryError`."""


class LateStream:
    """A queue of work in order. Work of any thread runs under one lock."""

    lock = threading.RLock()

    def __init__(self, non_blocking: bool = True) -> None:
        self.queue: list[Callable[[], None]] = []
        self.done = 0

    def add(self, work: Callable[[], None]) -> None:
        with self.lock:
            self.queue.append(work)

    def run(self, count: int | None = None) -> None:
        """Run the first pieces of work, or all of them."""
        with self.lock:
            while self.done < (len(self.queue) if count is None else count):
                work, self.queue[self.done] = self.queue[self.done], _nothing
                self.done += 1
                work()

    synchronize = run

    def wait_event(self, event: LateEvent) -> None:
        self.add(event.synchronize)


class LateEvent:
    """A point in a stream. Waiting for an event that was never recorded takes no time, as in CUDA."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.recorded: tuple[LateStream, int] | None = None

    def record(self, stream: LateStream) -> None:
        self.recorded = stream, len(stream.queue)

    def synchronize(self) -> None:
        if self.recorded is not None:
            stream, count = self.recorded
            stream.run(count)


class LateArray(np.ndarray):
    """An array of the device, in host memory."""

    stream: LateStream

    def set(self, source: np.ndarray, stream: LateStream | None = None) -> None:
        """Copy from the host: pageable memory on the current stream is read at once, pinned memory late."""
        assert (self.dtype, self.shape) == (source.dtype, source.shape)
        taken = source.copy() if stream is None else source
        target = self.view(np.ndarray)
        (stream or self.stream).add(lambda: np.copyto(target, taken))

    def get(self, stream: LateStream | None = None, out: np.ndarray | None = None, blocking: bool = True) -> np.ndarray:
        """Copy to the host."""
        stream = stream or self.stream
        target = np.empty(self.shape, self.dtype) if out is None else out
        assert (self.dtype, self.shape) == (target.dtype, target.shape)
        source = self.view(np.ndarray)
        stream.add(lambda: np.copyto(target, source))
        if blocking:
            stream.run()
        return target


class LateCupy:
    """Replaces the module CuPy where it copies arrays.

    Attributes
    ----------
    current : LateStream
        The current stream, which all threads share.
    pinned : int
        Number of pinned buffers in use.
    memory : int
        Bytes of the device; an array that does not fit raises CuPy's error.
    used, peak : int
        Bytes of all arrays that `empty` allocated, now and at most.
    emptied : int
        How often the pool was emptied.
    """

    def __init__(self) -> None:
        self.current = LateStream()
        self.pinned = 0
        self.memory = 1 << 40
        self.used = self.peak = self.emptied = 0
        self._free: list[np.ndarray] = []
        self._lock = threading.Lock()
        self.ndarray = type("LateArray", (LateArray,), {"stream": self.current})
        self.cuda = SimpleNamespace(
            Stream=LateStream,
            Event=LateEvent,
            alloc_pinned_memory=self.alloc_pinned_memory,
            get_current_stream=lambda: self.current,
            runtime=SimpleNamespace(getDevice=lambda: 0, memGetInfo=lambda: (0, 1 << 40)),
        )

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Any:
        """Allocate memory that queued work on the current stream still writes."""
        memory = np.zeros(shape, dtype)
        self._change_used(memory.nbytes)
        weakref.finalize(memory, self._change_used, -memory.nbytes)
        self.current.add(lambda: memory.reshape(-1).view(np.uint8).fill(POISON))
        return memory.view(self.ndarray)

    def _change_used(self, nbytes: int) -> None:
        with self._lock:
            if self.used + nbytes > self.memory:
                raise OutOfMemoryError(nbytes, self.used, self.memory)
            self.used += nbytes
            self.peak = max(self.peak, self.used)

    def get_default_memory_pool(self) -> Any:
        """The pool, which has no blocks that it could free."""
        return SimpleNamespace(get_limit=lambda: self.memory, free_all_blocks=self._empty_pool)

    def _empty_pool(self) -> None:
        self.emptied += 1

    def ascontiguousarray(self, array: Any) -> Any:
        """Copy strided memory on the current stream."""
        if array.flags.c_contiguous:
            return array.view(self.ndarray)
        source, result = array.view(np.ndarray), self.empty(array.shape, array.dtype)
        target = result.view(np.ndarray)
        self.current.add(lambda: np.copyto(target, source))
        return result

    def on_device(self, host: np.ndarray) -> Any:
        """An array of the same strides that queued work on the current stream still makes."""
        memory = np.zeros_like(host, order="K")
        self.current.add(lambda: np.copyto(memory, host))
        return memory.view(self.ndarray)

    def alloc_pinned_memory(self, size: int) -> Any:
        """Take a pinned buffer from the pool; it returns, poisoned, when its last reference ends."""
        with self._lock:
            self.pinned += 1
            memory = self._free.pop() if self._free else np.empty(size, np.uint8)
        pinned = (ctypes.c_uint8 * size).from_buffer(memory)
        weakref.finalize(pinned, self.release, memory)
        return pinned

    def release(self, memory: np.ndarray) -> None:
        memory.fill(POISON)
        with self._lock:
            self.pinned -= 1
            self._free.append(memory)
