"""C++ names of the types that kernels move and compare."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

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
