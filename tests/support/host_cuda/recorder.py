"""Records the template instances that the package launches, without running them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dask_gpusort.kernels.launch.launch import Launch

from .device import GPUS, HostArray, HostCupy, KernelFault, Limits, stand_in

#: Most counters that a sort reads back: the number of overfull buckets, then the number of buckets and the plan of one
#: level of the recursive partition.
MOST_READS = 3
#: Flags that a sample can yield (see `dask_gpusort.kernels.buckets.splitters.MapFlags`).
MAP_FLAGS = [
    *((0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (1, 1, 0, 0, 0)),
    *((1, 0, 0, 1, 0), (0, 0, 1, 0, 0), (0, 0, 0, 0, 1)),
]
#: The same on all GPUs.
MOST_THREADS, MOST_BLOCKS = 1024, (1 << 31) - 1


class RecordedArray(HostArray):
    """Memory that is never touched. The recorder chooses the values that are read back."""

    recorder: Recorder

    def get(self) -> np.ndarray:
        """The chosen flags for a sample; for other arrays, ones for the first `reads_of_ones` reads, then zeros."""
        if self.shape == (len(self.recorder.map_flags),) and self.dtype == np.uint32:
            self.recorder.has_read_flags = True
            return np.array(self.recorder.map_flags, np.uint32)
        self.recorder.reads_of_ones -= 1
        return np.full(self.shape, int(self.recorder.reads_of_ones >= 0), self.dtype)


@dataclass
class Launched:
    """The launches of one kernel: threads of a block, and the most dynamic shared memory (bytes) of a block."""

    threads: int = 0
    shared_bytes: int = 0

    def add(self, launch: Launch) -> None:
        """Add a launch."""
        self.threads = max(self.threads, launch.threads)
        self.shared_bytes = max(self.shared_bytes, launch.shared_bytes)


class Recorder:
    """Replaces CuPy and the kernel loader. Every launch is checked against the limits of a GPU.

    Attributes
    ----------
    limits : Limits
    instances : dict of (str, str) to Launched
        Launches of every kernel by its source file and its C++ name, in order.
    expressions : dict of (str, str, str) to None
        Expression, source file and C++ name of every kernel that was launched with an expression.
    """

    def __init__(self, limits: Limits = GPUS[90]) -> None:
        self.limits = limits
        self.instances: dict[tuple[str, str], Launched] = {}
        self.expressions: dict[tuple[str, str, str], None] = {}
        self.reads_of_ones = 0
        self.has_read_flags = False
        self.map_flags = MAP_FLAGS[0]
        self.cupy = HostCupy(self.empty, limits)
        self.cupy.ndarray = type("Array", (RecordedArray,), {"recorder": self})
        self.cupy.zeros = self.zeros

    @property
    def most_shared(self) -> int:
        """Most dynamic shared memory, in bytes, of any launch without an expression."""
        return max((launched.shared_bytes for launched in self.instances.values()), default=0)

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Any:
        """Reserve addresses. Memory that is never touched is never allocated by the system."""
        return np.empty(shape, dtype).view(self.cupy.ndarray)

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Any:
        """Reserve zeros, which the system does not allocate until they are touched."""
        return np.zeros(shape, dtype).view(self.cupy.ndarray)

    def launch(self, launch: Launch) -> None:
        """Record a launch."""
        self.check(launch)
        if launch.expression is not None:
            self.expressions[launch.expression, launch.source, launch.kernel] = None
            return
        self.instances.setdefault((launch.source, launch.kernel), Launched()).add(launch)

    def check(self, launch: Launch) -> None:
        """Raise `KernelFault` for a launch beyond the limits. Static shared memory is not known here."""
        limits = self.limits
        for number, most in (
            (launch.shared_bytes, limits.block_shared),
            (launch.threads, MOST_THREADS),
            (launch.blocks, MOST_BLOCKS),
        ):
            if number > most:
                raise KernelFault(f"{launch.kernel}: {number} > {most} on {limits}")

    def replace_cupy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the package launch kernels and allocate arrays on this recorder."""
        stand_in(monkeypatch, self.launch, lambda *_: True, self.cupy)

    def record(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function for all flags of a sample, with 0 to `MOST_READS` counters read as one, if it reads them."""
        for self.map_flags in MAP_FLAGS:
            self.has_read_flags = False
            for reads in range(MOST_READS + 1):
                self.reads_of_ones = reads
                result = call(*arguments, **options)
                if self.reads_of_ones >= 0:  # more ones would not be read
                    break
            if not self.has_read_flags:
                break
        return result
