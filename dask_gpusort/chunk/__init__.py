"""Every step on one chunk: `numpy_ops` for NumPy chunks, `cupy_ops` for CuPy chunks, same names."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def library_of(array: Any) -> str:
    """Name of the top-level package an array type comes from: "numpy", "cupy", ..."""
    return type(array).__module__.partition(".")[0]


def ops_for(array: Any) -> ModuleType:
    """The steps for chunks of an array's type; CuPy is only imported where its chunks are."""
    name = "cupy_ops" if library_of(array) == "cupy" else "numpy_ops"
    return import_module(f"{__name__}.{name}")


def complete(array: T) -> T:
    """The array, once what was launched for it is done, so that others than its own stream may read it.

    UCX and a spill to host memory know nothing of streams. Arrays on the host are always done.
    """
    if library_of(array) == "cupy":
        ops_for(array).synchronize()
    return array
