"""One launch of a kernel, a block of launches whose kernels compile side by side, and words that are copied back."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .loader import COMPILERS, kernel, request, require_cupy

# So many compile kernels that may not be needed without delay for those that are.
PRESUMING_COMPILERS = 16


@functools.lru_cache(maxsize=None, typed=True)  # formatting a name takes as long as launching it
def instance(kernel: str, *arguments: str | int | bool) -> str:
    """Name a template instance as C++ writes it, such as ``"scan_tiles<256, 4>"``."""
    return f"{kernel}<{', '.join(str(a).lower() if isinstance(a, bool) else str(a) for a in arguments)}>"


def blocks_for(n: int, per_block: int) -> int:
    """Count the blocks for `n` elements, `per_block` each; the last block may have fewer. Rounds up."""
    return -(-n // per_block)


class _SideBySide(threading.local):
    """Compile the missing kernels of a block of launches side by side: ``with side_by_side: ...``."""

    # In such a block, the first launch whose kernel is missing waits, and so does all that follows it. The block goes
    # on, so the kernels of the launches that wait are compiled at the same time. They run, in order, at the end of the
    # block or before the host waits for a `Readback`.
    #
    # Other work for the device may not depend on launches of the block. Arrays among the arguments of a launch are kept
    # alive; memory that a launch is given by its address must outlive the block (see `keep`).

    def __init__(self) -> None:
        self.depth = 0  # blocks that the current thread is in
        self.waiting: list[Launch | Readback] = []
        self.presumes = False  # launches request their kernels, and do nothing else
        self.kept: list[Any] = []  # memory that outlives the block

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.depth -= 1
        if self.presumes:
            return
        if kind is not None:
            self.waiting.clear()
        try:
            self.run_waiting()
        finally:
            if not self.depth:
                self.kept.clear()

    def keep(self, memory: Any) -> None:
        """Keep memory alive until the block ends."""
        if self.depth:
            self.kept.append(memory)

    def presume(self, rest: Callable[[], object]) -> None:
        """Request the kernels of what probably follows a readback, if the host would wait for kernels before it."""
        if self.waiting and COMPILERS >= PRESUMING_COMPILERS and not self.presumes:
            self.presumes = True
            try:
                rest()
            finally:
                self.presumes = False

    def run_waiting(self) -> None:
        """Run what waits, as soon as its kernels are compiled."""
        if self.waiting:
            waiting, self.waiting = self.waiting, []
            for step in waiting:
                step.start()


side_by_side = _SideBySide()


def request_all(source: str, *kernels: str) -> None:
    """Start to compile kernels that later launches need, for the current device."""
    for name in kernels:
        request(source, name)


@dataclass(slots=True)
class Launch:
    """Describe a kernel, its grid and its arguments."""

    source: str  # file, by its path below ``kernels/``
    kernel: str  # as C++ writes it, template arguments included (`grid.instance`)
    blocks: int  # of the grid
    threads: int  # of each block
    #: Device arrays, addresses, NumPy scalars, or None for a null pointer; or a function that allocates and returns
    #: them when the kernel is launched, so that launches which wait take no memory.
    arguments: tuple[Any, ...] | Callable[[], tuple[Any, ...]]
    shared_bytes: int = 0  # dynamic shared memory, in bytes per block
    expression: str | None = None  # the user's comparison, which the source calls as ``UserLess``

    def run(self) -> None:
        """Launch the kernel on the current stream, or wait (see `side_by_side`); without blocks, do nothing."""
        if self.blocks <= 0:
            return
        if side_by_side.depth:
            is_compiled = request(self.source, self.kernel, self.expression)
            if side_by_side.presumes:
                return
            if side_by_side.waiting or not is_compiled:
                side_by_side.waiting.append(self)
                return
        self.start()

    def start(self) -> None:
        """Launch the kernel as soon as it is compiled."""
        function = kernel(self.source, self.kernel, self.shared_bytes, self.expression)
        function((self.blocks,), (self.threads,), self.made_arguments(), shared_mem=self.shared_bytes)

    def made_arguments(self) -> tuple[Any, ...]:
        """Give the arguments, which a function makes now if they are one."""
        return self.arguments() if callable(self.arguments) else self.arguments


class Readback:
    """Copy a few unsigned words to the host on the current stream; the host goes on until it calls `wait`."""

    _event: Any = None  # of a copy that may not have ended

    def __init__(self, words: Any):
        self._source = words
        if side_by_side.waiting:
            side_by_side.waiting.append(self)
        else:
            self.start()

    def start(self) -> None:
        """Queue the copy."""
        cupy, words = require_cupy(), self._source
        self._pinned = cupy.cuda.alloc_pinned_memory(words.nbytes)
        self._words = np.frombuffer(self._pinned, words.dtype, words.size)
        stream = cupy.cuda.get_current_stream()
        words.data.copy_to_host_async(ctypes.c_void_p(self._pinned.ptr), words.nbytes, stream)
        self._event = cupy.cuda.Event(disable_timing=True)
        self._event.record(stream)

    def wait(self) -> list[int]:
        """Wait for the copy and return the words."""
        side_by_side.run_waiting()
        self._synchronize()
        return [int(word) for word in self._words]

    def __del__(self) -> None:
        """Wait for a copy that an exception has left alone: CuPy gives its pinned memory to other copies."""
        self._synchronize()

    def _synchronize(self) -> None:
        if self._event is not None:
            self._event.synchronize()
            self._event = None
