"""One launch of a kernel, and words that are copied back from the device."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from .loader import kernel, require_cupy


@dataclass(slots=True)
class Launch:
    """A kernel, its grid and its arguments.

    Attributes
    ----------
    source : str
        File, by its path below ``kernels/``.
    kernel : str
        The kernel as C++ writes it, template arguments included (`grid.instance`).
    blocks, threads : int
        Blocks of the grid, and threads of each block.
    arguments : tuple
        Device arrays, addresses, NumPy scalars, or None for a null pointer.
    shared_bytes : int
        Dynamic shared memory, in bytes per block.
    cooperative : bool
        Whether all blocks run at the same time, so that they may wait for each other.
    expression : str, optional
        The user's comparison, which the source calls as ``UserLess``.
    """

    source: str
    kernel: str
    blocks: int
    threads: int
    arguments: tuple[Any, ...]
    shared_bytes: int = 0
    cooperative: bool = False
    expression: str | None = None

    def run(self) -> None:
        """Launch the kernel on the current stream; without blocks, do nothing."""
        if self.blocks > 0:
            function = kernel(self.source, self.kernel, self.shared_bytes, self.cooperative, self.expression)
            function((self.blocks,), (self.threads,), self.arguments, shared_mem=self.shared_bytes)


class Readback:
    """A copy of some words to the host, queued on the current stream; the host goes on until it calls `wait`.

    Parameters
    ----------
    words : cupy.ndarray
        Few unsigned words.
    """

    def __init__(self, words: Any):
        cupy = require_cupy()
        self._pinned = cupy.cuda.alloc_pinned_memory(words.nbytes)
        self._words = np.frombuffer(self._pinned, words.dtype, words.size)
        stream = cupy.cuda.get_current_stream()
        words.data.copy_to_host_async(ctypes.c_void_p(self._pinned.ptr), words.nbytes, stream)
        self._event = cupy.cuda.Event(disable_timing=True)
        self._event.record(stream)

    def wait(self) -> list[int]:
        """Wait for the copy and return the words."""
        self._event.synchronize()
        return [int(word) for word in self._words]
