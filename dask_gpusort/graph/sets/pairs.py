"""Sets of the distinct values of two arrays, which are concatenated: the number of a chunk tells the side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from ...chunk import complete
from ...chunk.distinct import Columns
from ..inputs import concatenate_inputs, concatenated_dtype, flatten
from ..search.searches import build_membership, equality_dtype
from .distinct import Keep, OfGroups, SortedDistinct, Unique, build_unique, sorted_distinct, stable_keys


@dataclass(frozen=True)
class Sides:
    """Hold two arrays end to end."""

    joined: Any  # one-dimensional, of their common dtype
    second: int  # number of the first chunk of the second array

    def distinct(self, columns: Columns) -> SortedDistinct:
        """The sorted distinct keys of both sides."""
        return sorted_distinct(stable_keys(self.joined)[0], self.joined, columns, equal_nan=True)


def sides_of(first: Any, second: Any) -> Sides:
    """Two arrays of one dimension end to end, as NumPy concatenates them."""
    dtype = concatenated_dtype([first, second])
    joined, origins = concatenate_inputs([one if one.dtype == dtype else one.astype(dtype) for one in (first, second)])
    return Sides(joined, sum(chunks for number, chunks in origins if number == 0))


def build_union(first: Any, second: Any) -> Any:
    """The distinct values of two arrays, ascending."""
    return build_unique(sides_of(_flat(first), _flat(second)).joined, Unique())[0]


def build_set(first: Any, second: Any, keep: Keep) -> Any:
    """The distinct values of two arrays that are kept, ascending."""
    sides = sides_of(_flat(first), _flat(second))
    (values,) = sides.distinct(Columns(origins=True)).number(
        [OfGroups("values", keep)], [sides.joined.dtype], sides.second, counted=True
    )
    return values


def build_common(first: Any, second: Any) -> tuple[Any, Any, Any]:
    """Find the values that two arrays have in common, and their first positions in each."""
    # If chunk sizes of the first array are unknown, so are the positions in the second one.
    length = first.size
    if math.isnan(length):
        raise ValueError("indices in two arrays of unknown chunk sizes: call compute_chunk_sizes() first")
    sides = sides_of(_flat(first), _flat(second))
    outputs = [OfGroups("values", "both"), OfGroups("firsts", "both", 0), OfGroups("firsts", "both", 1)]
    dtypes = [sides.joined.dtype, np.dtype(np.int64), np.dtype(np.int64)]
    found = sides.distinct(Columns(origins=True, firsts=True))
    values, of_first, of_second = found.number(outputs, dtypes, sides.second, counted=True)
    return values, of_first, of_second - int(length)


def build_difference(first: Any, second: Any, assume_unique: bool) -> Any:
    """The values of the first array that the second one lacks: distinct and ascending, or all in their order."""
    compared = equality_dtype(first.dtype, second.dtype)
    if not assume_unique and compared == first.dtype == concatenated_dtype([first, second]):
        return build_set(first, second, "first")
    # The common dtype, if there is one, need not hold all values of the first array.
    first = _flat(first) if assume_unique else build_unique(first, Unique())[0]
    mask = build_membership(first, second, invert=True, by_values=None)
    unknown = ((math.nan,) * first.numblocks[0],)
    return da.map_blocks(select, first, mask, dtype=first.dtype, meta=first._meta, chunks=unknown)


def select(block: Any, mask: Any) -> Any:
    """Task: the elements of a chunk at which a mask is True."""
    return complete(block[mask])


def _flat(array: Any) -> Any:
    return flatten(array, None)[0]
