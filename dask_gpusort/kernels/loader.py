"""Compiles the CUDA C++ of this folder with NVRTC, through CuPy, and keeps the kernels.

CuPy is imported on the first call, not before: a scheduler or a client without a GPU can import the package.
CuPy's cache on disk hashes the source it is given and the options, but not the files the source includes; a digest of
all sources is therefore one of the options.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import pathlib
from typing import Any

import numpy as np

SOURCES = pathlib.Path(__file__).parent

# 7.0 (Volta) is refused by CUDA 13; 7.5 is the oldest the kernels are compiled for.
OLDEST_CAPABILITY = 75

# A block may have more than this much shared memory only after it asks for it (CUDA C++ Programming Guide).
FREE_SHARED_BYTES = 48 * 1024


class KernelsUnavailable(RuntimeError):
    """The GPU kernels cannot run here; the message names the remedy."""


@functools.cache
def require_cupy() -> Any:
    """CuPy, once it and a GPU new enough are there.

    Raises
    ------
    KernelsUnavailable
        CuPy is absent or does not match the driver, there is no GPU, or the GPU is too old.
    """
    try:
        import cupy
    except ImportError as error:
        raise KernelsUnavailable(
            "CuPy is not installed. Install the package that matches the CUDA driver, "
            "for example `pip install dask-gpusort[cu13]`."
        ) from error
    try:
        capability = int(cupy.cuda.Device().compute_capability)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise KernelsUnavailable(
            f"No usable GPU: {error}. Check `nvidia-smi`, and that CuPy's CUDA version is not newer than the driver's."
        ) from error
    if capability < OLDEST_CAPABILITY:
        raise KernelsUnavailable(
            f"This GPU has compute capability {capability / 10}; the kernels need {OLDEST_CAPABILITY / 10} or newer. "
            "Use NumPy-backed chunks here."
        )
    return cupy


@functools.cache
def sources_digest() -> str:
    """Digest of every CUDA source of this folder, for the kernel cache."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.cu*")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def read_source(source: str) -> str:
    """Text of a source file, with the namespace opened so that names of kernels and their arguments stay short."""
    return (SOURCES / source).read_text() + "\nusing namespace gpusort;\n"


def compile_options() -> tuple[str, ...]:
    """NVRTC options of every kernel: the language, where headers are, and the digest of the sources."""
    return ("-std=c++17", f"-I{SOURCES}", f"-DGPUSORT_SOURCES=0x{sources_digest()}")


@functools.cache
def _kernel_on_device(source: str, name: str, cooperative: bool, device: int) -> Any:
    cupy = require_cupy()
    module = cupy.RawModule(
        code=read_source(source),
        options=compile_options(),
        name_expressions=(name,),
        enable_cooperative_groups=cooperative,
    )
    return module.get_function(name)


# What each kernel of a device may take: the attribute belongs to the compiled function, whoever launches it, so that it
# may only grow.
_shared_limits: dict[tuple[str, str, bool, int], int] = {}


def kernel(source: str, name: str, shared_bytes: int = 0, cooperative: bool = False) -> Any:
    """A compiled kernel of the current device.

    Parameters
    ----------
    source : str
        File of this folder, such as ``"finish.cu"``.
    name : str
        The kernel as C++ writes it, template arguments included.
    shared_bytes : int
        Dynamic shared memory the kernel will be launched with, in bytes.
    cooperative : bool
        All blocks of a launch run at the same time, so that they may wait for each other.
    """
    key = source, name, cooperative, require_cupy().cuda.runtime.getDevice()
    function = _kernel_on_device(*key)
    if shared_bytes > _shared_limits.get(key, 0):
        if shared_bytes + function.shared_size_bytes > FREE_SHARED_BYTES:
            function.max_dynamic_shared_size_bytes = shared_bytes
        _shared_limits[key] = shared_bytes
    return function


class Readback:
    """Some words on their way from the device to the host, behind the work of the current stream."""

    def __init__(self, words: Any):
        cupy = require_cupy()
        self._pinned = cupy.cuda.alloc_pinned_memory(words.nbytes)
        self._words = np.frombuffer(self._pinned, words.dtype, words.size)
        stream = cupy.cuda.get_current_stream()
        words.data.copy_to_host_async(ctypes.c_void_p(self._pinned.ptr), words.nbytes, stream)
        self._event = cupy.cuda.Event(disable_timing=True)
        self._event.record(stream)

    def wait(self) -> list[int]:
        """The words, once they are here."""
        self._event.synchronize()
        return [int(word) for word in self._words]


def launch(
    source: str,
    name: str,
    blocks: int,
    threads: int,
    arguments: tuple[Any, ...],
    shared_bytes: int = 0,
    cooperative: bool = False,
) -> None:
    """Launch a kernel on the current stream; a grid of no blocks is no launch."""
    if blocks > 0:
        function = kernel(source, name, shared_bytes, cooperative)
        function((blocks,), (threads,), arguments, shared_mem=shared_bytes)
