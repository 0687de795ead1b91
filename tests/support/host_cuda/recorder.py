"""Records which template instances the launches of the package ask for, and runs none of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dask_gpusort.kernels.launch.launch import Launch

from .device import HOPPER_SHARED_BYTES, HostArray, HostCupy, stand_in

#: Counters that a sort reads back before it ends: how many buckets are overfull, then one level of the recursive
#: partition (how many buckets, what is planned).
MOST_READS = 3
#: What a sample can say of keys (see `dask_gpusort.kernels.buckets.splitters.MapFlags`).
MAP_FLAGS = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 0), (1, 0, 0, 1), (0, 0, 1, 0)]
#: Of an H200; launches choose a few shapes by it.
MULTIPROCESSORS = 132


class RecordedArray(HostArray):
    """Memory that is never touched; what is read back from it is chosen by the recorder."""

    recorder: Recorder

    def get(self) -> np.ndarray:
        """What a sample says; of other arrays, ones as long as the recorder says so, then zeros."""
        if self.shape == (len(self.recorder.map_flags),) and self.dtype == np.uint32:
            return np.array(self.recorder.map_flags, np.uint32)
        self.recorder.reads_of_ones -= 1
        return np.full(self.shape, int(self.recorder.reads_of_ones >= 0), self.dtype)


class Recorder:
    """Stands in for CuPy and the loader.

    Attributes
    ----------
    instances : dict of (str, str) to None
        Source file and C++ name of every kernel that was launched, in order.
    expressions : dict of (str, str, str) to None
        Expression, source file and C++ name of those that were compiled with one.
    most_shared : int
        Most bytes of dynamic shared memory of any launch without an expression.
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
        """Reserve addresses; memory that nobody touches takes no memory."""
        return np.empty(shape, dtype).view(self.cupy.ndarray)

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Any:
        """Reserve zeros, which take no memory either until they are touched."""
        return np.zeros(shape, dtype).view(self.cupy.ndarray)

    def launch(self, launch: Launch) -> None:
        """Note a launch."""
        if launch.expression is not None:
            self.expressions[launch.expression, launch.source, launch.kernel] = None
            return
        self.instances[launch.source, launch.kernel] = None
        self.most_shared = max(self.most_shared, launch.shared_bytes)

    def replace_cupy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the package launch and allocate here."""
        stand_in(monkeypatch, self.launch, self.cupy)

    def record(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a function with counters that ask for nothing more, and again with more and more of them at one."""
        for self.map_flags, reads in itertools.product(MAP_FLAGS, range(MOST_READS + 1)):
            self.reads_of_ones = reads
            result = call(*arguments, **options)
        return result
