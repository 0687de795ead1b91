"""What a comparison sort compares: codes in their natural order, or keys by an expression of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .dtypes import device_key

# Names that an expression sees for the values of a dtype.
CXX_TYPES = {
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


@dataclass(frozen=True)
class Comparison:
    """How keys of one dtype are compared on the device.

    Attributes
    ----------
    source : str
        C++ type that loads a key as the code the kernels compare.
    sink : str
        C++ type that stores a code as the key it came from; formatted with the type of the positions.
    code : str
        C++ type of the codes.
    code_bytes : int
        Bytes of a code.
    less : str
        C++ type whose ``less(a, b)`` compares two codes.
    expression : str or None
        The user's, if there is one.
    """

    source: str
    sink: str
    code: str
    code_bytes: int
    less: str
    expression: str | None = None


def natural(dtype: Any, descending: bool, *, tied: bool) -> Comparison:
    """NumPy's order of a radix dtype, by codes.

    Parameters
    ----------
    dtype : dtype
    descending : bool
    tied : bool
        Whether keys that NumPy calls equal (signed zeros, NaNs) must be equal to the sort too, so that positions break
        the tie; stored keys are then those of the least code.
    """
    key = device_key(dtype, descending)
    kind = f"TiedKeys<{key.order}, {{position}}>" if tied else f"Keys<{key.order}>"
    return Comparison(kind.format(position="u32"), kind, f"u{8 * key.itemsize}", key.itemsize, "NaturalLess")


def by_expression(dtype: Any, less: str, descending: bool) -> Comparison:
    """An order of the user.

    Raises
    ------
    TypeError
        The dtype has no C++ type here.
    """
    dtype = np.dtype(dtype)
    if dtype.char not in CXX_TYPES or not dtype.isnative:
        raise TypeError(
            f"`less` does not take keys of {dtype}: give native bool, integers, float32/64, datetime64, timedelta64 or "
            "complex keys (float16 keys: convert them to float32)."
        )
    if not isinstance(less, str) or not less.strip():
        raise TypeError(f"`less` is {less!r}; give a CUDA C++ expression in `a` and `b`, such as 'a < b'.")
    cxx = CXX_TYPES[dtype.char]
    plain = f"Plain<{cxx}, {{position}}>"
    order = "Reversed<UserLess>" if descending else "UserLess"
    return Comparison(plain.format(position="u32"), plain, cxx, dtype.itemsize, order, less)
