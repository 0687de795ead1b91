"""Comparisons of keys by an expression that the user gives (``elements.cuh``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..launch.cxx_types import number_type

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
