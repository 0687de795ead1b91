"""Checks of arguments that the functions on CuPy arrays share, and C++ names of the types that kernels move."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .loader import require_cupy

ALGORITHMS = ("auto", "msd", "lsd")
INDEX_LIMIT = 1 << 32  # below this many keys, positions inside the kernels take 32 bits
#: The type of values where keys are sorted alone (``basics.cuh``).
NO_VALUE: Final = "NoValue"
#: Bytes of every type that kernels move without looking at it.
_BYTES: Final = {NO_VALUE: 0, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "u128": 16}
_BY_BYTES: Final = {size: name for name, size in _BYTES.items()}
#: Types in which a user's expression sees keys, by the kind and the bytes of their dtype. Its character would name a
#: type of C, and "l" has 8 bytes on Linux and 4 on Windows.
_NUMBERS: Final = {
    "b1": "bool",
    "i1": "signed char",
    "u1": "unsigned char",
    "i2": "short",
    "u2": "unsigned short",
    "i4": "int",
    "u4": "unsigned int",
    "i8": "long long",
    "u8": "unsigned long long",
    "f4": "float",
    "f8": "double",
    "M8": "long long",
    "m8": "long long",
    "c8": "Complex<float>",
    "c16": "Complex<double>",
}


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


def is_movable(size: int) -> bool:
    """Tell whether one memory access moves a value of `size` bytes."""
    return size > 0 and size in _BY_BYTES


def type_of_bytes(size: int) -> str:
    """Name the type that holds `size` bytes: ``"NoValue"`` (0), ``"u8"`` (1), ... ``"u128"`` (16)."""
    return _BY_BYTES[size]


def bytes_of_type(name: str) -> int:
    """Size in bytes of a type that `type_of_bytes` names."""
    return _BYTES[name]


def number_type(dtype: Any) -> str | None:
    """Name the type of a key in a user's expression; `None` for dtypes without one (float16, byte-swapped ones)."""
    dtype = np.dtype(dtype)
    return _NUMBERS.get(f"{dtype.kind}{dtype.itemsize}") if dtype.isnative else None
