"""Sorts and merges of the keys of CuPy chunks by the method that fits their order, and joins of all chunks of a memory.

::

    order         keys in transit                    sort
    coded         unsigned codes                     radix sort
    words         rows of uint64                     radix sorts, 64 bits at a time
    complex128    the user's                         radix sorts of two words, each made when needed
    less          the user's                         merge sort by a CUDA C++ expression
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import cupy
import numpy as np

from .. import kernels
from .. import keys as key_codes
from ..order import Order
from . import numpy_less
from .cupy_keys import comparison_on_host, decode, encode_own, expression_of, words_of
from .memory import gate_of
from .run import Run
from .steps import bound_rank, first_descent

#: Bytes of the widest elements that CuPy copies.
_WIDE_BYTES = 16
#: Keys of a row from which on its first keys are selected from those up to a bound, samples that give the bound, and
#: the most that may be selected.
_LONG_ROW, _SAMPLES, _LARGEST_SHARE = 1 << 20, 1 << 16, 1 / 8


def sort_keys(keys: Any, order: Order) -> Any:
    """Sort the user's keys, and encode them for transit."""
    if order.coded and order.stable and order.has_ties:
        return encode_own(kernels.sort_keys(keys, descending=order.descending, stable=True), order)
    if order.coded:
        return kernels.sorted_codes(keys, descending=order.descending)
    if order.less is not None:
        check_less(keys, order)
        return require_sorted(kernels.sort_by_comparison(keys, less=expression_of(order)), order)
    return kernels.gather(keys, argsort_keys(keys, order))


def argsort_keys(keys: Any, order: Order) -> Any:
    """Find the stable permutation, int64, that sorts the user's keys."""
    if order.coded:
        return kernels.argsort(keys, descending=order.descending)
    if order.less is not None:
        check_less(keys, order)
        permutation = kernels.argsort_by_comparison(keys, less=expression_of(order))
        require_sorted(kernels.gather(keys, permutation), order)
        return permutation
    if order.words:
        return kernels.argsort_words(keys)
    return kernels.argsort_wide(keys, descending=order.descending)


def sort_and_argsort(keys: Any, order: Order) -> tuple[Any, Any]:
    """Give the keys of a chunk or of its rows, sorted, and their positions; see `numpy_ops.sort_and_argsort`."""
    if keys.ndim > 1:
        indices = argsort_rows(keys, order, 1)
        return cupy.take_along_axis(keys, indices, 1), indices
    keys = cupy.ascontiguousarray(keys)
    if order.coded:
        found: tuple[Any, Any] = kernels.sort_with_positions(keys, descending=order.descending)
        return found
    permutation = argsort_keys(keys, order)
    # Positions fit 32 bits: the kernels sort fewer than 2**32 keys with positions.
    return kernels.gather(keys, permutation), permutation.astype(np.uint32)


def sort_pairs(keys: Any, values: Sequence[Any], order: Order) -> Run:
    """Sort the user's keys with one companion, or with their positions, in one sort."""
    if not values:
        ordered, companion = kernels.sort_with_positions(keys, descending=order.descending)
    else:
        value = cupy.ascontiguousarray(values[0])
        ordered, companion = kernels.sort_pairs(keys, value, descending=order.descending)
    return Run(encode_own(ordered, order), (companion,))


def check_less(keys: Any, order: Order) -> None:
    """Raise if the expression contradicts itself for some of the keys; see `numpy_less.check`."""
    if len(keys):
        tested = np.unique(np.linspace(0, len(keys) - 1, numpy_less.TESTED_KEYS).astype(np.int64))
        numpy_less.check(cupy.asnumpy(keys[cupy.asarray(tested)]), comparison_on_host(expression_of(order)))


def require_sorted(keys: Any, order: Order) -> Any:
    """Return the keys; raise if a sort by `less` left two neighbours out of order."""
    descent = first_descent(keys, order)
    if descent is not None:
        earlier, element = cupy.asnumpy(keys[descent - 1 : descent + 1])
        raise numpy_less.left_behind(element, earlier)
    return keys


def merge(runs: Sequence[Run], order: Order, with_keys: bool = True) -> Run:
    """Merge sorted runs into one, equal keys in the order of the runs; see `numpy_ops.merge`."""
    # Keys move in the passes that sort them.
    if len(runs) == 1:
        return runs[0].own()
    keys = runs[0].keys
    key_bytes = keys.itemsize * math.prod(keys.shape[1:])
    if order.less is not None or kernels.prefers_merging(len(runs), key_bytes):
        return _merge_runs(runs, order)
    return _sort_runs(runs, order)


def _sort_runs(runs: Sequence[Run], order: Order) -> Run:
    """Concatenate runs and sort the result."""
    joined = Run.concat(runs)
    if not joined.values and order.coded and not order.has_ties:
        return Run(kernels.sort_keys(joined.keys, out=joined.keys))
    keys = decode(joined.keys, order)
    if not joined.values and order.coded:
        ordered = kernels.sort_keys(keys, descending=order.descending, stable=True)
        return Run(encode_own(ordered, order))
    permutation = argsort_keys(keys, order)
    companions = tuple(kernels.gather(value, permutation) for value in joined.values)
    return Run(encode_own(kernels.gather(keys, permutation), order), companions)


def _merge_runs(runs: Sequence[Run], order: Order) -> Run:
    """Merge runs with the merge kernels."""
    keys = [cupy.ascontiguousarray(run.keys) for run in runs]
    companions = [list(column) for column in zip(*(run.values for run in runs), strict=True)]
    if order.coded:
        # Runs with companions are sorted by the least codes of the tie classes.
        ties_of = order.dtype if companions or order.has_ties else None
        return Run(*kernels.merge_runs(keys, companions, ties_of=ties_of, descending=order.descending))
    if order.less is not None or order.words:
        less = None if order.less is None else expression_of(order)
        return Run(*kernels.merge_runs(keys, companions, less=less))
    as_words = [kernels.encode_words(key, order.descending) for key in keys]
    _, (merged, *merged_companions) = kernels.merge_runs(as_words, [keys, *companions])
    return Run(merged, tuple(merged_companions))


def sort_rows(block: Any, order: Order, axis: int, *, overwrite: bool = False) -> Any:
    """Sort a chunk along an axis of one chunk; `overwrite` allows the result in the chunk's memory."""
    if not order.coded:
        return cupy.take_along_axis(block, argsort_rows(block, order, axis), axis)
    rows, shape = _rows(block, axis)
    if len(rows) == 1:  # for which there are LSD passes too
        rows = rows[0]
    out = rows if overwrite or rows.data.ptr != block.data.ptr else None
    sort = kernels.sort_keys if rows.ndim == 1 else kernels.sort_rows
    ordered = sort(rows, descending=order.descending, stable=order.stable, out=out)
    return cupy.moveaxis(ordered.reshape(shape), -1, axis)


def first_keys(rows: Any, order: Order, count: int) -> Any:
    """Find the first keys of each row, sorted, or all."""
    return sort_rows(rows, order, 1)[:, :count]


def argsort_rows(block: Any, order: Order, axis: int) -> Any:
    """Find the stable indices, int64, that sort a chunk along an axis of one chunk; see `numpy_ops.argsort_rows`."""
    if order.coded:
        rows, shape = _rows(block, axis)
        found = kernels.argsort_rows(rows, descending=order.descending)
    else:
        moved = cupy.ascontiguousarray(cupy.moveaxis(block, axis, -2 if order.words else -1))
        shape = moved.shape[:-1] if order.words else moved.shape
        count, length = math.prod(shape[:-1]), shape[-1]
        found = _argsort_batch(moved.reshape(count * length, *moved.shape[len(shape) :]), count, length, order)
    return cupy.moveaxis(found.reshape(shape), -1, axis)


def _argsort_batch(keys: Any, count: int, length: int, order: Order) -> Any:
    """Find the indices that sort `count` contiguous rows of uncoded keys."""
    if order.less is not None:
        rows = [argsort_keys(keys[row * length : (row + 1) * length], order) for row in range(count)]
        return cupy.concatenate(rows) if rows else cupy.empty(0, np.int64)
    if count <= 1:
        return argsort_keys(keys, order)
    # All rows are sorted together, with the number of the row as the first word.
    number = (cupy.arange(count * length, dtype=np.uint64) // np.uint64(max(length, 1)))[:, None]
    by_row = cupy.ascontiguousarray(cupy.concatenate([number, words_of(keys, order)], axis=1))
    return kernels.argsort_words(by_row) % max(length, 1)


def _rows(block: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """A chunk as a matrix of the rows to sort, and the chunk's shape with the axis moved last."""
    moved = cupy.moveaxis(block, axis, -1)
    rows = cupy.ascontiguousarray(moved).reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    return rows, moved.shape


def first_indices(block: Any, order: Order, count: int, axis: int) -> Any:
    """Find the first keys of each row in the order of a stable sort, as `numpy_sorts.first_indices`."""
    few = 0 < count <= block.size * _LARGEST_SHARE
    if few and order.coded and block.size == block.shape[axis] >= _LONG_ROW:
        found = _first_of_long_row(cupy.ascontiguousarray(block).reshape(-1), order, count)
        if found is not None:
            return found.reshape([-1 if dim == axis else 1 for dim in range(block.ndim)])
    # The rows are sorted whole. The copy frees the memory of the other indices.
    indices = argsort_rows(block, order, axis)
    return indices[(slice(None),) * axis + (slice(count),)].copy()


def _first_of_long_row(row: Any, order: Order, count: int) -> Any:
    """Select the first keys of one row from the keys up to a bound that samples give; None if they do not fit."""
    sample = kernels.draw_samples([row], stratum := max(len(row) // _SAMPLES, 1))
    rank = bound_rank(count / stratum)
    if rank >= len(sample):
        return None
    bound = kernels.sort_keys(sample, descending=order.descending)[rank : rank + 1].get()
    if bound != bound:
        return None
    code = key_codes.encode(bound)
    low, high = 0, int(key_codes.tie_ceiling(code, order.dtype)[0])
    if order.descending:  # NaN are last, too
        low = int(key_codes.tie_floor(code, order.dtype)[0])
        high = (kernels.first_nan_code(order.dtype) or 1 << 8 * code.itemsize) - 1
    found, positions = kernels.take_positions(row, low, high, min(4 * rank * stratum, len(row)))
    if not count <= found == len(positions):
        return None
    positions = kernels.sort_keys(positions)
    first = kernels.argsort(kernels.gather(row, positions), descending=order.descending)[:count]
    return kernels.gather(positions, first)


def sort_chunks(chunks: Sequence[Any], order: Order) -> Any:
    """Sort the user's keys of several chunks as one array."""
    keys, copied = concatenate_chunks(chunks)
    if order.coded:
        out = keys if copied and not order.has_ties else None  # ties are restored from the keys
        return kernels.sort_keys(keys, descending=order.descending, stable=order.has_ties, out=out)
    if order.less is not None:
        return sort_keys(keys, order)
    return kernels.sort_wide(keys, descending=order.descending)


def argsort_chunks(chunks: Sequence[Any], order: Order) -> Any:
    """Find the stable permutation, int64, that sorts the user's keys of several chunks as one array."""
    if not order.coded:
        return argsort_keys(concatenate_chunks(chunks)[0], order)
    # The keys are read before the positions take their place.
    positions = cupy.empty(sum(map(len, chunks)), np.int64)
    return kernels.argsort(concatenate_chunks(chunks, positions)[0], descending=order.descending, out=positions)


def sort_chunks_by_key(
    chunks: Sequence[Any], values: Sequence[Sequence[Any]], order: Order, *, with_keys: bool
) -> tuple[Any, ...]:
    """Give the user's keys, if wanted, and each companion, sorted; each is given in several chunks."""
    keys, *companions = (concatenate_chunks(column)[0] for column in (chunks, *values))
    if order.coded and len(companions) == 1:
        found: tuple[Any, ...] = kernels.sort_pairs(keys, companions[0], descending=order.descending)
        return found if with_keys else found[1:]
    permutation = argsort_keys(keys, order)
    return tuple(kernels.gather(array, permutation) for array in ((keys, *companions) if with_keys else companions))


def concatenate_chunks(chunks: Sequence[Any], memory: Any = None) -> tuple[Any, bool]:
    """Put chunks end to end along their first dimension, and tell whether the result is a copy."""
    # Neighbours in memory, such as slices of one array, are not copied. A copy goes to the start of `memory`, if given.
    if len({(chunk.dtype, chunk.shape[1:]) for chunk in chunks}) > 1:
        return cupy.concatenate(chunks), True
    first = chunks[0]
    ends = accumulate((chunk.nbytes for chunk in chunks), initial=first.data.ptr)
    shape = (sum(map(len, chunks)), *first.shape[1:])
    if all(
        chunk.data.mem is first.data.mem and chunk.data.ptr == end and chunk.flags.c_contiguous
        for chunk, end in zip(chunks, ends, strict=False)
    ):
        return cupy.ndarray(shape, first.dtype, memptr=first.data), False
    memory = cupy.empty(shape, first.dtype) if memory is None else memory
    joined = cupy.ndarray(shape, first.dtype, memptr=memory.data)
    stream, start = cupy.cuda.get_current_stream(), 0
    for chunk in map(cupy.ascontiguousarray, chunks):
        # cupy.concatenate copies element by element: 1.3 ms for 2^28 uint32 keys, this 0.5 ms.
        (joined.data + start).copy_from_device_async(chunk.data, chunk.nbytes, stream)
        start += chunk.nbytes
    return joined, True


def paste(block: Any, part: Any) -> None:
    """Copy a chunk into its part of a whole array, unless it is there."""
    if block.data.ptr == part.data.ptr:
        return
    layouts = (block.data.ptr, part.data.ptr, block.shape[-1] * block.itemsize, *block.strides[:-1], *part.strides[:-1])
    contiguous = block.strides[-1] == part.strides[-1] == block.itemsize == part.itemsize
    if contiguous and not any(number % _WIDE_BYTES for number in layouts):
        # CuPy copies element by element: the wider they are, the less time it takes.
        block, part = block.view(np.complex128), part.view(np.complex128)
    part[...] = block


def exclusive() -> contextlib.AbstractContextManager[Any]:
    """Give the whole memory of the current device: sorts that take turns need the scratch memory of one."""
    return gate_of(cupy.cuda.runtime.getDevice()).reserved(1)
