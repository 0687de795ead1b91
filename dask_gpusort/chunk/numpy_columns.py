"""Comparison keys: keys of several columns, compared column by column.

A key without a code of at most 64 bits is split into columns, most significant first::

    complex128          real part | imaginary part                (NaN in either part: see `_complex_columns`)
    S20, V20            8 bytes | 8 bytes | 4 bytes               (big-endian numbers)
    U5                  a column for each character           (narrow, as letters are few)
    structured          columns of the first field | of the second | ...
    longdouble, object, StringDType                               (compared by NumPy, after a bit for NaN)

If every column is an array of unsigned codes, they are sorted together (`numpy_words`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import keys
from ..order import Order
from ..table import Side
from . import numpy_radix, numpy_words
from .numpy_less import rank_by
from .tie_groups import may_be_nan


@dataclass(frozen=True)
class Column:
    """Hold one column of the keys."""

    values: np.ndarray  # shape (n,): unsigned codes, or values that NumPy compares
    descending: bool = False  # whether larger values come first; False for codes, which contain the direction
    bits: int = 0  # width of codes: every value is below ``2**bits``; 0 for values that NumPy compares

    def __getitem__(self, index: Any) -> Column:
        return Column(self.values[index], self.descending, self.bits)

    def argsort(self) -> np.ndarray:
        """Find the stable permutation that sorts the column."""
        if self.bits:
            return numpy_radix.argsort(np.ascontiguousarray(self.values, self.values.dtype.newbyteorder("=")))
        if not self.descending:
            return _argsort_compared(self.values)
        # Reversed twice, so that equal values keep their order.
        return len(self.values) - 1 - _argsort_compared(self.values[::-1])[::-1]

    def less(self, other: Column) -> np.ndarray:
        """Tell elementwise whether a key comes before another in this column."""
        first, second = (other, self) if self.descending else (self, other)
        try:
            return np.less(first.values, second.values).astype(bool)
        except TypeError as error:
            raise _named(error, np.concatenate([first.values, second.values])) from error

    def differs(self, other: Column) -> np.ndarray:
        return np.not_equal(self.values, other.values).astype(bool)


def _argsort_compared(values: np.ndarray) -> np.ndarray:
    try:
        return np.argsort(values, kind="stable")
    except TypeError as error:
        raise _named(error, values) from error


def _named(error: TypeError, values: np.ndarray) -> TypeError:
    return TypeError(
        f"{error}: {_incomparable(values)}; give others, or sort by `key=`, a function to keys that compare"
    )


def _incomparable(values: np.ndarray) -> str:
    """Name two elements that cannot be compared, the later one as early as possible."""
    seen: dict[type, Any] = {}
    for position, value in enumerate(values.ravel()):
        for other in seen.values():
            try:
                bool(value < other), bool(other < value)
            except TypeError:
                return f"could not compare {value!r} (element {position} of a chunk) with {other!r}"
        seen.setdefault(type(value), value)
    return "could not compare the elements"


def columns_of(array: np.ndarray, order: Order) -> list[Column]:
    """Split keys of ``order.dtype`` that are not coded into columns, most significant first; never none."""
    dtype = array.dtype
    if keys.code_dtype(dtype) is not None:
        return [_coded(array, order)]
    if dtype.names is not None:
        return _field_columns(array, order)
    if dtype.kind == "c":
        return _complex_columns(array, order)
    if dtype.kind == "f":
        return _nan_last(array, np.isnan(array), order)
    if dtype.kind in "SV":
        return _byte_columns(array, order)
    if dtype.kind == "U":
        return _character_columns(array, order)
    if dtype.kind == "T":
        return _string_columns(array, order)
    return _object_columns(array, order)


def _coded(array: np.ndarray, order: Order) -> Column:
    codes = keys.encode(array, descending=order.descending)
    bits = 1 if array.dtype.kind == "b" else 8 * codes.dtype.itemsize
    return Column(keys.tie_floor(codes, array.dtype, descending=order.descending, out=codes), bits=bits)


def _field_columns(array: np.ndarray, order: Order) -> list[Column]:
    names = array.dtype.names or ()
    ranked = [*order.fields, *(name for name in names if name not in order.fields)]
    directions = dict(zip(names, order.directions, strict=True)) if order.directions else {}
    found = []
    for name in ranked:
        field = array[name]
        # NumPy compares a field that is an array by its raw bytes.
        flat = field if field.ndim == 1 else _raw_bytes(field)
        found += columns_of(flat, Order(flat.dtype, directions.get(name, order.descending)))
    return found or [Column(np.zeros(len(array), np.uint8), bits=1)]


def _raw_bytes(field: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(field).reshape(len(field), math.prod(field.shape[1:]))
    width = flat.shape[1] * flat.itemsize
    return flat.view(f"V{width}").ravel() if width else np.zeros(len(field), "V1")


def _complex_columns(array: np.ndarray, order: Order) -> list[Column]:
    """Give the two parts, in NumPy's order of NaN in either of them.

    The codes of numbers are below that of NaN, so the classes of NaN follow::

        real, imag    number, number    number, NaN    NaN, number    NaN, NaN
        first         real              NaN            NaN + 1        NaN + 2
        second        imag              real           imag           0
    """
    inner = Order(array.real.dtype, order.descending)
    if keys.code_dtype(inner.dtype) is None:
        return _long_complex_columns(array, inner)
    real, imag = (_coded(part, inner) for part in (array.real, array.imag))
    first, second = real.values, imag.values
    nan = keys.tie_floor(keys.encode(np.array([np.nan], inner.dtype)), inner.dtype)[0]
    real_nan, imag_nan = first == nan, second == nan
    if imag_nan.any():
        second = np.where(imag_nan, np.where(real_nan, nan.dtype.type(0), first), second)
    if real_nan.any() or imag_nan.any():
        first = np.where(imag_nan & ~real_nan, nan, np.where(real_nan, first + nan.dtype.type(1) + imag_nan, first))
    return [Column(first, bits=real.bits), Column(second, bits=imag.bits)]


def _long_complex_columns(array: np.ndarray, inner: Order) -> list[Column]:
    real_nan, imag_nan = np.isnan(array.real), np.isnan(array.imag)
    found = [Column(2 * real_nan.astype(np.uint8) + imag_nan, bits=2)]
    for part, nan in ((array.real, real_nan), (array.imag, imag_nan)):
        found += columns_of(np.where(nan, part.dtype.type(0), part), inner)
    return found


def _nan_last(array: np.ndarray, nan: np.ndarray, order: Order) -> list[Column]:
    """Floats without a code: NumPy compares them, after a column for NaN."""
    value = np.where(nan, array.dtype.type(0), array)
    return [Column(nan.astype(np.uint8), bits=1), Column(-value if order.descending else value)]


def _string_columns(array: np.ndarray, order: Order) -> list[Column]:
    """Variable-width strings; missing strings that are NaN go last."""
    check_strings(array)
    if not may_be_nan(array.dtype):
        return [Column(array, order.descending)]
    return _missing_last(array, np.isnan(array), "", order)


def check_strings(array: np.ndarray) -> None:
    """Refuse missing strings without an order, which are neither NaN nor strings."""
    if not isinstance(missing := getattr(array.dtype, "na_object", ""), str) and not may_be_nan(array.dtype):
        # NumPy takes them as equal to the empty string.
        for position in np.flatnonzero(array == np.array([missing], array.dtype)).tolist():
            if not isinstance(array.flat[position], str):
                raise ValueError(
                    f"Cannot compare null that is not a nan-like value: {missing!r} (element {position} of a chunk); "
                    "make it NaN, which is last, with astype(numpy.dtypes.StringDType(na_object=numpy.nan))"
                )


class _Least:
    """Come before every other object: a filler for missing ones."""

    def __lt__(self, other: object) -> bool:
        return other is not self

    def __gt__(self, other: object) -> bool:
        return False

    def __reduce__(self) -> str:
        return "_LEAST"


_LEAST = _Least()


def _object_columns(array: np.ndarray, order: Order) -> list[Column]:
    """Python objects; objects that differ from themselves, as NaN does, go last."""
    try:
        missing = np.not_equal(array, array).astype(bool)
    except TypeError as error:
        raise _named(error, array) from error
    return _missing_last(array, missing, _LEAST, order)


def _missing_last(array: np.ndarray, missing: np.ndarray, filler: Any, order: Order) -> list[Column]:
    present = array
    if missing.any():
        present = array.copy()
        present[missing] = filler
    return [Column(missing.astype(np.uint8), bits=1), Column(present, order.descending)]


def _code_points(array: np.ndarray) -> np.ndarray:
    """The characters of text, shape (n, width)."""
    native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    width = native.itemsize // np.dtype(np.uint32).itemsize
    return native.view(np.uint32).reshape(len(array), width) if array.nbytes else np.empty((len(array), width), "u4")


def fits_bytes(array: np.ndarray) -> bool:
    """Tell whether keys are text whose characters fit one byte each."""
    return array.dtype.kind == "U" and array.nbytes > 0 and int(_code_points(array).max()) < 1 << 8


def _character_columns(array: np.ndarray, order: Order) -> list[Column]:
    points = _code_points(array)
    width = points.shape[1]
    if not width:
        return [Column(np.zeros(len(array), np.uint32), bits=32)]
    return [Column(~points[:, index] if order.descending else points[:, index], bits=32) for index in range(width)]


def _byte_columns(array: np.ndarray, order: Order) -> list[Column]:
    """Strings of bytes as big-endian numbers of 8 bytes, and of 4, 2 and 1 behind them; views."""
    # NumPy reads a field wherever it begins.
    found, begin = [], 0
    for width in (8,) * (array.itemsize // 8) + tuple(width for width in (4, 2, 1) if array.itemsize & width):
        fields = np.dtype({"names": ["f"], "formats": [f">u{width}"], "offsets": [begin], "itemsize": array.itemsize})
        values = array.view(fields)["f"]
        found.append(Column(~values if order.descending else values, bits=8 * width))
        begin += width
    return found or [Column(np.zeros(len(array), np.uint8), bits=1)]


def codes_of(found: Sequence[Column]) -> list[np.ndarray] | None:
    """Give the columns as unsigned arrays; None if NumPy must compare one of them."""
    return [column.values for column in found] if all(column.bits for column in found) else None


def argsort(array: np.ndarray, order: Order) -> np.ndarray:
    """Find the stable permutation that sorts keys without codes, shape (n,)."""
    if fits_bytes(array):  # bytes have the same order, and eight of them are one number
        array = _code_points(array).astype(np.uint8).view(f"S{array.itemsize // 4}")[:, 0]
    return argsort_columns(columns_of(array, order))


def argsort_columns(found: Sequence[Column]) -> np.ndarray:
    """Find the stable permutation that sorts keys by all their columns, most significant first."""
    # Columns of codes are sorted together. Otherwise the first column sorts all keys, and later ones those that tie.
    codes = codes_of(found)
    if codes is not None:
        return numpy_words.argsort(codes)
    permutation = found[0].argsort().astype(np.int64)
    starts = np.ones(len(permutation), bool)
    starts[1:] = _changes(found[:1], permutation)
    for column in found[1:]:
        tied = np.flatnonzero(~starts | ~np.append(starts[1:], True))
        if not len(tied):
            break
        # A sort by the column, then a stable sort by the tie group, keeps every key in its group.
        group = np.cumsum(starts)[tied].astype(np.uint64)
        by_column = column[permutation[tied]].argsort()
        arranged = by_column[numpy_radix.argsort(group[by_column])]
        permutation[tied] = permutation[tied[arranged]]
        starts[tied[1:]] |= _changes([column], permutation[tied])
    return permutation


def _changes(found: Sequence[Column], permutation: np.ndarray) -> np.ndarray:
    """Where neighbours differ in any of the columns, shape (n - 1,)."""
    changed = np.zeros(max(len(permutation) - 1, 0), bool)
    for column in found:
        ordered = column[permutation]
        changed |= ordered[1:].differs(ordered[:-1])
    return changed


def alike(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of keys to be compared, which need the same columns: text of two widths gets the wider one."""
    if first.dtype != second.dtype and first.dtype.kind in "SU":
        dtype = np.result_type(first, second)
        return first.astype(dtype, copy=False), second.astype(dtype, copy=False)
    return first, second


def differ(first: np.ndarray, second: np.ndarray, order: Order) -> np.ndarray:
    """Tell elementwise whether keys differ."""
    pairs = zip(*(columns_of(keys, order) for keys in alike(first, second)), strict=True)
    return np.logical_or.reduce([one.differs(other) for one, other in pairs])


def less(first: Sequence[Column], second: Sequence[Column]) -> np.ndarray:
    """Tell elementwise whether keys come before others."""
    result = np.zeros(len(first[0].values), bool)
    open_ = np.ones(len(result), bool)
    for one, other in zip(first, second, strict=True):
        result |= open_ & one.less(other)
        open_ &= ~one.differs(other)
    return result


def search(array: np.ndarray, needles: np.ndarray, order: Order, side: Side) -> np.ndarray:
    """Rank needles among sorted keys of several columns, as `numpy.searchsorted`."""
    array, needles = alike(array, needles)
    columns = columns_of(needles, order)
    return rank_by(less, len(array), lambda at: columns_of(array[at], order), columns, len(needles), side)
