"""CuPy arrays as plain buffers and back, for transfers between workers."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np


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


def empty(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """An uninitialized array on the device."""
    return cupy.empty(shape, dtype)
