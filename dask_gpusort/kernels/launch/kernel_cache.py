"""Compiled kernels by their keys: each is compiled once, on the threads of one pool."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Kernel = TypeVar("Kernel")

# No call has more kernels, and a compiler takes some hundred MB of host memory while it runs.
MOST_COMPILERS = 16


# NVRTC runs on all of them at a time. They start when there is something to compile.
_compilers = ThreadPoolExecutor(min(MOST_COMPILERS, os.cpu_count() or 1), "gpusort-compiler")


class KernelCache(Generic[Key, Kernel]):
    """Compile kernels when they are first asked for, on a thread of the pool, and keep `most` of them, the newest."""

    def __init__(self, compile: Callable[[Key], Kernel], most: int | None = None) -> None:
        self._compile = compile
        self._most = most
        self._compiled: dict[Key, Kernel] = {}  # read without the lock
        self._compiling: dict[Key, Future[Kernel]] = {}
        self._lock = threading.Lock()

    def request(self, key: Key) -> bool:
        """Start to compile a kernel unless it is compiled; whether it is."""
        if key in self._compiled:
            return True
        self._start(key)
        return False

    def get(self, key: Key) -> Kernel:
        """Return a compiled kernel; wait for it if it is missing.

        An error of the compiler is raised, and the next call compiles again.
        """
        found = self._compiled.get(key)
        return self._start(key).result() if found is None else found

    def _start(self, key: Key) -> Future[Kernel]:
        with self._lock:
            future = self._compiling.get(key)
            if future is None:
                future = self._compiling[key] = _compilers.submit(self._run, key)
            return future

    def _run(self, key: Key) -> Kernel:
        try:
            found = self._compiled.get(key)  # another thread may have started, and finished, before the lock was taken
            if found is None:
                found = self._compile(key)
                self._keep(key, found)
            return found
        finally:
            with self._lock:
                del self._compiling[key]

    def _keep(self, key: Key, compiled: Kernel) -> None:
        with self._lock:
            self._compiled[key] = compiled
            if self._most is not None and len(self._compiled) > self._most:
                del self._compiled[next(iter(self._compiled))]
