"""Comparison keys: a key of several columns, compared column by column.

A key that no single unsigned integer of 64 bits can stand for is taken apart into columns, most significant first::

    complex128          class | real part | imaginary part        (class: NumPy's order of NaN in either part)
    S20, V20            8 bytes | 8 bytes | 4 bytes               (big-endian words)
    U5                  2 characters | 2 | 1
    structured          columns of the first field | of the second | ...
    longdouble, object, StringDType                               (one column, compared by NumPy itself)

Nearly every column is an array of unsigned codes, so the radix sort of one chunk serves each of them.
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
from . import numpy_radix

WORD_BYTES = 8


@dataclass(frozen=True)
class Column:
    """One column of the keys.

    Attributes
    ----------
    values : array, shape (n,)
        Unsigned codes, or values that NumPy compares.
    descending : bool
        Whether larger values come first; codes are never descending, the direction is part of them.
    """

    values: np.ndarray
    descending: bool = False

    def __getitem__(self, index: Any) -> Column:
        return Column(self.values[index], self.descending)

    def argsort(self) -> np.ndarray:
        """Stable permutation that sorts the column."""
        if self.values.dtype.kind == "u":
            return numpy_radix.argsort(self.values)
        if not self.descending:
            return _argsort_compared(self.values)
        # Reversed twice, so that equal values keep their order.
        return len(self.values) - 1 - _argsort_compared(self.values[::-1])[::-1]

    def less(self, other: Column) -> np.ndarray:
        """Elementwise: whether a key comes before another in this column."""
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
    return TypeError(f"{error}: {_incomparable(values)}; give `key=`, a function to keys that compare")


def _incomparable(values: np.ndarray) -> str:
    """Name two elements that do not compare, the later one at the first place where that happens."""
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
    """Take keys apart.

    Parameters
    ----------
    array : array, shape (n,)
        Keys of ``order.dtype`` that are not coded.
    order : Order

    Returns
    -------
    list of Column
        Most significant first; never empty.
    """
    dtype = array.dtype
    if keys.code_dtype(dtype) is not None:
        codes = keys.encode(array, descending=order.descending)
        return [Column(keys.tie_floor(codes, dtype, descending=order.descending))]
    if dtype.names is not None:
        return _field_columns(array, order)
    if dtype.kind == "c":
        return _complex_columns(array, order)
    if dtype.kind == "f":
        return _nan_last(array, np.isnan(array), order)
    if dtype.kind in "SV":
        return _word_columns(_padded(array, np.uint8, WORD_BYTES).view(">u8"), order)
    if dtype.kind == "U":
        points = _padded(array, np.uint32, 2).astype(np.uint64)
        return _word_columns(points[:, 0::2] << np.uint64(32) | points[:, 1::2], order)
    if dtype.kind == "T":
        return _string_columns(array, order)
    return [Column(array, order.descending)]


def _field_columns(array: np.ndarray, order: Order) -> list[Column]:
    names = array.dtype.names or ()
    ranked = [*order.fields, *(name for name in names if name not in order.fields)]
    inner = Order(array.dtype, order.descending)
    found = []
    for name in ranked:
        field = array[name]
        # NumPy compares a field that is an array by its raw bytes.
        flat = field if field.ndim == 1 else _raw_bytes(field)
        found += columns_of(flat, inner)
    return found or [Column(np.zeros(len(array), np.uint8))]


def _raw_bytes(field: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(field).reshape(len(field), math.prod(field.shape[1:]))
    width = flat.shape[1] * flat.itemsize
    return flat.view(f"V{width}").ravel() if width else np.zeros(len(field), "V1")


def _complex_columns(array: np.ndarray, order: Order) -> list[Column]:
    real_nan, imag_nan = np.isnan(array.real), np.isnan(array.imag)
    inner = Order(array.real.dtype, order.descending)
    found = [Column(2 * real_nan.astype(np.uint8) + imag_nan)]
    for part, nan in ((array.real, real_nan), (array.imag, imag_nan)):
        found += columns_of(np.where(nan, part.dtype.type(0), part), inner)
    return found


def _nan_last(array: np.ndarray, nan: np.ndarray, order: Order) -> list[Column]:
    """A float that has no code: NumPy compares it, and NaN goes by a column before it."""
    value = np.where(nan, array.dtype.type(0), array)
    return [Column(nan.astype(np.uint8)), Column(-value if order.descending else value)]


def _string_columns(array: np.ndarray, order: Order) -> list[Column]:
    """Variable-width strings; missing ones that are like NaN go last."""
    na = getattr(array.dtype, "na_object", "")
    if not (isinstance(na, float) and na != na):
        return [Column(array, order.descending)]
    missing = np.isnan(array)
    present = array.copy()
    present[missing] = ""
    return [Column(missing.astype(np.uint8)), Column(present, order.descending)]


def _padded(array: np.ndarray, unit: type, multiple: int) -> np.ndarray:
    """Fixed-width strings as rows of units, zeros appended up to a multiple of units."""
    contiguous = np.ascontiguousarray(array)
    if not contiguous.dtype.isnative:
        contiguous = contiguous.astype(contiguous.dtype.newbyteorder("="))
    width = contiguous.itemsize // np.dtype(unit).itemsize
    rows: np.ndarray = np.zeros((len(array), max(1, -(-width // multiple)) * multiple), unit)
    if width and len(array):
        rows[:, :width] = contiguous.view(unit).reshape(len(array), width)
    return rows


def _word_columns(words: np.ndarray, order: Order) -> list[Column]:
    native = words.astype(np.uint64)
    return [Column(np.ascontiguousarray(~w if order.descending else w)) for w in native.T]


def argsort_columns(found: Sequence[Column]) -> np.ndarray:
    """Stable permutation that sorts keys by all their columns.

    The first column sorts everything; each later one only the keys that still tie.

    Parameters
    ----------
    found : sequence of Column
        Most significant first, all of length n.

    Returns
    -------
    int64 array, shape (n,)
    """
    permutation = found[0].argsort().astype(np.int64)
    starts = np.ones(len(permutation), bool)
    starts[1:] = _changes(found[:1], permutation)
    for column in found[1:]:
        tied = np.flatnonzero(~starts | ~np.append(starts[1:], True))
        if not len(tied):
            break
        # Sorting by the column, then stably by the run of ties, keeps every tie in its place.
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


def differ(first: np.ndarray, second: np.ndarray, order: Order) -> np.ndarray:
    """Elementwise: whether keys differ."""
    pairs = zip(columns_of(first, order), columns_of(second, order), strict=True)
    return np.logical_or.reduce([one.differs(other) for one, other in pairs])


def less(first: Sequence[Column], second: Sequence[Column]) -> np.ndarray:
    """Elementwise: whether keys come before others."""
    result = np.zeros(len(first[0].values), bool)
    open_ = np.ones(len(result), bool)
    for one, other in zip(first, second, strict=True):
        result |= open_ & one.less(other)
        open_ &= ~one.differs(other)
    return result


def search(array: np.ndarray, needles: np.ndarray, order: Order, side: Side) -> np.ndarray:
    """`numpy.searchsorted` for keys of several columns.

    Parameters
    ----------
    array : array, shape (n,)
        Sorted keys.
    needles : array, shape (m,)
    order : Order
    side : {"left", "right"}

    Returns
    -------
    int64 array, shape (m,)
        How many keys come before ("left"), or not after ("right"), each needle.
    """
    low = np.zeros(len(needles), np.int64)
    high = np.full(len(needles), len(array), np.int64)
    wanted = columns_of(needles, order)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        probed = columns_of(array[np.minimum(middle, len(array) - 1)], order)
        before = less(probed, wanted) if side == "left" else ~less(wanted, probed)
        low = np.where(open_ & before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    return low
