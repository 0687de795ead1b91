"""The heavy steps of the sort of one NumPy chunk, on a GPU: the steps of `numpy_ops`, under the same names.

Keys, codes and companions are on the host between the steps, so the sort needs no more of the device than some steps
at a time. Many threads copy while one of them sorts. Each waits at the device's gate for the memory of its step (see
`memory`). A step that finds no memory is done again after the pool's free blocks are returned, then alone.

On the device dates are integers, shifted so that their codes are those of the host.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import cupy
import numpy as np

from ..order import POSITION_BYTES, Order
from . import cupy_ops, cupy_staging
from .memory import USABLE_FRACTION, gate_of, step_bytes
from .numpy_keys import encode
from .run import Run
from .steps import check_lengths, first_descent

T = TypeVar("T")


def usable_bytes() -> float:
    """Bytes that arrays may take of the current device: a share of its memory, or of the limit of CuPy's pool."""
    _, total = cupy.cuda.runtime.memGetInfo()
    return USABLE_FRACTION * min(total, cupy.get_default_memory_pool().get_limit() or total)


def _when_free(nbytes: float, step: Callable[[], T]) -> T:
    """Run a step that takes so many bytes of the device, all of which it frees, unless it does not fit."""
    usable = usable_bytes()
    share = nbytes / usable
    for empty_pool in (False, True):
        # Nothing is done while the error is handled: it keeps the arrays of the step.
        with contextlib.suppress(MemoryError):  # CuPy's error is one, and RMM raises it itself
            return _attempt(share, step, empty_pool=empty_pool)
    gc.collect()
    try:
        return _attempt(1, step, empty_pool=True)
    except MemoryError as error:
        raise MemoryError(
            f"a step of the sort takes about {nbytes:,.0f} bytes of the GPU, which has {usable:,.0f}: rechunk the "
            "array to smaller chunks, or leave out device= and the setting gpusort.device"
        ) from error


def _attempt(share: float, step: Callable[[], T], *, empty_pool: bool = False) -> T:
    with gate_of(cupy.cuda.runtime.getDevice()).reserved(share):
        if empty_pool:
            # The pool keeps freed blocks, and they count towards its limit even if none of them is large enough.
            cupy.get_default_memory_pool().free_all_blocks()
        return step()


def _shift(order: Order) -> int:
    """What is added to dates on the way to the device: NaT, the least integer, is last in an ascending order."""
    return -int(order.dtype.kind in "mM" and order.coded and not order.descending)


def _on_device(order: Order) -> Order:
    """Give the order of the same keys on the device."""
    return order if order.words else replace(order, dtype=cupy_staging.device_dtype(order.dtype))


def _row_bytes(values: Sequence[np.ndarray]) -> int:
    return sum(value.nbytes // max(len(value), 1) for value in values)


def local_sort(block: np.ndarray, values: Sequence[np.ndarray], order: Order, *, positions: bool) -> Run:
    """Sort one chunk; see `numpy_ops.local_sort`."""
    check_lengths(block, values)

    def step() -> Run:
        keys, companions = cupy_staging.to_device(block, _shift(order)), list(map(cupy_staging.to_device, values))
        run = cupy_ops.local_sort(keys, companions, _on_device(order), positions=positions)
        dtypes = [order.transit_dtype.base, *(value.dtype for value in values)]
        dtypes += [array.dtype for array in run.arrays[len(dtypes) :]]
        keys, *companions = map(cupy_staging.to_host, run.arrays, dtypes)
        return Run(keys, tuple(companions))

    return _when_free(step_bytes(order, len(block), _row_bytes(values) + positions * POSITION_BYTES), step)


def run_on_device(
    runs: Sequence[Run],
    order: Order,
    step: Callable[[list[Run], Order], Sequence[Any]],
    *,
    with_keys: bool,
    with_positions: bool,
) -> tuple[np.ndarray, ...]:
    """Merge runs of the host on the device: keys, if wanted, and companions, of which the last may be positions."""
    # `step` gets the runs on the device and the order of their keys there, and gives the user's keys, if wanted, and
    # the companions.
    dtypes = [value.dtype for value in runs[0].values]
    if with_positions:
        dtypes[-1] = np.dtype(np.int64)

    def merge() -> tuple[np.ndarray, ...]:
        columns = zip(*(run.arrays for run in runs), strict=True)
        moved = zip(*map(cupy_staging.to_device_joined, columns), strict=True)
        found = list(step([Run(keys, tuple(values)) for keys, *values in moved], _on_device(order)))
        keys = (cupy_staging.to_host(found.pop(0), order.dtype, -_shift(order)),) if with_keys else ()
        return (*keys, *map(cupy_staging.to_host, found, dtypes))

    companions = _row_bytes(runs[0].values) + with_positions * POSITION_BYTES
    return _when_free(step_bytes(order, sum(map(len, runs)), companions), merge)


def sort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Sort a chunk along an axis of one chunk."""

    def step() -> np.ndarray:
        keys = cupy_staging.to_device(block, _shift(order))
        return cupy_staging.to_host(cupy_ops.sort_rows(keys, _on_device(order), axis), order.dtype, -_shift(order))

    return _when_free(step_bytes(order, block.size // (order.words or 1), 0), step)


def argsort_rows(block: np.ndarray, order: Order, axis: int) -> np.ndarray:
    """Find the stable indices, int64, that sort a chunk along an axis of one chunk; see `numpy_ops.argsort_rows`."""

    def step() -> np.ndarray:
        keys = cupy_staging.to_device(block, _shift(order))
        return cupy_staging.to_host(cupy_ops.argsort_rows(keys, _on_device(order), axis), np.dtype(np.int64))

    return _when_free(step_bytes(order, block.size // (order.words or 1), POSITION_BYTES), step)


def take_rows(block: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """A chunk's elements in the order of indices along an axis."""

    def step() -> np.ndarray:
        taken = cupy_ops.take_rows(cupy_staging.to_device(block), cupy_staging.to_device(indices), axis)
        return cupy_staging.to_host(taken, block.dtype)

    # CuPy makes indices along every axis.
    return _when_free(2 * block.nbytes + (1 + block.ndim) * indices.nbytes, step)
