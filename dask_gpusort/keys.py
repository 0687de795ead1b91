"""Order-preserving unsigned codes of NumPy keys, and back.

A radix step sees unsigned integers only. This module alone knows what a key
means: the order of signed numbers, NaN of both signs, -0.0, NaT, and what
``descending`` does to them. The order is the one NumPy 2.5 sorts in: NaN and
NaT last in *both* directions, complex numbers by NumPy's classes of NaN.

    dtype                code                                    last
    unsigned, bool       u                                       -
    signed               u ^ sign bit                            -
    datetime, timedelta  (u ^ sign bit) - 1                      NaT
    float                (u < 0 ? ~u : u ^ sign bit) - K         NaN
    complex64            the two float32 codes, by NaN class     NaN

where ``u`` is the key's bit pattern, all arithmetic is modulo 2**bits, and K,
the number of NaN patterns of one sign, is ``2**mantissa_bits - 1``. Positive
NaNs lie above +inf already; subtracting K wraps the negative ones, which lie
below -inf, round to the top. So a float dtype with N patterns that are no NaN
has its NaNs at the codes N and above, and each keeps its payload.

Every map is one to one: decoding gives back the bits that were encoded. The
price is that keys that NumPy calls equal may differ in their codes (-0.0 and
+0.0; the NaNs). They are always neighbours, and `tie_floor` and
`tie_ceiling` give the ends of such a tie class: a sort that must keep the
input order of equal keys sorts by the floor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["code_dtype", "decode", "encode", "has_ties", "tie_ceiling", "tie_floor"]

Array = np.ndarray[Any, np.dtype[Any]]

# Elements that one step of a float map works on. Source, result and scratch
# of 2**14 eight-byte elements are 384 KiB: they stay in a 512 KiB level-2
# cache, while a ufunc call (about 1 us) stays small beside its work (10 us).
_BLOCK = 1 << 14

_CODED_KINDS = "buifmM"


@dataclass(frozen=True)
class _FloatLayout:
    """Constants of one float format's codes, as scalars of the code's dtype.

    Scalars of the very dtype keep NumPy 2's promotion from widening, and
    wrap as the maps need.
    """

    code: np.dtype[Any]
    signed: np.dtype[Any]
    bits: int
    sign: Any  # the sign bit
    nans_of_a_sign: Any  # K of the module's docstring
    first_nan: Any  # N: every code from here on is a NaN
    minus_zero: Any  # ascending code of -0.0; the next one is +0.0
    top: Any  # greatest code

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> _FloatLayout:
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


_FLOATS = {size: _FloatLayout.of(np.dtype(f"f{size}")) for size in (2, 4, 8)}

# complex64: N float32 codes are numbers and M are NaNs. The u64 codes fall
# into four classes, in NumPy's order, that fill 2**64 = (N + M)**2 exactly:
#
#     [number, number]  N*N | [number, NaN]  N*M | [NaN, number]  M*N | [NaN, NaN]  M*M
_N = int(_FLOATS[4].first_nan)
_M = (1 << 32) - _N
_NUMBERS = np.uint64(_N)
_NANS = np.uint64(_M)
_IMAG_NAN = np.uint64(_N * _N)  # first code whose imaginary part alone is NaN
_REAL_NAN = np.uint64(_N * _N + _N * _M)  # first whose real part alone is NaN
_BOTH_NAN = np.uint64(_N * _N + 2 * _N * _M)  # first whose parts are both NaN
_ZERO = np.uint64(_N // 2 - 1)  # the lower float32 code of the two zeros
_ZERO_ROW = np.uint64((_N // 2 - 1) * _N)  # first code whose real part is a zero
_ONE = np.uint64(1)
# The float32 codes as they are held while a complex code is put together.
_WIDE_FLOAT32 = replace(
    _FLOATS[4],
    first_nan=_NUMBERS,
    minus_zero=_ZERO,
    top=np.uint64((1 << 32) - 1),
)


def code_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Tell the unsigned dtype that codes keys of a dtype.

    Parameters
    ----------
    dtype : dtype or what makes one
        Dtype of the keys, of either byte order.

    Returns
    -------
    dtype or None
        Native unsigned integer of the same itemsize; None where the keys do
        not map to at most 64 bits (longdouble, complex128, strings, records,
        objects): those are compared, not coded.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return np.dtype(np.uint64) if dtype.itemsize == 8 else None
    if dtype.kind not in _CODED_KINDS or dtype.itemsize > 8:
        return None
    return np.dtype(f"u{dtype.itemsize}")


def has_ties(dtype: Any) -> bool:
    """Tell whether NumPy calls keys equal whose codes differ.

    Parameters
    ----------
    dtype : dtype or what makes one
        A dtype that `code_dtype` codes.

    Returns
    -------
    bool
        True for floats and complex64 (signed zeros, NaN payloads).

    Raises
    ------
    TypeError
        If the dtype has no codes.
    """
    dtype = np.dtype(dtype)
    _require_code(dtype)
    return dtype.kind in "fc"


def encode(keys: Array, *, descending: bool = False) -> Array:
    """Map keys one to one to unsigned codes in the order of the sort.

    Parameters
    ----------
    keys : array, any shape, strides and byte order
        Keys of a dtype that `code_dtype` codes. Left as they are.
    descending : bool
        Order the codes from the greatest key down; NaN and NaT stay last.

    Returns
    -------
    array of ``code_dtype(keys.dtype)``, same shape, C-contiguous
        New memory. This is the only copy a sort of the keys needs.

    Raises
    ------
    TypeError
        If the dtype has no codes.
    """
    keys = np.asarray(keys)
    code = _require_code(keys.dtype)
    codes = np.empty(keys.shape, code)
    if keys.dtype.kind in "fc":
        _encode_blocks(keys, codes, descending)
        return codes
    if keys.dtype.isnative:
        bits = keys.view(code)
    else:
        bits = codes
        codes.view(keys.dtype.newbyteorder("="))[...] = keys
    _encode_integers(bits, codes, keys.dtype.kind, descending)
    return codes


def decode(codes: Array, dtype: Any, *, descending: bool = False) -> Array:
    """Map codes back to the keys they were made of, bit for bit.

    Parameters
    ----------
    codes : array of ``code_dtype(dtype)``, any shape
        **Consumed**: if C-contiguous and writable, the keys are built in its
        memory and what comes back is a view of it; otherwise of a copy.
    dtype : dtype or what makes one
        Dtype of the keys, byte order included.
    descending : bool
        The direction that the codes were made for.

    Returns
    -------
    array of ``dtype``, same shape

    Raises
    ------
    TypeError
        If the dtype has no codes, or `codes` is not of its code dtype.
    """
    dtype = np.dtype(dtype)
    codes = _require_codes(codes, dtype)
    if not (codes.flags.c_contiguous and codes.flags.writeable):
        codes = codes.copy(order="C")
    if dtype.kind == "f":
        layout = _FLOATS[dtype.itemsize]
        for block in _blocks(codes.reshape(-1)):
            _decode_float(block, layout, descending)
    elif dtype.kind == "c":
        for block in _blocks(codes.reshape(-1)):
            _decode_complex(block, descending)
    else:
        _decode_integers(codes, dtype.kind, descending)
    if not dtype.isnative:
        flat = codes.reshape(-1)
        # The two parts of a complex number swap on their own.
        (flat.view(np.uint32) if dtype.kind == "c" else flat).byteswap(inplace=True)
    return codes.view(dtype)


def tie_floor(codes: Array, dtype: Any, *, descending: bool = False, out: Array | None = None) -> Array:
    """Give the least code of each code's tie class.

    Two keys are equal to NumPy exactly if their floors are equal, so a stable
    sort orders by the floor: -0.0 and +0.0 keep their input order, and so do
    NaNs of any payload.

    Parameters
    ----------
    codes : array of ``code_dtype(dtype)``, any shape
        Left as they are.
    dtype : dtype or what makes one
        Dtype of the keys.
    descending : bool
        The direction of the codes. The classes are the same sets of codes in
        both, so it changes nothing; taken so that the calls read alike.
    out : array, C-contiguous, optional
        Receives the result; may be `codes`.

    Returns
    -------
    array, same shape and dtype
        `codes` itself if the dtype has no ties, else `out`, or new memory.

    Raises
    ------
    TypeError
        If the dtype has no codes, or `codes` is not of its code dtype.
    """
    return _tie_end(codes, np.dtype(dtype), floor=True, out=out)


def tie_ceiling(codes: Array, dtype: Any, *, descending: bool = False) -> Array:
    """Give the greatest code of each code's tie class.

    The partner of `tie_floor` for searches from the right: the codes of keys
    at most ``x`` are those at most the ceiling of ``x``'s code.

    Parameters, returned array and errors are `tie_floor`'s.
    """
    return _tie_end(codes, np.dtype(dtype), floor=False)


def _require_code(dtype: np.dtype[Any]) -> np.dtype[Any]:
    code = code_dtype(dtype)
    if code is None:
        raise TypeError(
            f"keys of dtype {dtype} have no unsigned code of at most 64 bits; sort them by comparison (method='merge')"
        )
    return code


def _require_codes(codes: Array, dtype: np.dtype[Any]) -> Array:
    code = _require_code(dtype)
    codes = np.asarray(codes)
    if codes.dtype != code:
        raise TypeError(f"codes of {dtype} keys have dtype {code}, got {codes.dtype}; pass what encode() returned")
    return codes


def _blocks(flat: Array) -> Iterator[Array]:
    """Yield writable views of a flat array, `_BLOCK` elements each."""
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK]


def _encode_integers(bits: Array, out: Array, kind: str, descending: bool) -> None:
    """Encode bit patterns of bool, integer or time keys; `out` may be `bits`."""
    as_code = out.dtype.type
    width = out.dtype.itemsize * 8
    sign = 1 << (width - 1)
    if kind in "mM":
        # (u ^ sign) - 1 is u + sign - 1. Descending reflects every code but
        # NaT's, 2**64 - 1: sign - 1 - u does both, NaT being u = sign.
        less_one = as_code(sign - 1)
        if descending:
            np.subtract(less_one, bits, out=out)
        else:
            np.add(bits, less_one, out=out)
        return
    flip = sign if kind == "i" else 0
    if descending:
        # The complement is one more xor; a bool has one bit to complement.
        flip ^= 1 if kind == "b" else (1 << width) - 1
    if flip or bits is not out:
        np.bitwise_xor(bits, as_code(flip), out=out)


def _decode_integers(codes: Array, kind: str, descending: bool) -> None:
    """Undo `_encode_integers` in place."""
    if kind in "mM" and not descending:
        codes -= codes.dtype.type((1 << 63) - 1)
    else:
        # Xor with a constant and subtraction from one undo themselves.
        _encode_integers(codes, codes, kind, descending)


def _encode_blocks(keys: Array, codes: Array, descending: bool) -> None:
    """Encode float or complex keys into `codes`, a block at a time."""
    kind, flat = keys.dtype.kind, codes.reshape(-1)
    bits_dtype = np.dtype(np.uint32) if kind == "c" else codes.dtype
    source = flat.view(bits_dtype)
    if keys.flags.c_contiguous and keys.dtype.isnative:
        source = keys.reshape(-1).view(bits_dtype)
    else:
        # Strides and byte order are settled by one copy, worked on in place.
        native = keys.dtype.newbyteorder("=")
        codes.reshape(-1).view(native).reshape(keys.shape)[...] = keys
    step = source.size // max(flat.size, 1)
    layout = _FLOATS[bits_dtype.itemsize]
    for start in range(0, flat.size, _BLOCK):
        out = flat[start : start + _BLOCK]
        bits = source[start * step : (start + _BLOCK) * step]
        if kind == "f":
            _encode_float(bits, out, layout, descending)
        else:
            _encode_complex(bits, out, descending)


def _encode_float(bits: Array, out: Array, layout: _FloatLayout, descending: bool) -> None:
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


def _decode_float(codes: Array, layout: _FloatLayout, descending: bool) -> None:
    """Undo `_encode_float` in place, on one block."""
    if descending:
        np.subtract(layout.first_nan - layout.code.type(1), codes, out=codes)
        _unreflect_nans(codes, layout)
    codes += layout.nans_of_a_sign
    # The set bit now marks keys that were not negative: the shift's ones
    # become the sign bit alone, its zeros become all ones.
    flip = np.right_shift(codes.view(layout.signed), layout.bits - 1).view(layout.code)
    flip &= layout.top ^ layout.sign
    flip ^= layout.top
    codes ^= flip


def _unreflect_nans(codes: Array, layout: _FloatLayout) -> None:
    """Undo the reflection ``N - 1 - code`` where the code is a NaN's.

    Modulo 2**bits the reflection maps the numbers, below N, and the NaNs, from
    N on, each onto themselves, so that the NaNs can be told afterwards. Few
    blocks hold any, and the others pay one comparison.
    """
    nans = codes >= layout.first_nan
    if nans.any():
        last_number = layout.first_nan - layout.code.type(1)
        np.subtract(last_number, codes, out=codes, where=nans)


def _encode_complex(bits: Array, out: Array, descending: bool) -> None:
    """Encode one block of complex64 patterns, shape (2n,), into (n,) codes."""
    parts = np.empty(bits.size, np.uint32)
    _encode_float(bits, parts, _FLOATS[4], descending)
    _join_complex(parts[0::2].astype(np.uint64), parts[1::2].astype(np.uint64), out)


def _join_complex(real: Array, imag: Array, out: Array) -> None:
    """Code one block of pairs of float32 codes, both given as uint64."""
    np.multiply(real, _NUMBERS, out=out)
    out += imag
    # Zeros and NaNs are rare: the general blocks end here.
    zeros = (real - _ZERO) <= _ONE
    if zeros.any():
        # Both signs of a zero are one real part; its sign breaks ties last.
        a, b = real[zeros], imag[zeros]
        out[zeros] = _ZERO_ROW + (b << _ONE) + (a - _ZERO)
    odd = (real >= _NUMBERS) | (imag >= _NUMBERS)
    if odd.any():
        out[odd] = _encode_complex_nans(real[odd], imag[odd])


def _encode_complex_nans(real: Array, imag: Array) -> Array:
    """Code the complex keys of which at least one part's code is a NaN's."""
    real_nan, imag_nan = real >= _NUMBERS, imag >= _NUMBERS
    a, b = real - _NUMBERS, imag - _NUMBERS  # ranks among the NaNs, where they are
    both = _BOTH_NAN + a * _NANS + b
    real_only = _REAL_NAN + imag * _NANS + a
    imag_only = _IMAG_NAN + real * _NANS + b
    return np.where(real_nan, np.where(imag_nan, both, real_only), imag_only)


def _split_complex(codes: Array) -> tuple[Array, Array]:
    """Give the float32 codes, as uint64, of the two parts of complex codes."""
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


def _decode_complex(codes: Array, descending: bool) -> None:
    """Undo `_encode_complex` in place, on one block."""
    real, imag = _split_complex(codes)
    parts = codes.view(np.uint32)
    parts[0::2] = real
    parts[1::2] = imag
    _decode_float(parts, _FLOATS[4], descending)


def _tie_end(codes: Array, dtype: np.dtype[Any], *, floor: bool, out: Array | None = None) -> Array:
    codes = _require_codes(codes, dtype)
    if not has_ties(dtype):
        return codes
    ends = codes.copy(order="C") if out is None else out
    if ends is not codes and out is not None:
        ends[...] = codes
    for block in _blocks(ends.reshape(-1)):
        if dtype.kind == "f":
            _float_tie_end(block, _FLOATS[dtype.itemsize], floor)
        else:
            _complex_tie_end(block, floor)
    return ends


def _float_tie_end(codes: Array, layout: _FloatLayout, floor: bool) -> None:
    """Move one block of float codes to the end of their class, in place."""
    one = codes.dtype.type(1)
    if floor:
        np.minimum(codes, layout.first_nan, out=codes)
        codes -= codes == layout.minus_zero + one
    else:
        codes += codes == layout.minus_zero
        np.copyto(codes, layout.top, where=codes >= layout.first_nan)


def _complex_tie_end(codes: Array, floor: bool) -> None:
    """Move one block of complex codes to the end of their class, in place.

    Part by part: the rows of codes that share a real part, or a NaN's class,
    are laid out so that ends of the parts' classes are an end of the whole's.
    """
    real, imag = _split_complex(codes)
    _float_tie_end(real, _WIDE_FLOAT32, floor)
    _float_tie_end(imag, _WIDE_FLOAT32, floor)
    _join_complex(real, imag, codes)
