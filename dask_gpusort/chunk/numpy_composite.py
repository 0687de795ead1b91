"""Packing of several keys of one NumPy chunk into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..chunk import numpy_columns, word_layout
from ..order import Order, of_words


def pack(parts: Sequence[np.ndarray], directions: Sequence[bool]) -> np.ndarray:
    """Pack several keys of one chunk, the most significant one first, into codes, or into words in a last dimension.

    They are in the order of the sort and equal where NumPy calls the keys equal; a record of columns if NumPy must
    compare one of them. See `packed_order`.
    """
    columns = _columns([part.reshape(-1) for part in parts], directions)
    if numpy_columns.codes_of(columns) is None:
        packed = _record(columns)
    else:
        packed = word_layout.pack([column.values for column in columns], [column.bits for column in columns])
    return packed.reshape(*parts[0].shape, *packed.shape[1:])


def packed_order(dtypes: Sequence[np.dtype[Any]], directions: Sequence[bool]) -> Order:
    """The order of the result of `pack` for keys of some dtypes."""
    columns = _columns([np.empty(0, dtype) for dtype in dtypes], directions)
    if numpy_columns.codes_of(columns) is None:
        return Order(_record(columns).dtype, stable=True, directions=tuple(column.descending for column in columns))
    packed = word_layout.pack([column.values for column in columns], [column.bits for column in columns])
    return Order(packed.dtype, stable=True) if packed.ndim == 1 else of_words(packed.shape[1])


def _columns(parts: Sequence[np.ndarray], directions: Sequence[bool]) -> list[numpy_columns.Column]:
    return [
        column
        for part, descending in zip(parts, directions, strict=True)
        for column in numpy_columns.columns_of(part, Order(part.dtype, descending))
    ]


def _record(columns: Sequence[numpy_columns.Column]) -> np.ndarray:
    # A record cannot hold variable-width strings, so it holds Python strings.
    arrays = [column.values.astype(object) if column.values.dtype.kind == "T" else column.values for column in columns]
    record = np.empty(len(arrays[0]), [(f"key{number}", array.dtype) for number, array in enumerate(arrays)])
    for number, array in enumerate(arrays):
        record[f"key{number}"] = array
    return record
