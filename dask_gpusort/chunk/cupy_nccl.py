"""Shards between GPUs through NCCL, one process a GPU: the communicator of a gang (see `graph.gang.communicator`).

A collective of NCCL ends only when all ranks take part, so a rank that is lost leaves the others waiting, in a call or
in a kernel. `NcclCommunicator.abort` ends both: it can be called from any thread.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import cupy

from .run import Run

try:
    from cupy.cuda import nccl
except ImportError:  # CuPy was built without NCCL, or its library is not installed
    nccl = None

#: NCCL copies 16 bytes at a time between addresses that are multiples of it, and else byte by byte.
ALIGNMENT = 16

#: What a piece sends to each other rank, and receives from each.
Transfer: TypeAlias = tuple[dict[int, list[Any]], list[Run]]


class Aborted(RuntimeError):
    """The exchange was aborted."""


class NcclMaker:
    """Makes communicators for this process.

    Attributes
    ----------
    device : int
        The GPU of this process.
    """

    def __init__(self) -> None:
        self.device = cupy.cuda.runtime.getDevice()
        self._offer: bytes | None = None

    def offer(self) -> bytes:
        """A unique id of which this process is the root. It stays the same until a communicator is made of it."""
        if self._offer is None:
            self._offer = pickle.dumps(nccl.get_unique_id())
        return self._offer

    def make(self, offer: bytes, size: int, rank: int) -> NcclCommunicator:
        """A communicator, which the first exchange connects to the other ranks."""
        if offer == self._offer:
            self._offer = None
        return NcclCommunicator(self.device, offer, size, rank)


def make_maker() -> NcclMaker | None:
    """The maker of this process; None without NCCL or without a GPU."""
    return NcclMaker() if nccl is not None and nccl.available and cupy.is_available() else None


class NcclCommunicator:
    """One rank of a communicator.

    Parameters
    ----------
    device : int
    offer : bytes
        The unique id.
    size, rank : int
    """

    def __init__(self, device: int, offer: bytes, size: int, rank: int):
        self._device, self._rank = device, rank
        self._arguments = size, pickle.loads(offer), rank
        self._connecting: threading.Thread | None = None
        self._wake = threading.Event()
        self._connected: Any = None
        self._stream: Any = None
        self._error: BaseException | None = None
        self._aborted = False

    def exchange(self, pieces: Sequence[tuple[Sequence[Run], Sequence[int]]]) -> Generator[list[Run], None, None]:
        """Send shards to each rank and receive some from each, piece after piece, on a stream of its own.

        All pieces are enqueued at once. The next ones are on their way while the caller works on one.

        Parameters
        ----------
        pieces : sequence of (sequence of Run, sequence of int)
            Shards for each rank, and how many keys arrive from each rank. As many pieces on all ranks.

        Yields
        ------
        list of Run
            For each piece the shards from each rank, complete. The own one is the one that was given.

        Raises
        ------
        Aborted
            If `abort` was called.
        nccl.NcclError
            If NCCL failed.
        """
        connected = self._connect()
        # The arrays are made on the caller's stream, which may use their memory again once they are freed.
        enqueued = deque(self._allocate(shards, lengths) for shards, lengths in pieces)
        del pieces
        stream = self._stream = self._stream or cupy.cuda.Stream(non_blocking=True)
        stream.wait_event(cupy.cuda.get_current_stream().record())
        try:
            arrivals = deque(self._enqueue(connected, *one, stream) for one in enqueued)
            while enqueued:
                arrivals.popleft().synchronize()
                self._check(connected)
                yield enqueued.popleft()[1]
        finally:
            if enqueued:
                # Kernels that wait for other ranks end, before their memory is freed.
                self.abort()
                stream.synchronize()

    def _allocate(self, shards: Sequence[Run], lengths: Sequence[int]) -> Transfer:
        others = [rank for rank in range(len(shards)) if rank != self._rank]
        sent = {rank: list(map(_aligned, shards[rank].arrays)) for rank in others}
        received = [shards[rank] if rank == self._rank else _like(shards[0], n) for rank, n in enumerate(lengths)]
        return sent, received

    def _enqueue(self, connected: Any, sent: dict[int, list[Any]], received: list[Run], stream: Any) -> Any:
        """Enqueue the transfers of a piece; returns an event behind them."""
        nccl.groupStart()
        try:
            for rank, arrays in sent.items():
                for out, into in zip(arrays, received[rank].arrays, strict=True):
                    if out.nbytes:
                        connected.send(out.data.ptr, out.nbytes, nccl.NCCL_UINT8, rank, stream.ptr)
                    if into.nbytes:
                        connected.recv(into.data.ptr, into.nbytes, nccl.NCCL_UINT8, rank, stream.ptr)
        finally:
            nccl.groupEnd()
        return stream.record(cupy.cuda.Event(disable_timing=True))

    def _check(self, connected: Any) -> None:
        if self._aborted:
            raise Aborted("the exchange was aborted")
        connected.check_async_error()

    def abort(self) -> None:
        """End an exchange in progress, which raises; the communicator cannot be used again."""
        if not self._aborted:
            self._aborted = True
            self._wake.set()
            # It waits for NCCL's threads and kernels, so not on the caller's thread.
            threading.Thread(target=self._abort, daemon=True).start()

    def _abort(self) -> None:
        if self._connected is not None:
            with cupy.cuda.Device(self._device):
                self._connected.abort()

    def _connect(self) -> Any:
        """The connected communicator. Other ranks may never come, so a thread of its own waits for them."""
        if self._connecting is None:
            self._connecting = threading.Thread(target=self._initialize, daemon=True)
            self._connecting.start()
        self._wake.wait()
        if self._aborted:
            raise Aborted("the exchange was aborted")
        if self._error is not None:
            raise self._error
        return self._connected

    def _initialize(self) -> None:
        try:
            with cupy.cuda.Device(self._device):
                self._connected = nccl.NcclCommunicator(*self._arguments)
        except Exception as error:
            self._error = error
        if self._aborted:
            self._abort()
        self._wake.set()


def _aligned(array: Any) -> Any:
    """A contiguous array at an aligned address: a view, or a copy."""
    found = cupy.ascontiguousarray(array)
    return found if found.data.ptr % ALIGNMENT == 0 else found.copy()


def _like(run: Run, length: int) -> Run:
    """An uninitialized run of some length."""
    keys, *values = (cupy.empty((length, *array.shape[1:]), array.dtype) for array in run.arrays)
    return Run(keys, tuple(values))
