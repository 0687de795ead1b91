"""Sorts of CuPy arrays on the current device and stream, in NumPy 2.5's order.

Every function allocates from CuPy's current allocator and launches on CuPy's current stream. Sorts of more keys than
fit one block read a few counters back, and therefore wait for the stream.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .block_sort.block_sort import BlockSort, Buckets, run_block_sort, run_uniform_block_sort
from .buckets.counting import COUNTED_BYTES, count_sort, is_countable
from .keys.dtypes import (
    FEWEST_CODE_BYTES,
    WIDE_CODE,
    Arrays,
    DeviceKey,
    Elements,
    device_key,
    indexed_elements,
    wide_elements,
)
from .keys.transform import gather, tie_ranges
from .launch.arrays import check_algorithm, check_array, check_indexable, prepare_out, type_of_bytes
from .launch.launch import side_by_side
from .launch.loader import require_cupy
from .lsd import lsd
from .msd import msd
from .msd.row_partition import RowPartition, partition_rows, partition_rows_recursively, plan_partition
from .pairs import argsort
from .policy import tuning
from .policy.limits import block_sort_shapes, needs_spare


def sort_codes(keys: Any, key: DeviceKey, out: Any, algorithm: str, as_codes: bool = False) -> None:
    """Sort keys by their one-to-one codes; keys of one or two bytes by LSD passes only (`algorithm` is "lsd")."""
    n, elements, free = keys.size, plain_elements(key, as_codes), algorithm == "auto"
    in_block = algorithm != "lsd" and not needs_spare(elements, n)
    spare = require_cupy().empty(0 if in_block else n, key.code_dtype)
    arrays = Arrays([spare, out], [None, None], out, None)
    passes = algorithm == "lsd" or (free and not in_block and lsd.prefers_lsd(key, n))
    if passes or not msd.sort(elements, keys, n, arrays, may_decline=free):
        lsd.sort(elements, keys, n, arrays)


@functools.cache
def plain_elements(key: DeviceKey, as_codes: bool = False) -> Elements:
    """Keys without payload, by their one-to-one codes; the output is keys, or codes."""
    code_type, order = type_of_bytes(key.itemsize), device_key(key.code_dtype).order if as_codes else key.order
    narrow = None
    if key.itemsize == WIDE_CODE and not key.has_ties:
        narrow = Elements(f"Narrowed<{key.order}>", f"Narrowed<{order}>", "u32")
    return Elements(f"Keys<{key.order}>", f"Keys<{order}>", code_type, domain=key.domain(code_type), narrow=narrow)


def sort_keys(
    keys: Any, *, descending: bool = False, stable: bool = False, out: Any = None, algorithm: str = "auto"
) -> Any:
    """Sort contiguous keys: bool, integers, float16/32/64, datetime64, timedelta64, complex64; `out` may be `keys`."""
    # NaN and NaT stay last; with `stable`, zeros of both signs, and NaNs, keep their input order. "auto" counts 8- and
    # 16-bit keys and partitions others by their most significant digits.
    check_array(keys, "keys")
    check_algorithm(algorithm)
    key = device_key(keys.dtype, descending)
    out = prepare_out(out, keys.shape, keys.dtype)
    if keys.size == 0:
        return out
    if stable and key.has_ties:
        source = keys.copy() if out.data.ptr == keys.data.ptr else keys
        sort_keys(source, descending=descending, out=out, algorithm=algorithm)
        restore_ties(source, key, out, descending)
        return out
    sort_plain(keys, key, out, algorithm)
    return out


def sort_plain(keys: Any, key: DeviceKey, out: Any, algorithm: str, as_codes: bool = False) -> None:
    """Sort keys, into keys or codes; not stable for keys that compare equal and differ in bits."""
    if algorithm != "lsd" and is_countable(key):
        count_sort(keys, key, out, as_codes)
    else:
        sort_codes(keys, key, out, algorithm if key.itemsize > COUNTED_BYTES else "lsd", as_codes)


def sorted_codes(keys: Any, *, descending: bool = False) -> Any:
    """Sort keys to their codes: `encode(sort_keys(keys))` with one pass less."""
    check_array(keys, "keys")
    key = device_key(keys.dtype, descending)
    codes = require_cupy().empty(keys.size, key.code_dtype)
    if keys.size:
        sort_plain(keys, key, codes, "auto", as_codes=True)
    return codes


def restore_ties(keys: Any, key: DeviceKey, out: Any, descending: bool) -> None:
    """Rewrite the keys of a sorted array that compare equal in the order of the input."""
    if keys.dtype.kind == "c":
        gather(keys, argsort(keys, descending=descending), out)
        return
    bits = keys.view(key.code_dtype)  # compared as bits: CuPy flushes subnormal floats to zero
    magnitude = key.code_dtype.type((1 << 8 * key.itemsize - 1) - 1)
    infinity = np.array(np.inf, keys.dtype).view(key.code_dtype)[()]
    for first, last in tie_ranges(out, descending):
        ends = out[first : last : max(last - first - 1, 1)].view(key.code_dtype).get()
        if ends[0] != ends[-1]:  # else all are the same bits, which the order of the codes has put together
            is_nan = int(ends[0]) & int(magnitude) > int(infinity)
            out[first:last] = keys[(bits & magnitude) > infinity] if is_nan else keys[(bits & magnitude) == 0]


def sort_each(
    elements: Elements, keys: Any, keys_out: Any, positions_out: Any, partition: RowPartition | None = None
) -> None:
    """Sort each row of a matrix, into keys or into positions."""
    # Positions count from the start of the row if a block holds a row, otherwise from the start of some row before it.
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
    # Short rows take a block each. Long rows are partitioned by one map for all of them, or by a map each where their
    # distributions differ. Longer ones are sorted as arrays.
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


def sort_rows_with_positions(keys: Any, *, descending: bool = False) -> tuple[Any, Any]:
    """Sort each row stably, and return the uint32 positions that the keys had in it, or in the rows from one before.

    Equal keys may lose their bits. A position is that in the row modulo its length.
    """
    cupy, length = require_cupy(), keys.shape[1]
    check_array(keys, "keys", 2)
    check_indexable(keys.size)
    keys_out, positions = cupy.empty_like(keys), cupy.empty(keys.shape, np.uint32)
    if keys.size:
        elements = indexed_elements(device_key(keys.dtype, descending), "u32")
        in_block = not needs_spare(elements, length)
        sort_each(elements, keys, keys_out, positions, None if in_block else plan_partition(elements, length))
    return keys_out, positions


def argsort_rows(keys: Any, *, descending: bool = False) -> Any:
    """Find the int64 positions within each row that sort the row, stably."""
    check_array(keys, "keys", 2)
    check_indexable(keys.size)
    key = device_key(keys.dtype, descending)
    out = require_cupy().empty(keys.shape, np.int64)
    if keys.size == 0:
        return out
    length, elements = keys.shape[1], indexed_elements(key, "long long")
    in_block = not needs_spare(elements, length)
    sort_each(elements, keys, None, out, None if in_block else plan_partition(elements, length))
    if not in_block:
        out %= length
    return out
