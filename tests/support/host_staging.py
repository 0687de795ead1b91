"""Copies to and from the host device, in place of staging through pinned memory."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dask_gpusort.graph import staging

from .host_cuda import HostArray
from .host_kernels import replace_cupy_of_steps, use_small_merges


def replace_staging(monkeypatch: pytest.MonkeyPatch, device: Any, cupy_ops: Any, copies: Any) -> SimpleNamespace:
    """Give the host device's arrays CuPy's type and copy them at once; returns the stand-in for `cupy_staging`."""
    use_small_merges(monkeypatch)
    replace_cupy_of_steps(monkeypatch, device.cupy)
    monkeypatch.setattr(cupy_ops, "synchronize", lambda: None)
    monkeypatch.setattr(HostArray, "__module__", "cupy")

    def to_device(array: Any, shift: int = 0) -> Any:
        result = device.empty(array.shape, copies.device_dtype(array.dtype))
        copies._copy(result.reshape(-1), copies._flat(array), shift)
        return result

    def to_host(array: Any, dtype: Any, shift: int = 0) -> np.ndarray:
        assert isinstance(array, HostArray)
        result = np.empty(array.shape, dtype)
        copies._copy(copies._flat(result), np.asarray(array).reshape(-1), shift)
        return result

    found = SimpleNamespace(
        to_device=to_device,
        to_device_joined=lambda arrays: list(map(to_device, arrays)),
        to_host=to_host,
        device_dtype=copies.device_dtype,
        empty=lambda dtype, shape: device.empty(shape, dtype),
        metadata_without_device=nullcontext,
    )
    monkeypatch.setattr(staging, "_copies", lambda: found)
    return found
