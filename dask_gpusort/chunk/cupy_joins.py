"""Sorts of all CuPy chunks of one memory as one array: the steps of a join."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import cupy
import numpy as np

from .. import kernels
from ..order import Order
from .cupy_keys import expression_of
from .cupy_sorts import argsort_keys, check_less, require_sorted
from .memory import gate_of

#: Bytes of the widest elements that CuPy copies.
_WIDE_BYTES = 16


def sort_chunks(chunks: Sequence[Any], order: Order) -> Any:
    """Sort the user's keys of several chunks as one array."""
    keys, copied = concatenate_chunks(chunks)
    if order.coded:
        out = keys if copied else None
        return kernels.sort_keys(keys, descending=order.descending, stable=order.has_ties, out=out)
    if order.less is not None:
        check_less(keys, order)
        return require_sorted(kernels.sort_by_comparison(keys, less=expression_of(order)), order)
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
