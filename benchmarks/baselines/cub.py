"""CUB's device sorts, called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

LIBRARY = Path(__file__).parent / "libcub_baseline.so"
ARCHITECTURE = "sm_90"
REPEATS = 7


class Cub:
    """CUB's sorts, in a shared library. nvcc builds it from cub_baseline.cu if it does not exist.

    It takes nvcc's own headers, or newer ones of the wheel ``nvidia-cuda-cccl`` with ``NVCC_PREPEND_FLAGS=-I...``.
    """

    def __init__(self) -> None:
        if not LIBRARY.exists():
            command = ["nvcc", "-O3", "-std=c++17", f"-arch={ARCHITECTURE}", "-shared", "-Xcompiler", "-fPIC"]
            subprocess.run([*command, str(LIBRARY.with_name("cub_baseline.cu")), "-o", str(LIBRARY)], check=True)
        self.library = ctypes.CDLL(str(LIBRARY.resolve()))

    @property
    def version(self) -> str:
        """As in a release's name."""
        number = self.library.cub_version()
        return f"{number // 100_000}.{number // 100 % 1000}.{number % 100}"

    def call(self, name: str, *arrays: Any) -> float:
        """Median milliseconds of several runs, after one warm-up."""
        function = getattr(self.library, name)
        function.restype = ctypes.c_float
        function.argtypes = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64]
        times = [function(*(a.data.ptr for a in arrays), arrays[0].size) for _ in range(REPEATS + 1)]
        assert min(times) > 0, f"{name} failed"
        return float(np.median(times[1:]))

    def keys(self, keys: Any) -> float:
        return self.call(f"cub_keys_{keys.dtype.name}", keys, cp.empty_like(keys))

    def pairs(self, keys: Any, values: Any) -> float:
        name = f"cub_pairs_{keys.dtype.name}_{values.dtype.name}"
        return self.call(name, keys, cp.empty_like(keys), values, cp.empty_like(values))
