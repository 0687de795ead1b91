"""Several keys of one NumPy chunk as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..chunk import numpy_columns, word_layout
from ..order import Order, of_words


def pack(parts: Sequence[np.ndarray], directions: Sequence[bool]) -> np.ndarray:
    """Several keys of one chunk as one.

    Parameters
    ----------
    parts : sequence of arrays of one shape
        The most significant one first.
    directions : sequence of bool
        Whether each descends.

    Returns
    -------
    array
        Of the parts' shape, unsigned codes; or with one dimension more, words; in the order of the sort, equal where
        NumPy calls the keys equal. Or a record of columns, if NumPy has to compare one of them. `packed_order` tells.
    """
    columns = _columns([part.reshape(-1) for part in parts], directions)
    if numpy_columns.codes_of(columns) is None:
        packed = _record(columns)
    else:
        packed = word_layout.pack([column.values for column in columns], [column.bits for column in columns])
    return packed.reshape(*parts[0].shape, *packed.shape[1:])


def packed_order(dtypes: Sequence[np.dtype[Any]], directions: Sequence[bool]) -> Order:
    """The order of what `pack` gives for keys of some dtypes."""
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
    # A record cannot hold strings of variable width, but references to Python's.
    arrays = [column.values.astype(object) if column.values.dtype.kind == "T" else column.values for column in columns]
    record = np.empty(len(arrays[0]), [(f"key{number}", array.dtype) for number, array in enumerate(arrays)])
    for number, array in enumerate(arrays):
        record[f"key{number}"] = array
    return record
