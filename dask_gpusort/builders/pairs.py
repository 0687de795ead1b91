r"""Equi-joins: two searches find the sorted keys that are equal to an element; each of them makes a pair with its row.

::

    right, its rows --> sorted --.              .--> rows of left, of each pair
                                  two searches
    left ------------------------'              '--> positions of sorted keys --> rows of right at them

Rows know the first and the last position of a sorted key that is equal::

    first   2 5 5     rows         0 0   2     a row of which `first` is `last` has no key: it is in no pair,
    last    4 5 6     positions    2 3   5     or if all rows are kept in one of position -1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dask.array as da
import numpy as np

from ..chunk import complete
from ..graph.explain import note
from ..graph.inputs import blockwise
from ..order import Order
from ..plan import Plan
from .as_of import as_bytes, at_rows
from .request import Options
from .searches import build_search
from .sort import build_sort

_ROW = np.dtype(np.int64)


def build_pairs(sides: Sequence[Mapping[str, Any]], dtypes: Sequence[np.dtype[Any]], how: str) -> tuple[Any, ...]:
    """Rows of two sides that are equal in all arrays, which are compared in dtypes; their names are for errors."""
    note(Plan(notes=("the peak does not count the pairs, whose number is unknown",)))
    left, right = (_keys(own, dtypes) for own in sides)
    if how == "right":
        return _pairs(right, left, keep=True)[::-1]
    found = _pairs(left, right, keep=how != "inner")
    if how != "outer":
        return found
    (keys,) = build_sort(Options(), "keys", left, axis=0)
    alone = _of_unknown_sizes(list_alone, *_ends(keys, right), _rows_of(right))
    others = alone.map_blocks(np.full_like, -1, dtype=_ROW, meta=alone._meta), alone
    return tuple(da.concatenate(both, allow_unknown_chunksizes=True) for both in zip(found, others, strict=True))


def list_pairs(first: Any, last: Any, rows: Any = None, *, keep: bool) -> Any:
    """Task: the row of each pair, or without rows the position of its key; `keep` says whether all rows are kept."""
    counts = np.maximum(last - first, 1) if keep else last - first
    starts, step = (np.where(first == last, -1, first), 1) if rows is None else (rows, 0)
    starts, counts = starts[counts > 0], counts[counts > 0]
    # CuPy repeats by no array of counts, so differences are summed up: a step, or at the end of a row the next start.
    differences = np.full_like(starts, step, shape=int(counts.sum()))
    differences[:1] = starts[:1]
    differences[np.cumsum(counts[:-1])] = starts[1:] - starts[:-1] - step * (counts[:-1] - 1)
    return complete(np.cumsum(differences))


def list_alone(first: Any, last: Any, rows: Any) -> Any:
    """Task: the rows without a key."""
    return complete(rows[first == last])


def _keys(columns: Mapping[str, Any], dtypes: Sequence[np.dtype[Any]]) -> Any:
    """An array as it is, or several, or strings, as bytes in the order of all."""
    names, arrays = list(columns), list(columns.values())
    if len(arrays) == 1 and Order(dtypes[0]).coded:
        return arrays[0].astype(dtypes[0])
    return as_bytes(arrays[0].chunks, arrays, dtypes, names)


def _pairs(left: Any, right: Any, keep: bool) -> tuple[Any, ...]:
    """Rows of pairs in the order of the left side; `keep` says whether all of it is kept."""
    keys, rows = build_sort(Options(), "both", right, [_rows_of(right)], axis=0)
    ends = _ends(keys, left)
    if not right.size:  # a row to read, which belongs to nothing
        rows = da.zeros_like(rows, shape=(1,), chunks=-1)
    positions = _of_unknown_sizes(list_pairs, *ends, keep=keep)
    return _of_unknown_sizes(list_pairs, *ends, _rows_of(left), keep=keep), at_rows(rows, positions, _ROW)


def _ends(keys: Any, needles: Any) -> tuple[Any, Any]:
    return build_search(keys, needles, "left"), build_search(keys, needles, "right")


def _rows_of(array: Any) -> Any:
    return da.arange(array.size, chunks=array.chunks, dtype=_ROW, like=array._meta)


def _of_unknown_sizes(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    inputs, sizes = [part for one in arrays for part in (one, (0,))], {0: (math.nan,) * arrays[0].numblocks[0]}
    return blockwise(function, (0,), *inputs, adjust_chunks=sizes, dtype=_ROW, meta=arrays[0]._meta, **options)
