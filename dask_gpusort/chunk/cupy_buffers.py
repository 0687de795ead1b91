"""CuPy arrays as plain buffers and back: what goes over a wire."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np


def as_buffer(array: Any) -> Any:
    """Bytes of a contiguous array: a view on the device, shape (nbytes,)."""
    whole = cupy.ascontiguousarray(array)
    if whole is not array:
        cupy.cuda.get_current_stream().synchronize()
    return cupy.ndarray((whole.nbytes,), np.uint8, memptr=whole.data)


def as_host_buffer(array: Any) -> memoryview:
    """Bytes of an array, copied to the host."""
    return memoryview(cupy.asnumpy(as_buffer(array)))


def from_buffer(buffer: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """An array in a buffer, which lives on: of the device (anything with the CUDA array interface) without a copy."""
    if hasattr(buffer, "__cuda_array_interface__"):
        return cupy.ndarray(shape, dtype, memptr=cupy.asarray(buffer).data)
    host = np.frombuffer(buffer, np.uint8)
    array = cupy.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).set(host)
    cupy.cuda.get_current_stream().synchronize()
    return array


def empty(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """An array of the device that holds nothing."""
    return cupy.empty(shape, dtype)
