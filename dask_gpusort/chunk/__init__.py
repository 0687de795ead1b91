"""Every step on one chunk: `numpy_ops` for NumPy chunks, `cupy_ops` for CuPy chunks, under the same names.

They export the steps of files with one subject each, `numpy_...` and `cupy_...`: keys, sorts, order statistics
(`..._select`), search and positions. `tie_groups` and `cupy_ties` find equal keys, and `steps`,
`lanes` and `distinct` have one code for both.

`cupy_staged_ops` has the heavy steps of NumPy chunks, on a GPU. `cupy_nccl` moves shards between GPUs.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def library_of(array: Any) -> str:
    """Name of the top-level package that defines an array's type: "numpy", "cupy", ..."""
    return type(array).__module__.partition(".")[0]


def ops_for(array: Any, *, staged: bool = False) -> ModuleType:
    """Find the steps for chunks of an array's type; CuPy is imported only if it is needed."""
    # If `staged`, the heavy steps of NumPy chunks run on a GPU.
    name = "cupy_ops" if library_of(array) == "cupy" else "cupy_staged_ops" if staged else "numpy_ops"
    return import_module(f"{__name__}.{name}")


def communicator_maker() -> Any:
    """Make communicators between this process's GPU and others (see `cupy_nccl`); None without CuPy, GPU or NCCL."""
    if find_spec("cupy") is None:
        return None
    return import_module(f"{__name__}.cupy_nccl").make_maker()


def complete(array: T) -> T:
    """Give the array, after waiting for its kernels, so that any stream may read it."""
    # UCX and spills to host memory ignore CUDA streams. Arrays on the host are always complete.
    if library_of(array) == "cupy":
        ops_for(array).synchronize()
    return array
