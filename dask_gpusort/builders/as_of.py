r"""As-of joins: a search finds a row for each element, and reads at the rows say whether they are near enough.

::

    right --.                      .--> keys at the rows --.
             search --> a row each                          rows, -1 where none is near --> values at the rows
    left ---'                      `-----------------------'

With labels, a label and a key are one string of bytes in the order of both (see `chunk.as_of`), by which the right side
is sorted first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np

from ..chunk.as_of import AsOf, fill_missing, find_rows, join_columns
from ..chunk.tie_groups import may_be_nan
from ..graph.inputs import blockwise, same_chunks
from .positions import build_take
from .request import Options
from .searches import build_search
from .sort import build_sort


def build_as_of(
    left: Any, right: Any, values: Sequence[Any] | None, labels: Sequence[Any], as_of: AsOf
) -> tuple[Any, ...]:
    """Find the values at the rows of `right` that belong to elements of `left`, or the rows if there are no values.

    Labels, if there are any, are those of both sides, of dtypes that can be equal.
    """
    needles, keys = (one.astype(as_of.order.dtype) for one in (left, right))
    moved = [] if values is None else list(values)
    if labels:
        dtype = np.result_type(*(one.dtype for one in labels))
        needles, keys = (
            as_bytes(one.chunks, (own, one), (dtype, as_of.order.dtype), ("by", side))
            for one, own, side in zip((needles, keys), labels, ("left", "right"), strict=True)
        )
        as_of = replace(as_of, label_bytes=dtype.itemsize)
        moved = moved or [da.arange(as_of.size, chunks=(right.chunks[0],), dtype=np.dtype(np.int64))]
        keys, *moved = build_sort(Options(), "both", keys, moved, axis=0)
    if not as_of.size:  # a row to read, which belongs to nothing
        keys, *moved = (da.zeros_like(one, shape=(1, *one.shape[1:]), chunks=-1) for one in (keys, *moved))
    rows = _rows(needles, keys, as_of)
    if not moved:
        return (rows,)
    return tuple(at_rows(one, rows, np.dtype(np.int64) if values is None else with_missing(one.dtype)) for one in moved)


def as_bytes(chunks: Any, columns: Sequence[Any], to: Sequence[np.dtype[Any]], names: Sequence[str]) -> Any:
    """Columns of one shape, converted to dtypes, as strings of bytes in such chunks; see `join_columns`."""
    dtype, dims = np.dtype(f"S{sum(own.itemsize for own in to)}"), tuple(range(len(chunks)))
    aligned = [same_chunks(chunks, one, name, names[-1]) for one, name in zip(columns, names, strict=True)]
    inputs = [part for one in aligned for part in (one, dims)]
    options = {"names": tuple(names), "expected": [one.dtype for one in columns], "to": list(to)}
    return blockwise(join_columns, dims, *inputs, dtype=dtype, meta=np.empty((0,) * len(dims), dtype), **options)


def _rows(needles: Any, keys: Any, as_of: AsOf) -> Any:
    found = []
    for direction in as_of.directions:
        backward = direction == "backward"
        rows = build_search(keys, needles, "right" if backward == as_of.exact else "left")
        if backward:  # the operator of an array of one element would drop its empty chunks
            rows = rows.map_blocks(np.subtract, 1, dtype=np.int64)
        found += [rows, build_take(keys, rows, 0, "clip")] if as_of.reads_keys else [rows]
    dims = tuple(range(needles.ndim))
    inputs = [part for one in (needles, *found) for part in (one, dims)]
    return blockwise(find_rows, dims, *inputs, as_of=as_of, dtype=np.int64, meta=found[0]._meta)


def at_rows(array: Any, rows: Any, dtype: np.dtype[Any]) -> Any:
    """What is at rows of an array, in a dtype; NaN, or -1 of integers, where there is no row."""
    found = build_take(array, rows, 0, "clip")
    dims = tuple(range(found.ndim))
    meta = found._meta.astype(dtype)
    return blockwise(fill_missing, dims, found, dims, rows, dims[: rows.ndim], to=dtype, dtype=dtype, meta=meta)


def with_missing(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of values of which some are missing: integers and booleans become float64."""
    if may_be_nan(dtype):
        return dtype
    if dtype.kind not in "biu":
        raise TypeError(
            f"values of {dtype} have no NaN for elements without a row: leave out values, and take at the rows"
        )
    return np.dtype(np.float64)
