"""C++ names of the types that kernels move and compare."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

#: The type of values where keys are sorted alone (``types.cuh``).
NO_VALUE: Final = "NoValue"

#: Bytes of every type that kernels move without looking at it.
_BYTES: Final = {NO_VALUE: 0, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "u128": 16}
_BY_BYTES: Final = {size: name for name, size in _BYTES.items()}

#: Types in which a user's expression sees keys, by the character of their dtype.
_NUMBERS: Final = {
    "?": "bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned int",
    "l": "long long",
    "L": "unsigned long long",
    "q": "long long",
    "Q": "unsigned long long",
    "f": "float",
    "d": "double",
    "M": "long long",
    "m": "long long",
    "F": "Complex<float>",
    "D": "Complex<double>",
}


def is_movable(size: int) -> bool:
    """Whether one memory access moves a value of `size` bytes."""
    return size > 0 and size in _BY_BYTES


def type_of_bytes(size: int) -> str:
    """Name the type that holds `size` bytes: ``"NoValue"`` (0), ``"u8"`` (1), ... ``"u128"`` (16).

    Raises
    ------
    KeyError
        No type has this size.
    """
    return _BY_BYTES[size]


def bytes_of_type(name: str) -> int:
    """Size in bytes of a type that `type_of_bytes` names."""
    return _BYTES[name]


def number_type(dtype: Any) -> str | None:
    """Name the type of a key in a user's expression; `None` for dtypes without one (float16, byte-swapped ones)."""
    dtype = np.dtype(dtype)
    return _NUMBERS.get(dtype.char) if dtype.isnative else None
