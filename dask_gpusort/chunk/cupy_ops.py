"""Every step of the sort on one CuPy chunk: the steps of `numpy_ops`, under the same names.

Keys, codes and companions stay on the device; what a round of counting asks for, some thousand keys, goes to the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .. import kernels
from .. import keys as key_codes
from ..order import Order
from ..table import Brackets, Digits, Entries, Side
from . import numpy_ops, probing
from .run import Run

#: Keys that are scanned for changes at a time: the masks and positions of 2**24 take 150 MB of device memory.
_SCANNED_KEYS = 1 << 24


def local_sort(block: Any, values: Sequence[Any], order: Order, *, positions: bool) -> Run:
    """Sort one chunk; see `numpy_ops.local_sort`."""
    numpy_ops.check_lengths(block, values)
    keys = cupy.ascontiguousarray(block)
    if not values and not positions:
        ordered = kernels.sort_keys(keys, descending=order.descending, stable=order.stable)
        return Run(kernels.encode(ordered, order.descending))
    permutation = kernels.argsort(keys, descending=order.descending)
    codes = kernels.encode(kernels.gather(keys, permutation), order.descending)
    moved = [kernels.gather(cupy.ascontiguousarray(value), permutation) for value in values]
    if positions:
        # The kernels sort fewer than 2**32 keys with positions.
        moved.append(permutation.astype(np.uint32))
    return Run(codes, tuple(moved))


def encode(block: Any, order: Order) -> Any:
    """Keys of the user to a fresh array of keys in transit."""
    return kernels.encode(cupy.ascontiguousarray(block), order.descending)


def decode(array: Any, order: Order) -> Any:
    """Keys in transit back to the user's."""
    return kernels.decode(array, order.dtype, order.descending)


class CupyKeys:
    """Sorted codes on the device, for `probing`."""

    def __init__(self, array: Any, order: Order):
        self.array, self.order = array, order

    @property
    def size(self) -> int:
        return int(self.array.size)

    def at(self, positions: np.ndarray) -> np.ndarray:
        return numpy_ops.floor(cupy.asnumpy(self.array[cupy.asarray(positions)]), self.order)

    def search(self, needles: np.ndarray, side: Side) -> np.ndarray:
        ends = numpy_ops.ceiling(needles, self.order) if side == "right" else needles
        return cupy.asnumpy(kernels.search_sorted(self.array, cupy.asarray(ends), side))

    def differ(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first != second

    def scan(self, first: int, last: int) -> np.ndarray:
        found = [np.empty(0, np.int64)]
        for block in range(first, last - 1, _SCANNED_KEYS):
            part = _floor(self.array[block : min(block + _SCANNED_KEYS + 1, last)], self.order)
            found.append(block + 1 + cupy.asnumpy(cupy.flatnonzero(part[1:] != part[:-1])))
        return np.concatenate(found)


def _floor(codes: Any, order: Order) -> Any:
    """Codes to the least of their tie classes."""
    if not order.has_ties:
        return codes
    if order.dtype.kind == "c":
        return cupy.asarray(numpy_ops.floor(cupy.asnumpy(codes), order))
    ends = key_codes.encode(np.array([0.0, np.nan], order.dtype), descending=order.descending)
    zero, nan = numpy_ops.floor(ends, order)
    return cupy.where(codes == zero + zero.dtype.type(1), zero, cupy.minimum(codes, nan))


def sorted_keys(run: Run, order: Order) -> CupyKeys:
    """The keys of a run, for `probing`."""
    return CupyKeys(run.keys, order)


def probe(run: Run, brackets: Brackets | None, order: Order, *, samples: int | None, radix_bits: int = 0) -> Entries:
    """Tell how one chunk's keys lie in some brackets; see `numpy_ops.probe`."""
    digits = histogram(run.keys, order, radix_bits) if radix_bits and len(run) else None
    return probing.probe(sorted_keys(run, order), brackets, samples, digits)


def histogram(array: Any, order: Order, radix_bits: int) -> Digits:
    """Count the leading digits of sorted codes."""
    keys = CupyKeys(array, order)
    shift, first, edges = probing.leading_digits(keys, radix_bits)
    return probing.count_digits(keys.size, shift, first, keys.search(numpy_ops.floor(edges, order), "left"))


def merge(pieces: Sequence[Run], order: Order) -> Run:
    """Merge sorted runs into one, equal keys in the order of the runs; see `numpy_ops.merge`."""
    joined = Run.concat(pieces)
    if len(pieces) == 1:
        return joined
    if not joined.values and not order.has_ties:
        return Run(kernels.sort_keys(joined.keys, out=joined.keys))
    keys = decode(joined.keys, order)
    if not joined.values:
        ordered = kernels.sort_keys(keys, descending=order.descending, stable=True)
        return Run(kernels.encode(ordered, order.descending))
    permutation = kernels.argsort(keys, descending=order.descending)
    moved = tuple(kernels.gather(value, permutation) for value in joined.values)
    return Run(kernels.gather(joined.keys, permutation), moved)


def sort_rows(block: Any, order: Order, axis: int) -> Any:
    """Sort a chunk along an axis that is whole in it."""
    rows, shape = _rows(block, axis)
    ordered = kernels.sort_rows(rows, descending=order.descending, stable=order.stable)
    return cupy.moveaxis(ordered.reshape(shape), -1, axis)


def argsort_rows(block: Any, order: Order, axis: int) -> Any:
    """Stable indices, int64, that sort a chunk along an axis that is whole in it."""
    rows, shape = _rows(block, axis)
    return cupy.moveaxis(kernels.argsort_rows(rows, descending=order.descending).reshape(shape), -1, axis)


def _rows(block: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """A chunk as a matrix of the rows to sort, and the shape it has with the axis last."""
    moved = cupy.moveaxis(block, axis, -1)
    rows = cupy.ascontiguousarray(moved).reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    return rows, moved.shape


def take_rows(block: Any, indices: Any, axis: int) -> Any:
    """A chunk's elements in the order of indices along an axis."""
    return cupy.take_along_axis(block, indices, axis)


def concatenate(arrays: Sequence[Any]) -> Any:
    """Join arrays along their first dimension."""
    return cupy.concatenate(arrays)


def synchronize() -> None:
    """Wait for all that was launched on the current stream."""
    cupy.cuda.get_current_stream().synchronize()
