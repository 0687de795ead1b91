"""Records the template instances that the package launches, without running them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dask_gpusort.kernels.launch.launch import Launch

from .device import HOPPER_SHARED_BYTES, HostArray, HostCupy, stand_in

#: Most counters that a sort reads back: the number of overfull buckets, then the number of buckets and the plan of one
#: level of the recursive partition.
MOST_READS = 3
#: Flags that a sample can yield (see `dask_gpusort.kernels.buckets.splitters.MapFlags`).
MAP_FLAGS = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 0), (1, 0, 0, 1), (0, 0, 1, 0)]
#: Number of an H200. Launches choose some shapes by it.
MULTIPROCESSORS = 132


class RecordedArray(HostArray):
    """Memory that is never touched. The recorder chooses the values that are read back."""

    recorder: Recorder

    def get(self) -> np.ndarray:
        """The chosen flags for a sample; for other arrays, ones for the first `reads_of_ones` reads, then zeros."""
        if self.shape == (len(self.recorder.map_flags),) and self.dtype == np.uint32:
            return np.array(self.recorder.map_flags, np.uint32)
        self.recorder.reads_of_ones -= 1
        return np.full(self.shape, int(self.recorder.reads_of_ones >= 0), self.dtype)


class Recorder:
    """Replaces CuPy and the kernel loader.

    Attributes
    ----------
    instances : dict of (str, str) to None
        Source file and C++ name of every kernel that was launched, in order.
    expressions : dict of (str, str, str) to None
        Expression, source file and C++ name of every kernel that was launched with an expression.
    most_shared : int
        Most dynamic shared memory, in bytes, of any launch without an expression.
    """

    def __init__(self, shared_limit: int = HOPPER_SHARED_BYTES, multiprocessors: int = MULTIPROCESSORS) -> None:
        self.most_shared = 0
        self.instances: dict[tuple[str, str], None] = {}
        self.expressions: dict[tuple[str, str, str], None] = {}
        self.reads_of_ones = 0
        self.map_flags = MAP_FLAGS[0]
        self.cupy = HostCupy(self.empty, multiprocessors, shared_limit)
        self.cupy.ndarray = type("Array", (RecordedArray,), {"recorder": self})
        self.cupy.zeros = self.zeros

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Any:
        """Reserve addresses. Memory that is never touched is never allocated by the system."""
        return np.empty(shape, dtype).view(self.cupy.ndarray)

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Any:
        """Reserve zeros, which the system does not allocate until they are touched."""
        return np.zeros(shape, dtype).view(self.cupy.ndarray)

    def launch(self, launch: Launch) -> None:
        """Record a launch."""
        if launch.expression is not None:
            self.expressions[launch.expression, launch.source, launch.kernel] = None
            return
        self.instances[launch.source, launch.kernel] = None
        self.most_shared = max(self.most_shared, launch.shared_bytes)

    def replace_cupy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the package launch kernels and allocate arrays on this recorder."""
        stand_in(monkeypatch, self.launch, lambda *_: True, self.cupy)

    def record(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function for all flags of a sample, with 0 to `MOST_READS` counters read as one."""
        for self.map_flags, reads in itertools.product(MAP_FLAGS, range(MOST_READS + 1)):
            self.reads_of_ones = reads
            result = call(*arguments, **options)
        return result
