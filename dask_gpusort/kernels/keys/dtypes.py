"""Key dtypes on the device: their unsigned type, their order, their codes, and comparisons by a user's expression.

``order.cuh`` holds the transform itself; it gives the same codes as `dask_gpusort.keys`, bit by bit.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...keys import encode
from ..launch.arrays import number_type, type_of_bytes

FLOAT_BYTES = 4  # narrower floats have so few codes that each code can be a bucket
CODE_BYTES = (1, 2, 4, 8)
KINDS = {"b": "kBool", "u": "kUnsigned", "i": "kSigned", "f": "kFloat", "m": "kTime", "M": "kTime", "c": "kComplex"}


@dataclass(frozen=True)
class DeviceKey:
    """Name the C++ types of a key dtype."""

    itemsize: int  # bytes of a key, and of its code
    order: str  # the type ``KeyOrder<...>``, which encodes and decodes keys
    has_ties: bool  # whether keys of different bits can compare equal (signed zeros, NaNs)
    floats: str = ""  # template arguments of ``FloatOrder`` for floats of 32 or 64 bits; empty for other keys

    @property
    def code_dtype(self) -> Any:
        """NumPy dtype of the codes, unsigned."""
        return np.dtype(f"u{self.itemsize}")

    def domain(self, code_type: str, drop_bits: int = 0) -> str:
        """Name the domain in which digits of these codes are cut (``domain.cuh``).

        `drop_bits` are low bits of a code that hold no part of the key, such as a position.
        """
        return f"ValueDomain<{code_type}, {self.floats}, {drop_bits}>" if self.floats else f"CodeDomain<{code_type}>"


@functools.cache
def device_key(dtype: Any, descending: bool = False) -> DeviceKey:
    """Describe keys of a dtype to the kernels, or refuse it; NaN and NaT stay last when descending."""
    dtype = np.dtype(dtype)
    supported = dtype.kind in KINDS and dtype.isnative and (dtype.kind != "c" or dtype.itemsize == 8)
    if not supported or dtype.itemsize not in CODE_BYTES:
        raise TypeError(
            f"The radix kernels do not sort {dtype}; they sort native bool, integers, float16/32/64, datetime64, "
            "timedelta64 and complex64. Convert the keys, or use the comparison path."
        )
    raw, kind = type_of_bytes(dtype.itemsize), KINDS[dtype.kind]
    reverse = str(bool(descending)).lower()
    floats = f"{raw}, {reverse}" if dtype.kind == "f" and dtype.itemsize >= FLOAT_BYTES else ""
    return DeviceKey(dtype.itemsize, f"KeyOrder<{raw}, Kind::{kind}, {reverse}>", dtype.kind in "fc", floats)


@functools.cache
def first_nan_code(dtype: Any) -> int | None:
    """Give the least code of NaN or NaT, in ascending order; None for dtypes without them."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "fcmM":
        return None
    greatest = {"f": np.inf, "c": complex(np.inf, np.inf)}.get(dtype.kind, np.iinfo(np.int64).max)
    return int(encode(np.array([greatest]).astype(dtype))[0]) + 1


#: C++ type whose ``less(a, b)`` compares two keys by the expression.
USER_LESS = "UserLess"


@dataclass(frozen=True)
class Comparison:
    """Compare keys of one C++ type by an expression of the user, which the sources call as ``UserLess``."""

    code: str  # type of the keys
    code_bytes: int  # of a key
    expression: str

    def plain(self, position: str = "u32") -> str:
        """C++ type that loads and stores keys, and stores positions of a type."""
        return f"Plain<{self.code}, {position}>"


def by_expression(dtype: Any, less: str) -> Comparison:
    """Compare keys by the user's CUDA C++ expression in ``a`` and ``b``, true where ``a`` comes first."""
    # It is refused if it is no text, or if the dtype has no C++ type.
    dtype = np.dtype(dtype)
    cxx = number_type(dtype)
    if cxx is None:
        raise TypeError(
            f"`less` does not take keys of {dtype}: give native bool, integers, float32/64, datetime64, timedelta64 or "
            "complex keys (float16 keys: convert them to float32)."
        )
    if not isinstance(less, str) or not less.strip():
        raise TypeError(f"`less` is {less!r}; give a CUDA C++ expression in `a` and `b`, such as 'a < b'.")
    return Comparison(cxx, dtype.itemsize, less)
