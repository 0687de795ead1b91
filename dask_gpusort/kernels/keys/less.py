"""Comparisons (``less.cuh``): NumPy's order of the codes, or an order that the user gives as an expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..launch.cxx_types import number_type, type_of_bytes
from .dtypes import device_key


@dataclass(frozen=True)
class Comparison:
    """Name the C++ types that compare keys of one dtype."""

    source: str  # type that loads a key as a code
    sink: str  # type that stores a code as a key; a format string with the field ``position`` for the type of positions
    code: str  # type of the codes
    code_bytes: int  # of a code
    less: str  # type whose ``less(a, b)`` compares two codes
    expression: str | None = None  # of the user, if there is one


def natural(dtype: Any, descending: bool, *, tied: bool) -> Comparison:
    """Compare keys of a radix dtype in NumPy's order, by their codes.

    If `tied`, keys that NumPy calls equal get equal codes, so that positions break the tie; the sort then stores the
    key of the least such code.
    """
    key = device_key(dtype, descending)
    kind = f"TiedKeys<{key.order}, {{position}}>" if tied else f"Keys<{key.order}>"
    return Comparison(kind.format(position="u32"), kind, type_of_bytes(key.itemsize), key.itemsize, "NaturalLess")


def by_expression(dtype: Any, less: str, descending: bool) -> Comparison:
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
    plain = f"Plain<{cxx}, {{position}}>"
    order = "Reversed<UserLess>" if descending else "UserLess"
    return Comparison(plain.format(position="u32"), plain, cxx, dtype.itemsize, order, less)
