"""Sorts of the rows of a CuPy matrix, on the current device and stream, in NumPy 2.5's order.

short rows                        block sort: one block a row, in shared memory
long rows                         `partition_rows`: one splitter map for all rows
rows of different distributions   `partition_rows_recursively`: a map for each row
rows too long for a partition     each is sorted as an array
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .block_sort.block_sort import BlockSort, Buckets, run_block_sort, run_uniform_block_sort
from .keys.dtypes import DeviceKey, device_key
from .keys.elements import FEWEST_CODE_BYTES, Arrays, Elements, indexed_elements, wide_elements
from .launch.arrays import check_array, check_indexable, prepare_out
from .launch.launch import side_by_side
from .launch.loader import require_cupy
from .msd.row_partition import RowPartition, partition_rows, partition_rows_recursively, plan_partition
from .policy import tuning
from .policy.limits import block_sort_shapes, needs_spare
from .sorting import plain_elements, sort_plain


def sort_each(
    elements: Elements, keys: Any, keys_out: Any, positions_out: Any, partition: RowPartition | None = None
) -> None:
    """Sort each row of a matrix, into keys or into positions.

    Positions count from the start of the row if a block holds a row, otherwise from the start of some row before it.
    """
    cupy = require_cupy()
    num_rows, length = keys.shape
    at_once = min(num_rows, max(tuning.ROW_KEYS // length, 1)) if partition else num_rows
    size = at_once * length if partition or needs_spare(elements, length) else 0
    out = positions_out if keys_out is None else keys_out
    in_place = out.itemsize == elements.code_bytes
    spare = cupy.empty((1 if in_place else 2, size), f"u{elements.code_bytes}")  # shared by all batches
    payloads = list(cupy.empty((2, size), np.uint32)) if elements.payload_bytes else [None, None]
    for first in range(0, num_rows, at_once):
        batch = slice(first, first + at_once)
        source = keys[batch]
        outputs = [None if array is None else array[batch] for array in (keys_out, positions_out)]
        arrays = Arrays([spare[0], out[batch] if in_place else spare[1]], payloads, *outputs)
        if partition is None or not partition_rows(elements, source, arrays, partition):
            sort_one_by_one(elements, source, arrays)


def sort_one_by_one(elements: Elements, keys: Any, arrays: Arrays) -> None:
    """Sort each row separately: in a block if it fits, else as a segment that is partitioned until its parts fit."""
    num_rows, length = keys.shape
    shape = next((s for s in block_sort_shapes(elements) if length <= s.capacity), None)
    if shape is None:
        partition_rows_recursively(elements, keys, arrays)
        return
    rows = Buckets(num_rows, None, None, length)
    sort = BlockSort(elements, shape, elements.source, (keys, None), arrays, rows)
    if length > tuning.LONGEST_UNIFORM_ROW:
        run_block_sort(sort)
    else:
        rows.pending = require_cupy().zeros(1 + num_rows, np.uint32)
        with side_by_side:
            run_uniform_block_sort(sort)


def row_elements(key: DeviceKey) -> Elements:
    """Keys without payload, by their one-to-one codes; 8- and 16-bit keys get codes of 32 bits."""
    return wide_elements(key) if key.itemsize < FEWEST_CODE_BYTES else plain_elements(key)


def sort_rows(keys: Any, *, descending: bool = False, stable: bool = False, out: Any = None) -> Any:
    """Sort each row of a C-contiguous matrix; `out` may be `keys`."""
    check_array(keys, "keys", 2)
    key = device_key(keys.dtype, descending)
    out = prepare_out(out, keys.shape, keys.dtype)
    if keys.size == 0:
        return out
    if stable and key.has_ties:
        positions = argsort_rows(keys, descending=descending)
        out[...] = require_cupy().take_along_axis(keys, positions, axis=1)
        return out
    length, elements = keys.shape[1], row_elements(key)
    partition = plan_partition(elements, length)
    if not needs_spare(elements, length):
        if length <= tuning.BLOCK_ROW or keys.size < tuning.PARTITIONED_ROWS:
            partition = None
    elif partition is None:
        for row, row_out in zip(keys, out, strict=True):
            sort_plain(row, key, row_out, "auto")
        return out
    sort_each(elements, keys, out, None, partition)
    return out


def argsort_rows(keys: Any, *, descending: bool = False, out: Any = None) -> Any:
    """Find the int64 positions within each row that sort the row, stably."""
    check_array(keys, "keys", 2)
    check_indexable(keys.size)
    key = device_key(keys.dtype, descending)
    out = prepare_out(out, keys.shape, np.int64)
    if keys.size == 0:
        return out
    length, elements = keys.shape[1], indexed_elements(key, "long long")
    in_block = not needs_spare(elements, length)
    sort_each(elements, keys, None, out, None if in_block else plan_partition(elements, length))
    if not in_block:
        out %= length
    return out
