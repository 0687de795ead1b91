"""Comparisons (``less.cuh``): NumPy's order of the codes, or an order that the user gives as an expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..launch.cxx_types import number_type, type_of_bytes
from .dtypes import device_key


@dataclass(frozen=True)
class Comparison:
    """The C++ types that compare keys of one dtype.

    Attributes
    ----------
    source : str
        Type that loads a key as a code.
    sink : str
        Type that stores a code as a key; a format string with the field ``position`` for the type of positions.
    code : str
        Type of the codes.
    code_bytes : int
        Bytes of a code.
    less : str
        Type whose ``less(a, b)`` compares two codes.
    expression : str or None
        The user's expression, if there is one.
    """

    source: str
    sink: str
    code: str
    code_bytes: int
    less: str
    expression: str | None = None


def natural(dtype: Any, descending: bool, *, tied: bool) -> Comparison:
    """Compare keys of a radix dtype in NumPy's order, by their codes.

    Parameters
    ----------
    dtype : dtype
    descending : bool
    tied : bool
        Whether keys that NumPy calls equal (signed zeros, NaNs) get equal codes, so that positions break the tie. The
        sort then stores the key of the least such code.
    """
    key = device_key(dtype, descending)
    kind = f"TiedKeys<{key.order}, {{position}}>" if tied else f"Keys<{key.order}>"
    return Comparison(kind.format(position="u32"), kind, type_of_bytes(key.itemsize), key.itemsize, "NaturalLess")


def by_expression(dtype: Any, less: str, descending: bool) -> Comparison:
    """Compare keys by the user's expression.

    Parameters
    ----------
    dtype : dtype
    less : str
        CUDA C++ expression in ``a`` and ``b``, true where key ``a`` comes before key ``b``.
    descending : bool
        Exchange ``a`` and ``b``.

    Raises
    ------
    TypeError
        The dtype has no C++ type, or `less` is no text.
    """
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
