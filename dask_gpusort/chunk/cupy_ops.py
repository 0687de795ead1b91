"""Every step of the sort on one CuPy chunk: the steps of `numpy_ops`, under the same names.

Keys, codes and companions stay on the device. A round of counting copies some thousand keys to the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..order import Order
from ..table import Side
from . import numpy_keys, steps
from .cupy_keys import before, columns_of, decode, encode, encode_own, expression_of, floor
from .cupy_positions import concatenate_along, put, put_along, take, take_along
from .cupy_search import equal_before, interpolate, rank, rank_sorted, ranked_keys, scatter
from .cupy_select import count_nans, draw, extract, extract_all, keys_at, moved_here, reduce_lanes
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
from .cupy_ties import CupyTieGroups, find_few, flatnonzero, rank_keys
from .run import Run
from .steps import add_starts, check_lengths, edges, extract_sorted, first_descent, pack, summarize_run, take_rows

random_keys = kernels.random_keys
tie_groups = CupyTieGroups

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


class CupyKeys(steps.SortedKeys):
    """Sorted keys in transit on the device."""

    def at(self, positions: np.ndarray) -> np.ndarray:
        return numpy_keys.floor(cupy.asnumpy(self.array[cupy.asarray(positions)]), self.order)

    def search(self, needles: np.ndarray, side: Side) -> np.ndarray:
        if self.order.coded and side == "right":
            needles = numpy_keys.ceiling(needles, self.order)
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


sorted_keys = CupyKeys


def concatenate(arrays: Sequence[Any]) -> Any:
    """Join arrays along their first dimension; neighbours in memory are not copied."""
    return concatenate_chunks(arrays)[0]


def synchronize() -> None:
    """Wait until the current stream is done."""
    cupy.cuda.get_current_stream().synchronize()
