"""Codes of floats, and of complex numbers by their two parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class FloatLayout:
    """Constants of one float format's codes, as scalars of the code's dtype."""

    # Scalars of exactly this dtype avoid promotion to a wider one in NumPy 2, and wrap as the maps need.

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


# complex64: N float32 codes are numbers and M are NaNs. The u64 codes fall
# into four classes, in NumPy's order, that fill 2**64 = (N + M)**2 exactly:
#
#     [number, number]  N*N | [number, NaN]  N*M | [NaN, number]  M*N | [NaN, NaN]  M*M
_N = int(FLOATS[4].first_nan)
_M = (1 << 32) - _N
_NUMBERS = np.uint64(_N)
_NANS = np.uint64(_M)
_IMAG_NAN = np.uint64(_N * _N)  # first code whose imaginary part alone is NaN
_REAL_NAN = np.uint64(_N * _N + _N * _M)  # first whose real part alone is NaN
_BOTH_NAN = np.uint64(_N * _N + 2 * _N * _M)  # first whose parts are both NaN
_ZERO = np.uint64(_N // 2 - 1)  # the lower float32 code of the two zeros
_ZERO_ROW = np.uint64((_N // 2 - 1) * _N)  # first code whose real part is a zero
_ONE = np.uint64(1)
# The layout of float32 codes while a complex code is built from them.
_WIDE_FLOAT32 = replace(
    FLOATS[4],
    first_nan=_NUMBERS,
    minus_zero=_ZERO,
    top=np.uint64((1 << 32) - 1),
)


def encode_complex(bits: Array, out: Array, descending: bool) -> None:
    """Encode one block of complex64 patterns, shape (2n,), into (n,) codes."""
    parts = np.empty(bits.size, np.uint32)
    encode_float(bits, parts, FLOATS[4], descending)
    _join_complex(parts[0::2].astype(np.uint64), parts[1::2].astype(np.uint64), out)


def _join_complex(real: Array, imag: Array, out: Array) -> None:
    """Code one block of pairs of float32 codes, both given as uint64."""
    np.multiply(real, _NUMBERS, out=out)
    out += imag
    # Zeros and NaNs are rare: most blocks need nothing more.
    zeros = (real - _ZERO) <= _ONE
    if zeros.any():
        # Both signs of a zero are one real part; its sign breaks ties last.
        a, b = real[zeros], imag[zeros]
        out[zeros] = _ZERO_ROW + (b << _ONE) + (a - _ZERO)
    odd = (real >= _NUMBERS) | (imag >= _NUMBERS)
    if odd.any():
        out[odd] = _encode_complex_nans(real[odd], imag[odd])


def _encode_complex_nans(real: Array, imag: Array) -> Array:
    """Code complex keys with a NaN in at least one part."""
    real_nan, imag_nan = real >= _NUMBERS, imag >= _NUMBERS
    a, b = real - _NUMBERS, imag - _NUMBERS  # ranks among the NaNs, where they are
    both = _BOTH_NAN + a * _NANS + b
    real_only = _REAL_NAN + imag * _NANS + a
    imag_only = _IMAG_NAN + real * _NANS + b
    return np.where(real_nan, np.where(imag_nan, both, real_only), imag_only)


def _split_complex(codes: Array) -> tuple[Array, Array]:
    """The float32 codes, as uint64, of the two parts of complex codes."""
    real = codes // _NUMBERS
    imag = codes - real * _NUMBERS
    zeros = (real - _ZERO) <= _ONE
    if zeros.any():
        rank = codes[zeros] - _ZERO_ROW
        real[zeros] = _ZERO + (rank & _ONE)
        imag[zeros] = rank >> _ONE
    odd = codes >= _IMAG_NAN
    if odd.any():
        real[odd], imag[odd] = _split_complex_nans(codes[odd])
    return real, imag


def _split_complex_nans(codes: Array) -> tuple[Array, Array]:
    """Undo `_encode_complex_nans`."""
    first = np.where(codes < _REAL_NAN, _IMAG_NAN, np.where(codes < _BOTH_NAN, _REAL_NAN, _BOTH_NAN))
    rank = codes - first
    major = rank // _NANS
    minor = rank - major * _NANS + _NUMBERS
    real_only = first == _REAL_NAN
    both = first == _BOTH_NAN
    real = np.where(real_only, minor, np.where(both, major + _NUMBERS, major))
    imag = np.where(real_only, major, minor)
    return real, imag


def decode_complex(codes: Array, descending: bool) -> None:
    """Undo `encode_complex` in place, on one block."""
    real, imag = _split_complex(codes)
    parts = codes.view(np.uint32)
    parts[0::2] = real
    parts[1::2] = imag
    decode_float(parts, FLOATS[4], descending)


def complex_tie_end(codes: Array, floor: bool) -> None:
    """Move one block of complex codes to the end of their class, in place."""
    # Part by part: codes with equal real parts, or with equal NaN classes, are contiguous, so the ends of the parts'
    # classes give the end of the class.
    real, imag = _split_complex(codes)
    float_tie_end(real, _WIDE_FLOAT32, floor)
    float_tie_end(imag, _WIDE_FLOAT32, floor)
    _join_complex(real, imag, codes)
