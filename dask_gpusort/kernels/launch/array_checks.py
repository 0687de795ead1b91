"""What every function on CuPy arrays checks first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .loader import require_cupy

ALGORITHMS = ("auto", "msd", "lsd")
INDEX_LIMIT = 1 << 32  # positions inside the kernels are 32 bits wide below this many keys


def check_array(array: Any, name: str, ndim: int = 1) -> None:
    """Raise unless `array` is a contiguous CuPy array of `ndim` dimensions."""
    cupy = require_cupy()
    if not isinstance(array, cupy.ndarray):
        raise TypeError(f"`{name}` is a {type(array).__name__}; give a CuPy array (cupy.asarray copies to the device).")
    if array.ndim != ndim or not array.flags.c_contiguous:
        raise ValueError(
            f"`{name}` has shape {array.shape} and strides {array.strides}; give a contiguous {ndim}-dimensional array "
            "(cupy.ascontiguousarray)."
        )


def prepare_out(out: Any, shape: tuple[int, ...], dtype: Any, name: str = "out") -> Any:
    """`out`, checked, or a new array."""
    if out is None:
        return require_cupy().empty(shape, dtype)
    check_array(out, name, len(shape))
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"`{name}` is {out.dtype} of shape {out.shape}; give {np.dtype(dtype)} of shape {shape}.")
    return out


def check_algorithm(algorithm: str, allowed: Sequence[str] = ALGORITHMS) -> None:
    """Raise unless the algorithm is one of those allowed."""
    if algorithm not in allowed:
        raise ValueError(f"`algorithm` is {algorithm!r}; give one of {', '.join(map(repr, allowed))}.")


def check_indexable(n: int) -> None:
    """Raise where positions would not fit 32 bits."""
    if n >= INDEX_LIMIT:
        raise ValueError(
            f"{n} keys are more than 2^32 - 1, the most that are sorted with positions in one chunk; rechunk."
        )
