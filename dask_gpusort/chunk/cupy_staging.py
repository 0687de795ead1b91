"""Staging: NumPy arrays to a device and back, in pieces, through pinned memory.

The driver copies pageable memory at a fraction of the bus's rate. Here every thread copies pieces of its own array to
two pinned buffers in turn: the memcpy of one piece overlaps the DMA of the other, and the memcpys of all threads.

Each thread has a stream of its own for copies, so that they do not queue behind the kernels of other threads. It first
waits for the current stream: the pool may have given memory that kernels there still read, and the kernels that make a
result run there. The functions return after their last copy. So any stream may read the result, and no pinned buffer
and no memory of the device is used again while a copy reads or writes it.

Dates are staged as their integers, since CuPy has no dates. NaT, the least integer, is last in an ascending order: a
shift by -1, which wraps around, makes it the greatest.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import cupy
import numpy as np

#: Bytes of a pinned buffer. A DMA of it takes some 0.15 ms, far more than its launch and the wait for it; the buffers
#: of 16 threads are 256 MiB.
PIECE_BYTES = 8 << 20
#: Buffers that a copy takes in turn.
BUFFERS = 2
#: Below this many bytes, one pageable copy takes less time than the events and launches of a piece.
SMALL_BYTES = 1 << 20


class _Streams(threading.local):
    """The streams for copies of one thread, by device."""

    def __init__(self) -> None:
        self.by_device: dict[int, Any] = {}


_streams = _Streams()


class _Buffer:
    """A pinned buffer for elements of one dtype, and the event of the last DMA that used it."""

    def __init__(self, dtype: np.dtype[Any]):
        self.elements = np.frombuffer(
            cupy.cuda.alloc_pinned_memory(PIECE_BYTES), dtype, count=PIECE_BYTES // dtype.itemsize
        )
        # A blocked thread leaves its core to the memcpys of other threads.
        self.copied = cupy.cuda.Event(block=True, disable_timing=True)


@contextmanager
def _buffers(dtype: np.dtype[Any], count: int) -> Iterator[list[_Buffer]]:
    """Pinned buffers, which return to CuPy's pool when no DMA uses them."""
    buffers = [_Buffer(dtype) for _ in range(count)]
    try:
        yield buffers
    finally:
        for buffer in buffers:
            buffer.copied.synchronize()


def _copy_stream() -> Any:
    """Give the stream for copies of this thread and device, after the work so far of the current stream."""
    device = cupy.cuda.runtime.getDevice()
    stream = _streams.by_device.get(device)
    if stream is None:
        stream = _streams.by_device[device] = cupy.cuda.Stream(non_blocking=True)
    queued = cupy.cuda.Event(disable_timing=True)
    queued.record(cupy.cuda.get_current_stream())
    stream.wait_event(queued)
    return stream


def _pieces(array: Any) -> list[slice]:
    """Parts of a flat array, each at most a pinned buffer."""
    step = PIECE_BYTES // array.itemsize
    return [slice(start, min(start + step, array.size)) for start in range(0, array.size, step)]


def _flat(array: np.ndarray) -> np.ndarray:
    """Give the elements in C order, dates as integers: a view if the array is contiguous."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.dtype.str[0] + "i8") if flat.dtype.kind in "mM" else flat


def device_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give the dtype that elements have on the device."""
    return np.dtype(np.int64) if dtype.kind in "mM" else dtype.newbyteorder("=")


def native(array: np.ndarray) -> np.ndarray:
    """Give the elements as the device holds them, on the host."""
    found: np.ndarray = _flat(array).astype(device_dtype(array.dtype), copy=False).reshape(array.shape)
    return found


def _copy(target: np.ndarray, source: np.ndarray, shift: int) -> None:
    """Copy elements to the target's byte order, integers with a shift; the interpreter's lock is released."""
    if shift:
        np.add(source, shift, out=target)
    else:
        np.copyto(target, source)


def to_device(array: np.ndarray, shift: int = 0) -> Any:
    """Copy a NumPy array of a dtype that CuPy has, any strides and byte order, to the current device."""
    # The copy is complete, contiguous and native, with dates as int64; `shift` is added to integers and dates, wrapping
    # around.
    source = _flat(array)
    result = cupy.empty(array.shape, device_dtype(array.dtype))
    _copy_to_device(result.reshape(-1), [source], shift)
    return result


def to_device_joined(arrays: Sequence[np.ndarray]) -> list[Any]:
    """Copy NumPy arrays of one dtype, as for `to_device`, to neighbouring memory: views of one array."""
    sources = list(map(_flat, arrays))
    ends = list(accumulate((source.size for source in sources), initial=0))
    result = cupy.empty(ends[-1], device_dtype(arrays[0].dtype))
    _copy_to_device(result, sources, 0)
    return [
        result[start:stop].reshape(array.shape) for array, (start, stop) in zip(arrays, pairwise(ends), strict=True)
    ]


def _copy_to_device(target: Any, sources: Sequence[np.ndarray], shift: int) -> None:
    """Copy flat arrays, end to end, to a flat array of the device."""
    ends = list(accumulate((source.size for source in sources), initial=0))
    if target.nbytes < SMALL_BYTES:
        native = np.empty(target.shape, target.dtype)
        _copy_joined(native, sources, ends, 0, shift)
        target.set(native)
        cupy.cuda.get_current_stream().synchronize()
        return
    stream, pieces = _copy_stream(), _pieces(target)
    with _buffers(target.dtype, min(BUFFERS, len(pieces))) as buffers:
        for number, piece in enumerate(pieces):
            buffer = buffers[number % len(buffers)]
            pinned = buffer.elements[: piece.stop - piece.start]
            buffer.copied.synchronize()
            _copy_joined(pinned, sources, ends, piece.start, shift)
            target[piece].set(pinned, stream=stream)
            buffer.copied.record(stream)


def _copy_joined(
    target: np.ndarray, sources: Sequence[np.ndarray], ends: Sequence[int], start: int, shift: int
) -> None:
    """Copy elements from `start` on of arrays that are end to end; `ends` are their ends, after a 0."""
    stop = start + target.size
    number, done = bisect_right(ends, start) - 1, start
    while done < stop:
        end = min(stop, ends[number + 1])
        _copy(target[done - start : end - start], sources[number][done - ends[number] : end - ends[number]], shift)
        number, done = number + 1, end


def to_host(array: Any, dtype: np.dtype[Any], shift: int = 0) -> np.ndarray:
    """Copy a CuPy array of any strides to pageable memory of the host, in either byte order, or as dates of int64."""
    # `shift` is added to integers and dates, wrapping around.
    flat = cupy.ascontiguousarray(array).reshape(-1)
    result = np.empty(array.shape, dtype)
    target = _flat(result)
    if flat.nbytes < SMALL_BYTES:
        _copy(target, flat.get(), shift)
        return result
    stream, pieces = _copy_stream(), _pieces(flat)
    with _buffers(flat.dtype, min(BUFFERS, len(pieces))) as buffers:
        ahead = len(buffers)
        for number in range(len(pieces) + ahead):
            buffer = buffers[number % ahead]
            if number >= ahead:
                copied = pieces[number - ahead]
                buffer.copied.synchronize()
                _copy(target[copied], buffer.elements[: copied.stop - copied.start], shift)
            if number < len(pieces):
                piece = pieces[number]
                flat[piece].get(stream=stream, out=buffer.elements[: piece.stop - piece.start], blocking=False)
                buffer.copied.record(stream)
    return result


def empty(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """An array of any content."""
    return cupy.empty(shape, dtype)


@contextmanager
def metadata_without_device() -> Iterator[None]:
    """Make arrays without elements also where there is no device: a client builds graphs that its workers compute."""
    allocate: Callable[[int], Any] = cupy.cuda.get_allocator()

    def allocate_or_nothing(size: int) -> Any:
        try:
            return allocate(size)
        except cupy.cuda.runtime.CUDARuntimeError:
            if size:
                raise
            return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 0, None, 0), 0)

    with cupy.cuda.using_allocator(allocate_or_nothing):
        yield


def as_buffer(array: Any) -> Any:
    """View the bytes of an array on the device, shape (nbytes,); one that is not contiguous is copied first."""
    whole = cupy.ascontiguousarray(array)
    if whole is not array:
        cupy.cuda.get_current_stream().synchronize()
    return cupy.ndarray((whole.nbytes,), np.uint8, memptr=whole.data)


def as_host_buffer(array: Any) -> memoryview:
    """Copy the bytes of an array to the host."""
    return memoryview(cupy.asnumpy(as_buffer(array)))


def from_buffer(buffer: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Make an array from the bytes of a buffer."""
    # A device buffer (anything with the CUDA array interface) is not copied; the array keeps it alive. A host buffer is
    # copied to the device.
    if hasattr(buffer, "__cuda_array_interface__"):
        return cupy.ndarray(shape, dtype, memptr=cupy.asarray(buffer).data)
    host = np.frombuffer(buffer, np.uint8)
    array = cupy.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).set(host)
    cupy.cuda.get_current_stream().synchronize()
    return array
