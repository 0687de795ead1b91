"""As-of joins of NumPy and CuPy chunks: which of the keys that a search has found belong to needles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..order import Order
from . import complete, numpy_keys, ops_for
from .checks import checked_chunk
from .reducers import missing_of


@dataclass(frozen=True)
class AsOf:
    """Say which key belongs to a needle."""

    order: Order  # of the keys, whose dtype is coded
    direction: Literal["backward", "forward", "nearest"]
    exact: bool  # whether a key may be equal to the needle
    tolerance: float | None  # greatest distance, as `_distances` gives them
    size: int  # number of keys
    label_bytes: int = 0  # of the label in front of a key: then both are bytes in their order (see `join_columns`)

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions in which a key is looked for."""
        return ("backward", "forward") if self.direction == "nearest" else (self.direction,)

    @property
    def reads_keys(self) -> bool:
        """Whether keys are compared with the needles; else every row that there is belongs to its needle."""
        # Behind the last key that is a number there may be NaN.
        more = self.direction == "nearest" or (self.direction == "forward" and self.order.dtype.kind in "fmM")
        return bool(self.label_bytes) or self.tolerance is not None or more

    def _split(self, keys: Any) -> tuple[Any, Any]:
        """The labels of keys as bytes, and the keys in the user's dtype."""
        if not self.label_bytes:
            return None, keys
        codes = np.dtype(self.order.transit_dtype)
        raw = np.ascontiguousarray(keys).view(np.uint8).reshape(*keys.shape, keys.itemsize)
        own = raw[..., self.label_bytes :].view(codes.newbyteorder(">"))[..., 0].astype(codes)
        return raw[..., : self.label_bytes], ops_for(own).decode(own, self.order)

    def find(self, needles: Any, found: Sequence[Sequence[Any]]) -> Any:
        """The rows of the keys that belong to needles, -1 where there is none.

        `found` has the rows in each direction, and the keys at these if they are read.
        """
        labels, needles = self._split(needles)
        pairs = zip(self.directions, found, strict=True)
        (rows, distances), *others = (self._near(needles, labels, *pair) for pair in pairs)
        for forward, those in others:
            rows = np.where((rows < 0) | ((forward >= 0) & (those < distances)), forward, rows)
        return rows

    def _near(self, needles: Any, labels: Any, direction: str, found: Sequence[Any]) -> tuple[Any, Any]:
        """The rows in a direction that are near enough, -1 for others, and the distances if keys are read."""
        rows, *read = found
        fits, distances = (rows >= 0) & (rows < self.size) & (needles == needles), None
        if read:
            own, keys = self._split(read[0])
            fits &= keys == keys
            if labels is not None:
                fits &= (own == labels).all(axis=-1)
            distances = _distances(*((needles, keys) if direction == "backward" else (keys, needles)))
            if self.tolerance is not None:
                fits &= distances <= self.tolerance
        return np.where(fits, rows, -1), distances


def _distances(later: Any, earlier: Any) -> Any:
    """The distances of keys that are in this order, without overflow; those of others have no meaning."""
    if later.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return np.where(later == earlier, 0, later - earlier)
    unsigned = np.dtype(f"u{later.itemsize}")
    return later.view(unsigned) - earlier.view(unsigned)


def find_rows(needles: Any, *found: Any, as_of: AsOf) -> Any:
    """Task: the rows that belong to needles; see `AsOf.find`."""
    each = len(found) // len(as_of.directions)
    return complete(as_of.find(needles, [list(found[at : at + each]) for at in range(0, len(found), each)]))


def fill_missing(found: Any, rows: Any, to: np.dtype[Any]) -> Any:
    """Task: what was read at rows, in a dtype; NaN, or -1 of integers, where there is no row."""
    filled = found.astype(to)
    filled[rows < 0] = -1 if to.kind == "i" else missing_of(to)
    return complete(filled)


def join_columns(*columns: Any, names: Sequence[str], expected: Sequence[Any], to: Sequence[np.dtype[Any]]) -> Any:
    """Task: columns, converted to dtypes, as bytes in the order of all, the first one most significant."""
    parts = []
    for one, name, dtype, own in zip(columns, names, expected, to, strict=True):
        checked = checked_chunk(one, dtype, f"a chunk of {name}", exact=True)
        parts.append(_bytes_of(checked.astype(own, copy=False), Order(own, stable=True)))
    joined = np.ascontiguousarray(np.concatenate(parts, axis=-1))
    return joined.view(f"S{joined.shape[-1]}")[..., 0]


def _bytes_of(array: np.ndarray, order: Order) -> np.ndarray:
    """Bytes in the order of an array of numbers, dates or strings, shape (..., bytes)."""
    if order.coded:
        codes = numpy_keys.floor(numpy_keys.encode(array, order), order)
    else:
        unit = np.uint8 if array.dtype.kind == "S" else np.uint32
        codes = np.ascontiguousarray(array).view(unit).reshape(*array.shape, array.itemsize // np.dtype(unit).itemsize)
    codes = np.atleast_1d(codes.astype(codes.dtype.newbyteorder(">")))  # else it has no view in bytes
    return codes.view(np.uint8).reshape(*array.shape, array.itemsize)
