"""Codes of keys of any dtype, the inverse maps, and the ends of classes of equal keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .floats import (
    FLOATS,
    Array,
    complex_tie_end,
    decode_complex,
    decode_float,
    encode_complex,
    encode_float,
    float_tie_end,
)

#: Keys in a block of one pass over memory. Every NumPy call takes the interpreter's lock once, and with many threads at
#: work that takes longer than the call's work on a small block. 2**28 float64 in 64 chunks on 16 threads of a Xeon: in
#: blocks of 2**14 keys 2.1 s, 2**16 1.16 s, 2**18 1.13 s, whole chunks 1.17 s. One thread takes the same time for 2**15
#: to 2**19 keys (level-2 caches of 1 and 2 MiB).
BLOCK_KEYS = 1 << 19

_CODED_KINDS = "buifmM"


def code_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Find the native unsigned dtype of the codes of a key dtype, of the same itemsize."""
    # None means that keys do not map to at most 64 bits (longdouble, complex128, strings, records, objects): these are
    # compared, not coded.
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return np.dtype(np.uint64) if dtype.itemsize == 8 else None
    if dtype.kind not in _CODED_KINDS or dtype.itemsize > 8:
        return None
    return np.dtype(f"u{dtype.itemsize}")


def has_ties(dtype: Any) -> bool:
    """Tell whether keys that NumPy calls equal may have different codes: signed zeros, NaN payloads."""
    dtype = np.dtype(dtype)
    _require_code(dtype)
    return dtype.kind in "fc"


def encode(keys: Array, *, descending: bool = False) -> Array:
    """Map keys of any strides and byte order one to one to C-contiguous unsigned codes in the order of the sort."""
    # NaN and NaT stay last. The new memory is the only copy that a sort of the keys needs.
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
    """Map codes back to the original keys, bit for bit, byte order included."""
    # Codes are **consumed**: if C-contiguous and writable, the keys are built in their memory, else in a copy.
    dtype = np.dtype(dtype)
    codes = _require_codes(codes, dtype)
    if not (codes.flags.c_contiguous and codes.flags.writeable):
        codes = codes.copy(order="C")
    if dtype.kind == "f":
        layout = FLOATS[dtype.itemsize]
        for block in _blocks(codes.reshape(-1)):
            decode_float(block, layout, descending)
    elif dtype.kind == "c":
        for block in _blocks(codes.reshape(-1)):
            decode_complex(block, descending)
    else:
        _decode_integers(codes, dtype.kind, descending)
    if not dtype.isnative:
        flat = codes.reshape(-1)
        # The two parts of a complex number are swapped separately.
        (flat.view(np.uint32) if dtype.kind == "c" else flat).byteswap(inplace=True)
    return codes.view(dtype)


def tie_floor(codes: Array, dtype: Any, *, descending: bool = False, out: Array | None = None) -> Array:
    """Find the least code of each code's tie class, in `out`, which may be `codes`; without ties, it gives `codes`."""
    # NumPy calls two keys equal exactly if their floors are equal, so a stable sort orders by the floor: -0.0 and +0.0
    # keep their input order, and so do NaNs with any payload. The tie classes are the same sets of codes in both
    # directions, so `descending` has no effect; it keeps calls uniform.
    return _tie_end(codes, np.dtype(dtype), floor=True, out=out)


def tie_ceiling(codes: Array, dtype: Any, *, descending: bool = False) -> Array:
    """Find the greatest code of each code's tie class, with the arguments of `tie_floor`."""
    # Used in searches from the right: the codes of keys up to ``x`` are those up to the ceiling of the code of ``x``.
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
    """Yield writable views of a flat array, `BLOCK_KEYS` elements each."""
    for start in range(0, flat.size, BLOCK_KEYS):
        yield flat[start : start + BLOCK_KEYS]


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
        # The complement is one more xor; a bool has one bit.
        flip ^= 1 if kind == "b" else (1 << width) - 1
    if flip or bits is not out:
        np.bitwise_xor(bits, as_code(flip), out=out)


def _decode_integers(codes: Array, kind: str, descending: bool) -> None:
    """Undo `_encode_integers` in place."""
    if kind in "mM" and not descending:
        codes -= codes.dtype.type((1 << 63) - 1)
    else:
        # Xor with a constant is its own inverse, and so is subtraction from a constant.
        _encode_integers(codes, codes, kind, descending)


def _encode_blocks(keys: Array, codes: Array, descending: bool) -> None:
    """Encode float or complex keys into `codes`, a block at a time."""
    kind, flat = keys.dtype.kind, codes.reshape(-1)
    bits_dtype = np.dtype(np.uint32) if kind == "c" else codes.dtype
    source = flat.view(bits_dtype)
    if keys.flags.c_contiguous and keys.dtype.isnative:
        source = keys.reshape(-1).view(bits_dtype)
    else:
        # One copy resolves strides and byte order; the codes are then made in place.
        native = keys.dtype.newbyteorder("=")
        codes.reshape(-1).view(native).reshape(keys.shape)[...] = keys
    step = source.size // max(flat.size, 1)
    layout = FLOATS[bits_dtype.itemsize]
    for start in range(0, flat.size, BLOCK_KEYS):
        out = flat[start : start + BLOCK_KEYS]
        bits = source[start * step : (start + BLOCK_KEYS) * step]
        if kind == "f":
            encode_float(bits, out, layout, descending)
        else:
            encode_complex(bits, out, descending)


def _tie_end(codes: Array, dtype: np.dtype[Any], *, floor: bool, out: Array | None = None) -> Array:
    codes = _require_codes(codes, dtype)
    if not has_ties(dtype):
        return codes
    ends = codes.copy(order="C") if out is None else out
    if ends is not codes and out is not None:
        ends[...] = codes
    for block in _blocks(ends.reshape(-1)):
        if dtype.kind == "f":
            float_tie_end(block, FLOATS[dtype.itemsize], floor)
        else:
            complex_tie_end(block, floor)
    return ends
