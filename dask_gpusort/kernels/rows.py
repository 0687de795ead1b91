"""Sorts of the rows of a CuPy matrix, on the current device and stream, in NumPy 2.5's order.

    short rows     finish: one block a row, in shared memory
    long rows      sample -> one quantile map for all rows -> count -> scan -> partition, row by row -> finish
                                                           buckets that do not fit: `partition_recursively`
    unlike rows    `partition_recursively`: every row by digits of its own
    longest rows   each as an array of its own

One map does where the rows are of one distribution: the sample tells before keys are moved. Buckets are counted and
claimed row by row, so a row costs no launch of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .block_sort.block_sort import SEGMENT_BYTES, Buckets, list_overflow, run_block_sort, run_uniform_block_sort
from .buckets.histogram import BalanceTest, sample_splitters
from .keys.dtypes import DeviceKey, device_key
from .keys.elements import Arrays, Elements, indexed_elements
from .launch.array_checks import check_array, check_indexable, prepare_out
from .launch.launch import Launch, Readback
from .launch.loader import require_cupy
from .msd.msd import MAP_FLAGS_BYTES, MapFlags
from .msd.partition import BY_SHARE, UNIFORM, fine_digits, run_partition
from .msd.recursive_partition import partition_recursively
from .policy import tuning
from .policy.limits import (
    block_sort_shapes,
    count_row_bytes,
    fit_tile,
    main_shapes,
    most_row_digits,
    multiprocessors,
    needs_spare,
)
from .sorting import plain_elements, sort_plain

FEWEST_CODE_BYTES = 4  # of the blocks' codes


@dataclass(frozen=True)
class RowPartition:
    """How every row of a matrix is partitioned.

    Attributes
    ----------
    tile : tuning.Tile
        Of the partition: whole tiles hold a row with little room to spare.
    shape : tuning.BlockSortShape
        The block that finishes a bucket.
    num_buckets : int
        Of a row.
    spread : int
        Digits of the partition in a bucket, a power of two.
    fine_bits : int
        Of a fine bucket's number, those below the digit's: intervals of the map are cut finer than digits.
    """

    tile: tuning.Tile
    shape: tuning.BlockSortShape
    num_buckets: int
    spread: int
    fine_bits: int

    @property
    def num_digits(self) -> int:
        """Of a row."""
        return self.num_buckets * self.spread


def plan_partition(elements: Elements, length: int) -> RowPartition | None:
    """The partition of rows of a length, or `None` where no tile has digits enough."""
    shapes = [shape for shape in main_shapes(elements) if shape.threads <= tuning.MOST_ROW_THREADS]
    tiles = [fit_tile(tile, elements, tuning.MAP_WORDS) for tile in tuning.ROW_PARTITION[elements.shape]]
    for shape in shapes:
        for tile in tiles:
            most = min(tile.digits, most_row_digits())
            if length > most * shape.capacity * tuning.MOST_FILL:
                continue
            num_buckets = min(-(-length // int(shape.capacity * tuning.ROW_FILL)), most)
            spread = floor_power(min(tuning.ROW_DIGITS, most) // num_buckets)
            fine_bits = floor_power(tuning.MAX_FINE // (num_buckets * spread)).bit_length() - 1
            num_tiles = -(-length // tile.keys)
            tile = replace(tile, items=-(-length // (num_tiles * tile.threads)))
            return RowPartition(tile, shape, num_buckets, spread, fine_bits)
    return None


def floor_power(n: int) -> int:
    """The greatest power of two up to n; one for none."""
    return 1 << max(n, 1).bit_length() - 1


def sort_each(
    elements: Elements, keys: Any, keys_out: Any, positions_out: Any, partition: RowPartition | None = None
) -> None:
    """Sort each row of a matrix into keys, or into positions.

    Positions count from the start of the row where a block holds one, otherwise from the start of a row before it.
    """
    cupy = require_cupy()
    num_rows, length = keys.shape
    at_once = min(num_rows, max(tuning.ROW_KEYS // length, 1)) if partition else num_rows
    size = at_once * length if partition or needs_spare(elements, length) else 0
    out = positions_out if keys_out is None else keys_out
    in_place = out.itemsize == elements.code_bytes
    spare = cupy.empty((1 if in_place else 2, size), f"u{elements.code_bytes}")  # all batches share it
    payloads = list(cupy.empty((2, size), np.uint32)) if elements.payload_bytes else [None, None]
    for first in range(0, num_rows, at_once):
        batch = slice(first, first + at_once)
        source = keys[batch]
        outputs = [None if array is None else array[batch] for array in (keys_out, positions_out)]
        arrays = Arrays([spare[0], out[batch] if in_place else spare[1]], payloads, *outputs)
        if partition is None or not partition_rows(elements, source, arrays, partition):
            sort_one_by_one(elements, source, arrays)


def sort_one_by_one(elements: Elements, keys: Any, arrays: Arrays) -> None:
    """Sort each row by itself: in a block, or as a segment that is partitioned until its parts fit one."""
    num_rows, length = keys.shape
    shape = next((s for s in block_sort_shapes(elements) if length <= s.capacity), None)
    if shape is None:
        partition_rows_recursively(elements, keys, arrays)
        return
    rows = Buckets(num_rows, None, None, length)
    if length > tuning.EVEN_ROW:
        run_block_sort(elements, shape, elements.source, keys, None, arrays, rows)
    else:
        rows.pending = require_cupy().zeros(1 + num_rows, np.uint32)
        run_uniform_block_sort(elements, shape, elements.source, keys, None, arrays, rows)


def partition_rows_recursively(elements: Elements, keys: Any, arrays: Arrays) -> None:
    """Sort each row by digits of its own."""
    num_rows, length = keys.shape
    segments = require_cupy().empty(num_rows * SEGMENT_BYTES, np.uint8)
    Launch(
        "msd/segments.cu",
        "list_rows",
        -(-num_rows // tuning.SEGMENT_THREADS),
        tuning.SEGMENT_THREADS,
        (segments, np.uint32(num_rows), np.uint64(length)),
    ).run()
    listed = segments, num_rows, keys.size
    partition_recursively(elements, main_shapes(elements)[0], keys.size, arrays, 1, listed, (elements.source, keys))


def partition_rows(elements: Elements, keys: Any, arrays: Arrays, partition: RowPartition) -> bool:
    """Sort each row by one map for all.

    Parameters
    ----------
    elements : Elements
        What is sorted; positions count from the start of the matrix.
    keys : cupy.ndarray, shape (rows, length)
        Raw keys. May be the same memory as `arrays.codes[1]` and the outputs.
    arrays : Arrays
        `codes[1]` may be an output of the same width.

    Returns
    -------
    bool
        False: the rows are too unlike, and nothing is written.
    """
    cupy = require_cupy()
    num_rows, length = keys.shape
    num_buckets = num_rows * partition.num_buckets
    splitters = sample_rows(elements, keys, partition)
    map_flags = Readback(splitters[MAP_FLAGS_BYTES].view(np.uint32))
    counts = count_rows(elements, keys, splitters, partition)
    cursors = cupy.empty(counts.size, np.uint64)
    starts = cupy.empty(num_buckets + 1, np.uint64)
    segments = cupy.empty(num_rows * SEGMENT_BYTES, np.uint8)
    tiles = -(-length // partition.tile.keys)
    Launch(
        "buckets/row_histogram.cu",
        "scan_rows",
        -(-num_rows * tuning.WARP_THREADS // tuning.SCAN_ROW_THREADS),
        tuning.SCAN_ROW_THREADS,
        (
            counts,
            np.uint32(num_rows),
            np.uint64(length),
            np.uint32(partition.num_digits),
            np.uint32(partition.spread),
            np.uint32(tiles),
            cursors,
            starts,
            segments,
        ),
    ).run()
    # The device is still counting when the answer is here.
    found = MapFlags(*map_flags.wait())
    if found.is_imbalanced:
        return False
    domain = elements.domain if found.by_value else elements.code_domain
    run_partition(
        elements,
        partition.tile,
        fine_digits(domain, UNIFORM if found.is_uniform else BY_SHARE, True),
        elements.source,
        num_rows * tiles,
        (keys, None),
        (arrays.codes[0], arrays.payloads[0]),
        splitters,
        partition.fine_bits,
        (segments, num_rows),
        cursors,
    )
    shape = partition.shape
    buckets = Buckets(num_buckets, starts, starts[1:], 0, **list_overflow(keys.size, shape.capacity, num_buckets))
    codes, payload = arrays.codes[0], arrays.payloads[0]
    run_uniform_block_sort(elements, shape, elements.codes, codes, payload, arrays, buckets, keys.size / num_buckets)
    num_segments, num_keys, _ = Readback(buckets.overflow).wait()
    partition_recursively(elements, shape, keys.size, arrays, 0, (buckets.segments, num_segments, num_keys))
    return True


def sample_rows(elements: Elements, keys: Any, partition: RowPartition) -> Any:
    """The quantile map of all rows, told uneven where too many keys lie in buckets that would not fit a block."""
    num_rows, length = keys.shape
    judge = BalanceTest(
        length,
        num_rows * partition.num_buckets,
        partition.fine_bits + partition.spread.bit_length() - 1,
        partition.shape.capacity * partition.num_buckets / length,
        1,
    )
    return sample_splitters(elements, keys, keys.size, partition.num_digits << partition.fine_bits, judge)


def count_rows(elements: Elements, keys: Any, splitters: Any, partition: RowPartition) -> Any:
    """Keys of each digit of each row: uint32, rows times digits."""
    num_rows, length = keys.shape
    counts = require_cupy().zeros(num_rows * partition.num_digits, np.uint32)
    blocks = tuning.COUNT_ROW_BLOCKS * multiprocessors()
    part_keys = min(tuning.COUNT_ROW_KEYS, max(keys.size // (2 * blocks), tuning.COUNT_KEYS_PER_BLOCK))
    parts = -(-length // part_keys)
    Launch(
        "buckets/row_histogram.cu",
        f"count_rows<{elements.source}, {elements.domain}>",
        min(num_rows * parts, blocks),
        tuning.COUNT_ROW_THREADS,
        (
            keys,
            np.uint64(length),
            np.uint32(parts),
            np.uint32(num_rows * parts),
            splitters,
            np.uint32(partition.fine_bits),
            np.uint32(partition.num_digits),
            counts,
        ),
        count_row_bytes(partition.num_digits),
    ).run()
    return counts


def row_elements(key: DeviceKey) -> Elements:
    """Keys alone, by their one-to-one codes; those of 8 and 16 bits travel as codes of 32."""
    if key.itemsize >= FEWEST_CODE_BYTES:
        return plain_elements(key)
    name = f"Widened<{key.order}>"
    return Elements(name, name, "u32", domain=key.domain("u32"))


def sort_rows(keys: Any, *, descending: bool = False, stable: bool = False, out: Any = None) -> Any:
    """Sort each row of a matrix.

    Parameters
    ----------
    keys : cupy.ndarray, shape (rows, length)
        C-contiguous.
    out : cupy.ndarray, optional
        Receives the result; may be `keys`.

    Returns
    -------
    cupy.ndarray, shape (rows, length)
    """
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
    """Positions within each row that sort the row, stable.

    Returns
    -------
    cupy.ndarray, shape (rows, length), int64
    """
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
