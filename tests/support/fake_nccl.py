"""Replaces CuPy's NCCL: communicators of ranks that are always there, on a device that finishes everything at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import util
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

#: Seconds for which a test waits for something that must not happen, or for a thread that must end.
SHORT, LONG = 0.3, 20.0


class FakeNccl:
    """The module `cupy.cuda.nccl`.

    Attributes
    ----------
    during : dict of str to callable(FakeNccl)
        Called inside the functions of these names, and, as "device", where the current device is restored.
    made : list of tuple
        Size, unique id and rank of each communicator.
    calls : list of str
        Names of all calls.
    transfers : list of list of tuple
        For each group of calls the name, the other rank and the bytes of each.
    freed : threading.Event
        Set when a communicator has been aborted.
    aborts : int
        How often NCCL freed a communicator.
    """

    available = True
    NCCL_UINT8 = 1

    def __init__(self) -> None:
        self.during: dict[str, Callable[[FakeNccl], None]] = {}
        self.made: list[tuple[int, tuple[int, ...], int]] = []
        self.freed = threading.Event()
        self.aborts = self.ids = 0
        self.gives_bytes = True
        self.NcclError = RuntimeError
        self.calls: list[str] = []
        self.transfers: list[list[tuple[str, int, int]]] = []
        self.NcclCommunicator = lambda *arguments: _Rank(self, *arguments)

    def call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.during:
            self.during[name](self)

    def get_unique_id(self) -> bytes | tuple[int, ...]:
        self.ids += 1
        mine = self.ids
        self.call("get_unique_id")
        return self.unique_id(mine)

    def unique_id(self, number: int) -> bytes | tuple[int, ...]:
        """As CuPy gives it: bytes, before version 14 a tuple of `char`, here with a sign."""
        signed = (-128, 127, *[0] * 125, number)
        return bytes(one % 256 for one in signed) if self.gives_bytes else signed

    def groupStart(self) -> None:
        self.transfers.append([])
        self.call("groupStart")

    def groupEnd(self) -> None:
        self.call("groupEnd")


class _Rank:
    """As CuPy's communicator, whose methods hold no lock while they are in NCCL."""

    def __init__(self, nccl: FakeNccl, size: int, unique_id: bytes | tuple[int, ...], rank: int) -> None:
        assert len(unique_id) == 128
        assert isinstance(unique_id, bytes if nccl.gives_bytes else tuple)
        self.nccl, self._comm = nccl, True
        nccl.made.append((size, unique_id, rank))
        nccl.call("connect")

    def send(self, address: int, nbytes: int, dtype: int, rank: int, stream: int) -> None:
        self.nccl.transfers[-1].append(("send", rank, nbytes))
        self.nccl.call("send")

    def recv(self, address: int, nbytes: int, dtype: int, rank: int, stream: int) -> None:
        self.nccl.transfers[-1].append(("recv", rank, nbytes))
        self.nccl.call("recv")

    def check_async_error(self) -> None:
        self.nccl.call("check_async_error")

    def abort(self) -> None:
        if self._comm:
            self.nccl.call("abort")
            self.nccl.aborts += 1
            self._comm = False
            self.nccl.freed.set()


class _Event:
    def record(self, *_: Any) -> _Event:
        return self

    def synchronize(self) -> None:
        """Everything is done."""


class _Stream(_Event):
    ptr = 0

    def __init__(self, **_: Any) -> None:
        pass

    def wait_event(self, _: Any) -> None:
        """Everything is done."""


class _Array(np.ndarray):
    """An array that says where its memory is, as CuPy's do."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


def load(nccl: FakeNccl, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `chunk.cupy_nccl`, loaded beside the real one, with this NCCL."""

    @contextmanager
    def device(_: int) -> Iterator[None]:
        yield
        nccl.call("device")

    cupy: Any = ModuleType("cupy")
    cupy.ndarray = _Array
    cupy.empty = lambda shape, dtype: np.empty(shape, dtype).view(_Array)
    cupy.ascontiguousarray = lambda array: np.ascontiguousarray(array).view(_Array)
    cupy.is_available = lambda: True
    cupy.cuda = ModuleType("cupy.cuda")
    cupy.cuda.nccl = nccl
    cupy.cuda.runtime = SimpleNamespace(getDevice=lambda: 0)
    cupy.cuda.Device, cupy.cuda.Stream, cupy.cuda.Event = device, _Stream, lambda **_: _Event()
    cupy.cuda.get_current_stream = _Stream
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cupy.cuda)
    spec = util.find_spec("dask_gpusort.chunk.cupy_nccl")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
