"""Every step of the sort on one NumPy chunk; `cupy_ops` has them under the same names for CuPy chunks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..order import Order
from ..table import KeyOrder, Side
from . import numpy_radix, numpy_split, steps
from .numpy_columns import columns_of
from .numpy_keys import before, ceiling, decode, differ, encode, encode_at, floor, search
from .numpy_positions import concatenate_along, put, put_along, random_keys, take
from .numpy_search import equal_before, interpolate, rank, rank_sorted, ranked_keys, scatter
from .numpy_select import buckets, count_nans, draw, extract, extract_all, keys_at, moved_here, reduce_lanes
from .numpy_sorts import (
    argsort_block,
    argsort_keys,
    argsort_rows,
    first_indices,
    first_keys,
    merge,
    sort_keys,
    sort_rows,
    sorted_by_numpy,
)
from .run import Run, concatenate
from .steps import (
    add_starts,
    check_lengths,
    edges,
    extract_sorted,
    first_descent,
    pack,
    packed_order,
    summarize_run,
    take_rows,
)
from .tie_groups import TieGroups, rank_keys

#: Keys scanned for descents at a time: 64-bit keys then fill about a level-2 cache.
SCANNED_KEYS = 1 << 16

exclusive = contextlib.nullcontext  # sorts on the host may run side by side
flatnonzero = np.flatnonzero
take_along = np.take_along_axis
tie_groups = TieGroups


def local_sort(block: np.ndarray, values: Sequence[np.ndarray], order: Order, *, positions: bool) -> Run:
    """Sort one chunk, shape (n,), with its companions, stably if there are any."""
    # With `positions`, its positions, uint32 where they fit, are appended to the values.
    check_lengths(block, values)
    if not values and not positions:
        in_place = order.coded or sorted_by_numpy(block, order)
        return Run(sort_keys(encode(block, order) if in_place else np.ascontiguousarray(block), order))
    in_order = direction(block, order, turns_ties=False) > 0
    permutation = np.arange(len(block)) if in_order else argsort_block(block, order)
    moved = list(values) if in_order else [value.take(permutation, axis=0) for value in values]
    if positions:
        fits = len(block) <= np.iinfo(np.uint32).max
        permutation = permutation.astype(np.uint32 if fits else np.int64, copy=False)
        moved.append(permutation)
    return Run(encode(block, order) if in_order else encode_at(block, permutation, order), tuple(moved))


def sort_chunks(chunks: Sequence[np.ndarray], order: Order) -> np.ndarray:
    """Sort the user's keys of several chunks as one array."""
    if numpy_split.is_plain(order):
        return numpy_split.sort_joined(chunks, order)
    block = chunks[0] if len(chunks) == 1 else concatenate(chunks)
    found: np.ndarray = decode(local_sort(block, (), order, positions=False).keys, order)
    return found


def argsort_chunks(chunks: Sequence[np.ndarray], order: Order) -> np.ndarray:
    """Find the stable permutation, int64, that sorts the user's keys of several chunks as one array."""
    run = local_sort(concatenate(chunks), (), order, positions=True)
    found: np.ndarray = run.values[-1].astype(np.int64, copy=False)
    return found


def sort_and_argsort(keys: np.ndarray, order: Order) -> tuple[np.ndarray, np.ndarray]:
    """Sort a chunk, or each row of a matrix, stably: the keys and their positions, which are uint32 if they fit."""
    # Of equal keys of a row, any may stand for all.
    if keys.ndim > 1 and order.coded:
        floors, positions = numpy_radix.sort_with_positions(floor(encode(keys, order), order))
        return decode(floors, order), positions
    if keys.ndim > 1:
        positions = argsort_rows(keys, order, 1)
        return take_rows(keys, positions, 1), positions
    run = local_sort(keys, (), order, positions=True)
    return decode(run.keys, order), run.values[-1]


def direction(keys: np.ndarray, order: Order, *, turns_ties: bool) -> int:
    """Tell of the user's keys, shape (n,), whether a stable sort leaves them, 1, or turns them, -1, or neither, 0."""
    # With `turns_ties` the order of equal keys does not count, but that of zeros does. NaN and NaT follow no key.
    if order.less is not None or order.dtype.kind not in "biufmM" or keys.dtype != order.dtype:
        return 0
    rows = keys[None, :: -1 if order.descending else 1]
    return numpy_radix.direction(rows, turns_ties=turns_ties and order.dtype.kind != "f")


def sort_chunks_by_key(
    chunks: Sequence[np.ndarray], values: Sequence[Sequence[np.ndarray]], order: Order, *, with_keys: bool
) -> tuple[np.ndarray, ...]:
    """Give the user's keys, if wanted, and each companion, sorted; each is given in several chunks."""
    run = local_sort(concatenate(chunks), list(map(concatenate, values)), order, positions=False)
    return ((decode(run.keys, order),) if with_keys else ()) + run.values


def paste(block: np.ndarray, part: np.ndarray) -> None:
    """Copy a chunk into its part of a whole array, unless it is there."""
    if not np.may_share_memory(block, part):
        part[...] = block


def key_order(order: Order) -> KeyOrder:
    """Comparisons of summaries' keys, which are all the least of their tie class."""
    if order.coded:
        return KeyOrder(numpy_radix.argsort, lambda array: array[1:] != array[:-1])
    return KeyOrder(
        lambda array: argsort_keys(array, order),
        lambda array: differ(array[1:], array[:-1], order),
    )


class NumpyKeys(steps.SortedKeys):
    """Sorted keys in transit on the host."""

    def at(self, positions: np.ndarray) -> np.ndarray:
        return floor(self.array[positions], self.order)

    def search(self, needles: np.ndarray, side: Side) -> np.ndarray:
        return search(self.array, needles, self.order, side)


sorted_keys = NumpyKeys
