"""Replaces CuPy and launches: arrays are in host memory, and kernels run on host threads."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dask_gpusort.kernels.launch import launch as launching
from dask_gpusort.kernels.launch import loader
from dask_gpusort.kernels.launch.launch import Launch, Readback

from .build import build

#: Bytes of canary on each side of an array: eight rounds of a warp's 16-byte accesses. It keeps the alignment.
CANARY_BYTES = 4096
CANARY = 0xC5
#: Byte that fills fresh memory. It is a wrong value for any count or index.
POISON = 0xAB


class KernelFault(AssertionError):
    """A kernel broke a rule of CUDA: deadlock, mismatched collectives, or a write outside its arrays."""


@dataclass(frozen=True)
class Limits:
    """Limits of a GPU (CUDA C++ Programming Guide, technical specifications per compute capability).

    Attributes
    ----------
    multiprocessors : int
        Number of them; launches choose some shapes by it.
    block_shared, shared : int
        Most bytes of shared memory of a block, and of a multiprocessor.
    threads : int
        Most threads of a multiprocessor.
    """

    multiprocessors: int
    block_shared: int
    shared: int
    threads: int

    @property
    def attributes(self) -> dict[str, int]:
        """The limits by the names of CuPy."""
        return {
            "MultiProcessorCount": self.multiprocessors,
            "MaxSharedMemoryPerBlockOptin": self.block_shared,
            "MaxSharedMemoryPerMultiprocessor": self.shared,
        }


#: By compute capability: T4, A100, A10, L4, H200, B200 and RTX 5090.
GPUS = {
    75: Limits(40, 64 << 10, 64 << 10, 1024),
    80: Limits(108, 163 << 10, 164 << 10, 2048),
    86: Limits(72, 99 << 10, 100 << 10, 1536),
    89: Limits(58, 99 << 10, 100 << 10, 1536),
    90: Limits(132, 227 << 10, 228 << 10, 2048),
    100: Limits(148, 227 << 10, 228 << 10, 2048),
    120: Limits(170, 99 << 10, 100 << 10, 1536),
}


class HostPointer:
    """A position in the memory of an array, as CuPy's ``MemoryPointer``.

    Attributes
    ----------
    mem : numpy.ndarray
        The array that owns the memory.
    ptr : int
        Address.
    """

    def __init__(self, mem: np.ndarray, ptr: int) -> None:
        self.mem = mem
        self.ptr = ptr

    def __add__(self, offset: int) -> HostPointer:
        return HostPointer(self.mem, self.ptr + offset)

    def copy_from_device_async(self, source: HostPointer, size: int, stream: Any = None) -> None:
        """Copy bytes."""
        self.take(size)[:] = source.take(size)

    def take(self, size: int) -> np.ndarray:
        """The bytes from here on."""
        start = self.ptr - self.mem.ctypes.data
        found = self.mem.reshape(-1).view(np.uint8)[start : start + size]
        if start < 0 or found.size != size:
            raise KernelFault(f"{size} bytes at {start} leave a memory of {self.mem.nbytes} bytes")
        return found


class HostArray(np.ndarray):
    """A NumPy array with the attributes of a CuPy array that launches use."""

    def __new__(cls, shape: tuple[int, ...], dtype: npt.DTypeLike, memptr: HostPointer) -> HostArray:
        """An array in given memory, as ``cupy.ndarray`` makes it."""
        dtype = np.dtype(dtype)
        return memptr.take(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape).view(cls)

    @property
    def data(self) -> Any:
        """The memory; launches read its address ``ptr``."""
        owner: np.ndarray = self
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return HostPointer(owner, self.ctypes.data)

    def get(self) -> np.ndarray:
        """Copy to a NumPy array, as ``cupy.ndarray.get`` does."""
        return np.array(self)


class HostCupy:
    """Replaces the module CuPy: it allocates arrays of a device and takes everything else from NumPy."""

    ndarray = HostArray

    def __init__(self, empty: Callable[..., HostArray], limits: Limits) -> None:
        self.empty = empty
        device = SimpleNamespace(attributes=limits.attributes)
        runtime = SimpleNamespace(getDevice=lambda: 0)
        self.cuda = SimpleNamespace(Device=lambda number=0: device, runtime=runtime, get_current_stream=lambda: None)

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return found if isinstance(found, type) or not callable(found) else self._on_device(found)

    def _on_device(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            return result.view(self.ndarray) if isinstance(result, np.ndarray) else result

        return call

    def empty_like(self, like: np.ndarray, dtype: npt.DTypeLike = None) -> HostArray:
        """Allocate an array of the same shape."""
        return self.empty(like.shape, dtype or like.dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> HostArray:
        """Allocate zeros."""
        array = self.empty(shape, dtype)
        array[...] = 0
        return array

    def asnumpy(self, array: HostArray) -> np.ndarray:
        """Copy an array to the host."""
        return np.array(array)

    def asarray(self, host: npt.ArrayLike) -> HostArray:
        """Copy an array to the device."""
        host = np.asarray(host)
        array = self.empty(host.shape, host.dtype)
        array[...] = host
        return array


class Guarded:
    """A poisoned array between two canaries, of a library whose function `full` fills memory."""

    def __init__(self, full: Callable[..., Any], shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> None:
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self.memory = full(CANARY_BYTES + nbytes + CANARY_BYTES, CANARY, np.uint8)
        body = self.memory[CANARY_BYTES : CANARY_BYTES + nbytes]
        body[:] = POISON
        self.array = body.view(dtype).reshape(shape)

    def check(self) -> None:
        """Raise `KernelFault` if a canary has changed."""
        for side, canary in (("before", self.memory[:CANARY_BYTES]), ("past", self.memory[-CANARY_BYTES:])):
            if (canary != CANARY).any():
                raise KernelFault(f"a kernel wrote {side} an array of {self.array.size} {self.array.dtype}")


class Device:
    """Allocates arrays between canaries, and checks these."""

    is_small = False

    def __init__(self, full: Callable[..., Any]) -> None:
        self._full = full
        self._allocated: list[Guarded] = []

    def large(self, *cases: Any) -> tuple[Any, ...]:
        """Cases that take a GPU; none on the host."""
        return () if self.is_small else cases

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> Any:
        """Allocate poisoned elements between canaries. `check` reads the canaries."""
        memory = Guarded(self._full, shape, dtype)
        self._allocated.append(memory)
        return memory.array

    def check(self) -> None:
        """Raise `KernelFault` if a canary of an array allocated since the last call has changed."""
        allocated, self._allocated = self._allocated, []
        for memory in allocated:
            memory.check()


class GpuDevice(Device):
    """A GPU."""

    def __init__(self, cupy: Any) -> None:
        super().__init__(cupy.full)
        self.cupy = cupy
        self.array = cupy.asarray


class HostDevice(Device):
    """Runs kernels on the CPU. Every launch draws a new order of threads.

    Parameters
    ----------
    sources : path
        Folder of the ``.cu`` and ``.cuh`` files.
    cache : path
        Folder for compiled kernels.
    multiprocessors : int
        Number that the device reports. A small number makes blocks loop over few keys.

    Attributes
    ----------
    seed : int
        Seed for the thread order of the next launch; every launch adds one.
    cupy : HostCupy
        Replacement for the module CuPy; its allocations are poisoned and guarded.
    """

    is_small = True

    def __init__(self, sources: Path, cache: Path, multiprocessors: int = 1) -> None:
        super().__init__(np.full)
        self.sources = sources
        self.cache = cache
        self.seed = 0
        self.requests = 0
        self.multiprocessors = multiprocessors
        self.cupy = HostCupy(self.empty, replace(GPUS[90], multiprocessors=multiprocessors))
        self._kernels: dict[tuple[str, str, str | None], Callable[..., None]] = {}
        self.array = self.cupy.asarray

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> HostArray:
        """Allocate poisoned elements between canaries. `check` reads the canaries."""
        return super().empty(shape, dtype).view(HostArray)

    def prepare(self, source: str, names: Sequence[str], expression: str | None = None) -> None:
        """Compile many instances in one program, which is far faster than one program for each."""
        missing = [name for name in dict.fromkeys(names) if (source, name, expression) not in self._kernels]
        if not missing:
            return
        text = (self.sources / source).read_text() if expression is None else loader.read_source(source, expression)
        library = build(text, missing, self.sources, self.cache)
        for index, name in enumerate(missing):
            self._kernels[source, name, expression] = _kernel(library, index, name)

    def launch(self, launch: Launch) -> None:
        """Run a kernel, as ``Launch.start`` does on a GPU."""
        self.prepare(launch.source, [launch.kernel], launch.expression)
        self.seed += 1
        kernel = self._kernels[launch.source, launch.kernel, launch.expression]
        kernel(launch.blocks, launch.threads, launch.made_arguments(), launch.shared_bytes, self.seed)

    def request(self, *_: Any) -> bool:
        """Whether a kernel is compiled: every other one is, so that some launches wait and others run at once."""
        self.requests += 1
        return self.requests % 2 == 0

    def replace_cupy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the package launch kernels and allocate arrays on this device."""
        stand_in(monkeypatch, self.launch, self.request, self.cupy)
        monkeypatch.setattr(launching, "COMPILERS", launching.PRESUMING_COMPILERS)


def stand_in(
    monkeypatch: pytest.MonkeyPatch, launch: Callable[[Launch], None], request: Callable[..., bool], cupy: HostCupy
) -> None:
    """Replace CuPy, the function that launches a kernel, and the one that requests a kernel, in the package."""
    monkeypatch.setattr(loader, "_find_cupy", lambda: cupy)
    monkeypatch.setattr(launching, "request", request)
    monkeypatch.setattr(Launch, "start", lambda self: launch(self))
    # A launch has ended when it returns, so the words can be copied at once.
    monkeypatch.setattr(Readback, "start", lambda self: setattr(self, "_words", self._source.get()))
    monkeypatch.setattr(Readback, "_synchronize", lambda self: None)


def _kernel(library: ctypes.CDLL, index: int, name: str) -> Callable[..., None]:
    launch = getattr(library, f"launch_{index}")
    launch.restype = ctypes.c_char_p
    parameter_bytes = getattr(library, f"parameter_bytes_{index}")
    parameter_bytes.restype = ctypes.POINTER(ctypes.c_uint)
    widths = _until_zero(parameter_bytes())

    def run(blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int, seed: int) -> None:
        cells = [_cell(argument) for argument in arguments]
        given = [cell.nbytes for cell in cells]
        if given != widths:
            raise KernelFault(f"{name} takes parameters of {widths} bytes, was given {given}")
        pointers = (ctypes.c_void_p * len(cells))(*(cell.ctypes.data for cell in cells))
        error = launch(
            ctypes.c_uint(blocks),
            ctypes.c_uint(threads),
            ctypes.c_uint64(shared_bytes),
            ctypes.c_uint64(seed),
            pointers,
        )
        if error is not None:
            raise KernelFault(f"{name}: {error.decode()}")

    return run


def _cell(argument: Any) -> np.ndarray:
    """One kernel argument as CuPy passes it: an array's address, null for None, or a scalar (64 bits for an int)."""
    if argument is None:
        return np.zeros(1, np.uintp)
    if isinstance(argument, HostArray):
        return np.array([argument.ctypes.data], np.uintp)
    if isinstance(argument, (int, np.generic)):
        return np.array([argument], np.int64 if isinstance(argument, int) else argument.dtype)
    raise KernelFault(f"a kernel argument must be a device array, None or a scalar, got {type(argument)}")


def _until_zero(numbers: Any) -> list[int]:
    found: list[int] = []
    while number := numbers[len(found)]:
        found.append(number)
    return found
