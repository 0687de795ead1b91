"""Shards between GPUs through NCCL, one process a GPU (see `communicator`).

A collective of NCCL ends only when all ranks take part, so a rank that is lost leaves the others waiting, in a call or
in a kernel. `NcclCommunicator.abort` ends both: it can be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import cupy
import numpy as np

from .communicator import Aborted
from .run import Run

try:
    from cupy.cuda import nccl
except ImportError:  # CuPy was built without NCCL, or its library is not installed
    nccl = None

#: NCCL copies 16 bytes at a time between addresses that are multiples of it, and else byte by byte.
ALIGNMENT = 16

#: The length of a unique id. CuPy gives it as bytes since version 14; before, as integers of the type `char`, which has
#: a sign on some processors and none on others. They are offered as integers of another length.
ID_BYTES = 128
ID_DTYPE = np.dtype(np.int16)

#: Seconds that an abort waits for calls that enqueue transfers: a communicator must not be freed under them. The first
#: ones connect ranks, which takes up to seconds. It takes for ever if a rank does not come; only to free ends that.
ENQUEUE_SECONDS = 5.0

#: Results of NCCL for which CuPy has no name: it raises KeyError for them.
RESULTS = {6: "a process or the network failed", 7: "a call is still in progress"}


class NcclMaker:
    """Make communicators for this process, on its GPU."""

    def __init__(self) -> None:
        self.device = cupy.cuda.runtime.getDevice()
        self._offer: bytes | None = None
        self._lock = threading.Lock()

    def offer(self) -> bytes | None:
        """Give a unique id, the same until this process hears of its communicator, or None if NCCL cannot make one."""
        # NCCL cannot make one where it finds no network interface, for instance.
        with self._lock:
            if self._offer is None:
                with suppress(nccl.NcclError, KeyError):  # of a result that CuPy cannot name; NCCL's log has the cause
                    found = nccl.get_unique_id()
                    self._offer = found if isinstance(found, bytes) else np.array(found, ID_DTYPE).tobytes()
            return self._offer

    def make(self, offer: bytes, size: int, rank: int) -> NcclCommunicator:
        """A communicator, which begins to connect to the other ranks."""
        with self._lock:
            if offer == self._offer:
                self._offer = None
        return NcclCommunicator(self.device, offer, size, rank)


def make_maker() -> NcclMaker | None:
    """Give the maker of this process; None without NCCL or without a GPU."""
    return NcclMaker() if nccl is not None and nccl.available and cupy.is_available() else None


class NcclCommunicator:
    """Take part in a communicator as one rank; `offer` is the unique id."""

    def __init__(self, device: int, offer: bytes, size: int, rank: int):
        self._device, self._rank = device, rank
        self._stream: Any = None
        self._state = threading.Condition()  # guards what follows; who takes the connected one away aborts it
        self._connected: Any = None
        self._error: BaseException | None = None
        self._enqueuing = False
        self._aborted = False
        # NCCL waits for the other ranks in this call, which nothing can end.
        connect = threading.Thread(target=self._initialize, args=(offer, size), name="gpusort-connect", daemon=True)
        connect.start()

    def exchange(self, sent: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        """Send a shard to each rank and receive announced numbers of keys from each, on a stream of its own.

        Gives the complete shards from each rank, the own one as given; raises `Aborted` after `abort`.
        """
        self._wait_for_ranks()
        # The arrays are made on the caller's stream, which may use their memory again once they are freed.
        others = [rank for rank in range(len(sent)) if rank != self._rank]
        arrays = {rank: list(map(_aligned, sent[rank].arrays)) for rank in others}
        received = [sent[rank] if rank == self._rank else _like(sent[0], n) for rank, n in enumerate(lengths)]
        stream = self._stream = self._stream or cupy.cuda.Stream(non_blocking=True)
        stream.wait_event(cupy.cuda.get_current_stream().record())
        try:
            self._enqueue(arrays, received, stream)
            stream.synchronize()
            self._check()
        except BaseException:
            # Kernels that wait for other ranks end, before their memory is freed.
            self.abort()
            stream.synchronize()
            raise
        return received

    def _enqueue(self, sent: dict[int, list[Any]], received: list[Run], stream: Any) -> None:
        """Enqueue all transfers, as one group."""
        with self._group() as connected:
            for rank, arrays in sent.items():
                for pair in zip(arrays, received[rank].arrays, strict=True):
                    for call, array in zip((connected.send, connected.recv), pair, strict=True):
                        if array.nbytes:
                            call(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, rank, stream.ptr)

    @contextmanager
    def _group(self) -> Iterator[Any]:
        """Give the connected communicator, for a group of calls under which it is not freed."""
        with self._state:
            self._raise_if_aborted()
            connected, self._enqueuing = self._connected, True
        try:
            with _named_errors():
                nccl.groupStart()
                try:
                    yield connected
                finally:
                    nccl.groupEnd()
        finally:
            with self._state:
                self._enqueuing = False
                self._state.notify_all()

    def _check(self) -> None:
        with self._state, _named_errors():
            self._raise_if_aborted()
            self._connected.check_async_error()

    def _raise_if_aborted(self) -> None:
        if self._aborted:
            raise Aborted

    def abort(self) -> None:
        """End an exchange in progress, which raises; the communicator cannot be used again."""
        with self._state:
            if self._aborted:
                return
            self._aborted = True
            self._state.notify_all()
        # It waits for NCCL's threads and kernels, so not on the caller's thread.
        threading.Thread(target=self._free, daemon=True).start()

    def _free(self) -> None:
        """Free the connected communicator, if there is one; kernels that wait for other ranks end."""
        with self._state:
            self._state.wait_for(lambda: not self._enqueuing, ENQUEUE_SECONDS)
            connected, self._connected = self._connected, None
        if connected is not None:
            with cupy.cuda.Device(self._device):
                connected.abort()

    def _initialize(self, offer: bytes, size: int) -> None:
        connected = error = None
        try:
            unique_id = offer if len(offer) == ID_BYTES else tuple(np.frombuffer(offer, ID_DTYPE).tolist())
            with cupy.cuda.Device(self._device), _named_errors():
                connected = nccl.NcclCommunicator(size, unique_id, self._rank)
        except Exception as failure:
            error = failure
        with self._state:
            self._connected, self._error = connected, error
            aborted = self._aborted
            self._state.notify_all()
        if aborted:
            self._free()

    def _wait_for_ranks(self) -> None:
        with self._state:
            self._state.wait_for(lambda: self._aborted or self._error is not None or self._connected is not None)
            self._raise_if_aborted()
            if self._error is not None:
                raise self._error


@contextmanager
def _named_errors() -> Iterator[None]:
    """Name a result of NCCL for which CuPy raises KeyError."""
    try:
        yield
    except KeyError as error:
        result = error.args[0]
        raise RuntimeError(f"NCCL failed with result {result}: {RESULTS.get(result, 'see its log')}") from error


def _aligned(array: Any) -> Any:
    """A contiguous array at an aligned address: a view, or a copy."""
    found = cupy.ascontiguousarray(array)
    return found if found.data.ptr % ALIGNMENT == 0 else found.copy()


def _like(run: Run, length: int) -> Run:
    """An uninitialized run of some length."""
    keys, *values = (cupy.empty((length, *array.shape[1:]), array.dtype) for array in run.arrays)
    return Run(keys, tuple(values))
