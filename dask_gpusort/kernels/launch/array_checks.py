"""Checks of arguments that the functions on CuPy arrays share."""

from __future__ import annotations

from typing import Any

import numpy as np

from .loader import require_cupy

ALGORITHMS = ("auto", "msd", "lsd")
INDEX_LIMIT = 1 << 32  # below this many keys, positions inside the kernels take 32 bits


def check_array(array: Any, name: str, ndim: int = 1) -> None:
    """Raise `TypeError` or `ValueError` unless `array` is a contiguous CuPy array of `ndim` dimensions."""
    cupy = require_cupy()
    if not isinstance(array, cupy.ndarray):
        raise TypeError(f"`{name}` is a {type(array).__name__}; give a CuPy array (cupy.asarray copies to the device).")
    if array.ndim != ndim or not array.flags.c_contiguous:
        raise ValueError(
            f"`{name}` has shape {array.shape} and strides {array.strides}; give a contiguous {ndim}-dimensional array "
            "(cupy.ascontiguousarray)."
        )


def prepare_out(out: Any, shape: tuple[int, ...], dtype: Any, name: str = "out") -> Any:
    """Give a contiguous `out` of this shape and dtype; without one, a new array."""
    if out is None:
        return require_cupy().empty(shape, dtype)
    check_array(out, name, len(shape))
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"`{name}` is {out.dtype} of shape {out.shape}; give {np.dtype(dtype)} of shape {shape}.")
    return out


def check_algorithm(algorithm: str) -> None:
    """Raise `ValueError` unless the algorithm is one of `ALGORITHMS`."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"`algorithm` is {algorithm!r}; give one of {', '.join(map(repr, ALGORITHMS))}.")


def check_indexable(n: int) -> None:
    """Raise `ValueError` if positions of `n` keys need more than 32 bits."""
    if n >= INDEX_LIMIT:
        raise ValueError(f"one chunk of {n} keys is sorted with its positions, at most 2^32 - 1; rechunk.")


def check_side(side: str) -> None:
    """Raise `ValueError` unless `side` is one of `numpy.searchsorted`'s."""
    if side not in ("left", "right"):
        raise ValueError(f"`side` is {side!r}; give 'left' or 'right'.")
