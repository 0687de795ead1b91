"""Codes of floats, a block at a time (see the package's table)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class FloatLayout:
    """Constants of one float format's codes, as scalars of the code's dtype.

    Scalars of exactly this dtype avoid promotion to a wider one in NumPy 2,
    and wrap as the maps need.
    """

    code: np.dtype[Any]
    signed: np.dtype[Any]
    bits: int
    sign: Any  # the sign bit
    nans_of_a_sign: Any  # K of the package's docstring
    first_nan: Any  # N: every code from here on is a NaN
    minus_zero: Any  # ascending code of -0.0; the next one is +0.0
    top: Any  # greatest code

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> FloatLayout:
        bits = dtype.itemsize * 8
        code = np.dtype(f"u{dtype.itemsize}")
        as_code = code.type
        nans = (1 << int(np.finfo(dtype).nmant)) - 1
        count = (1 << bits) - 2 * nans
        return cls(
            code=code,
            signed=np.dtype(f"i{dtype.itemsize}"),
            bits=bits,
            sign=as_code(1 << (bits - 1)),
            nans_of_a_sign=as_code(nans),
            first_nan=as_code(count),
            minus_zero=as_code(count // 2 - 1),
            top=as_code((1 << bits) - 1),
        )


FLOATS = {size: FloatLayout.of(np.dtype(f"f{size}")) for size in (2, 4, 8)}


def encode_float(bits: Array, out: Array, layout: FloatLayout, descending: bool) -> None:
    """Encode one block of float patterns; `out` may be `bits`."""
    # Arithmetic shift: all ones under a set sign bit, else zeros. With the
    # sign bit or-ed in, one xor is ~u for negative keys and u ^ sign for others.
    flip = np.right_shift(bits.view(layout.signed), layout.bits - 1).view(layout.code)
    flip |= layout.sign
    np.bitwise_xor(bits, flip, out=out)
    if descending:
        # N - 1 - code, in one step: N - 1 - (t - K) = -1 - K - t modulo 2**bits.
        np.subtract(layout.top - layout.nans_of_a_sign, out, out=out)
        _unreflect_nans(out, layout)
    else:
        out -= layout.nans_of_a_sign


def decode_float(codes: Array, layout: FloatLayout, descending: bool) -> None:
    """Undo `encode_float` in place, on one block."""
    if descending:
        np.subtract(layout.first_nan - layout.code.type(1), codes, out=codes)
        _unreflect_nans(codes, layout)
    codes += layout.nans_of_a_sign
    # The sign bit is now set for keys that were not negative: turn the
    # shift's ones into the sign bit alone, and its zeros into all ones.
    flip = np.right_shift(codes.view(layout.signed), layout.bits - 1).view(layout.code)
    flip &= layout.top ^ layout.sign
    flip ^= layout.top
    codes ^= flip


def _unreflect_nans(codes: Array, layout: FloatLayout) -> None:
    """Undo the reflection ``N - 1 - code`` for the codes of NaNs."""
    # Modulo 2**bits the reflection maps the numbers, below N, to numbers and the NaNs, from N on, to NaNs, so the NaNs
    # are still recognisable. Few blocks have any; the others cost one comparison.
    nans = codes >= layout.first_nan
    if nans.any():
        last_number = layout.first_nan - layout.code.type(1)
        np.subtract(last_number, codes, out=codes, where=nans)


def float_tie_end(codes: Array, layout: FloatLayout, floor: bool) -> None:
    """Move one block of float codes to the end of their class, in place."""
    one = codes.dtype.type(1)
    if floor:
        np.minimum(codes, layout.first_nan, out=codes)
        codes -= codes == layout.minus_zero + one
    else:
        codes += codes == layout.minus_zero
        np.copyto(codes, layout.top, where=codes >= layout.first_nan)
