"""Every step of the sort on one CuPy chunk: the steps of `numpy_ops`, under the same names.

Keys, codes and companions stay on the device. A round of counting copies some thousand keys to the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import cupy
import numpy as np

from .. import kernels
from .. import keys as key_codes
from ..order import Order
from ..table import Digits, RankSummary, Side
from . import numpy_ops, numpy_words, steps
from .cupy_keys import before, decode, encode, encode_own, expression_of, floor
from .cupy_positions import concatenate_along, put, put_along, take, take_along
from .cupy_search import equal_before, interpolate, rank, rank_sorted, ranked_keys, scatter
from .cupy_select import count_nans, draw, extract, extract_all, from_host, keys_at, reduce_lanes
from .cupy_sorts import (
    argsort_chunks,
    argsort_keys,
    argsort_rows,
    concatenate_chunks,
    exclusive,
    first_indices,
    first_keys,
    merge,
    paste,
    sort_and_argsort,
    sort_chunks,
    sort_chunks_by_key,
    sort_keys,
    sort_pairs,
    sort_rows,
)
from .cupy_ties import find_few, flatnonzero, rank_keys, tie_groups
from .run import Run
from .steps import add_starts, check_lengths, edges, extract_sorted, first_descent, summarize_run, take_rows

key_order = numpy_ops.key_order
random_keys = kernels.random_keys

#: Keys scanned for descents at a time: the masks of 2**24 keys take 16 MB of device memory.
SCANNED_KEYS = 1 << 24


def local_sort(block: Any, values: Sequence[Any], order: Order, *, positions: bool) -> Run:
    """Sort one chunk; see `numpy_ops.local_sort`."""
    check_lengths(block, values)
    keys = cupy.ascontiguousarray(block)
    if not values and not positions:
        return Run(sort_keys(keys, order))
    if order.coded and len(values) + positions == 1:
        return sort_pairs(keys, values, order)
    permutation = argsort_keys(keys, order)
    ordered = kernels.gather(keys, permutation)
    companions = [kernels.gather(cupy.ascontiguousarray(value), permutation) for value in values]
    if positions:
        # Positions fit 32 bits: the kernels sort fewer than 2**32 keys with positions.
        companions.append(permutation.astype(np.uint32))
    return Run(encode_own(ordered, order), tuple(companions))


def pack(parts: Sequence[Any], directions: Sequence[bool]) -> Any:
    """Pack several keys of one chunk into one; see `numpy_ops.pack`."""
    columns = [
        column
        for part, descending in zip(parts, directions, strict=True)
        for column in _columns(cupy.ascontiguousarray(part).ravel(), descending)
    ]
    packed = numpy_words.pack([codes for codes, _ in columns], [bits for _, bits in columns])
    return packed.reshape(*parts[0].shape, *packed.shape[1:])


def _columns(part: Any, descending: bool) -> list[tuple[Any, int]]:
    """Give the columns of one key and their bits, as `numpy_columns` makes them."""
    if key_codes.code_dtype(part.dtype) is not None:
        codes = kernels.floor_codes(kernels.encode(part, descending), part.dtype, descending)
        return [(codes, 1 if part.dtype.kind == "b" else 8 * part.dtype.itemsize)]
    rows = kernels.encode_words(part, descending)
    return [(rows[:, word], numpy_words.WORD_BITS) for word in range(rows.shape[1])]


class CupyKeys(steps.SortedKeys):
    """Sorted keys in transit on the device."""

    def at(self, positions: np.ndarray) -> np.ndarray:
        return numpy_ops.floor(cupy.asnumpy(self.array[cupy.asarray(positions)]), self.order)

    def search(self, needles: np.ndarray, side: Side) -> np.ndarray:
        if self.order.coded and side == "right":
            needles = numpy_ops.ceiling(needles, self.order)
        return cupy.asnumpy(self._ranks(cupy.asarray(np.ascontiguousarray(needles)), side))

    def _ranks(self, needles: Any, side: Side) -> Any:
        if self.order.coded:
            return kernels.search_sorted(self.array, needles, side)
        if self.order.less is not None:
            return kernels.search_by_comparison(self.array, needles, side, expression_of(self.order))
        if self.order.words:
            return kernels.search_words(self.array, needles, side)
        return kernels.search_wide(self.array, needles, side, descending=self.order.descending)

    def ranked(self, distance: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not self.order.coded:
            return super().ranked(distance)
        ties_of = self.order.dtype if self.order.has_ties else None
        return kernels.rank_samples(self.array, distance, ties_of=ties_of, descending=self.order.descending)


def sorted_keys(run: Run, order: Order) -> CupyKeys:
    """Give the keys of a run, for `summarize_run`."""
    return CupyKeys(run.keys, order)


def concatenate(arrays: Sequence[Any]) -> Any:
    """Join arrays along their first dimension; neighbours in memory are not copied."""
    return concatenate_chunks(arrays)[0]


def empty(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Allocate an array on the device."""
    return cupy.empty(shape, dtype)


def synchronize() -> None:
    """Wait until the current stream is done."""
    cupy.cuda.get_current_stream().synchronize()
