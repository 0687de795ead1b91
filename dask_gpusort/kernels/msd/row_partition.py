"""Sorts of many rows of a matrix at once.

    one map for all rows    sample -> splitter map -> count -> scan -> partition, row by row -> block sort
                                                       buckets that do not fit a block: `partition_recursively`
    a map for each row      `partition_recursively`, with the rows as segments

One map serves all rows if they have similar distributions, which the sample tests before keys are moved. Buckets are
counted and claimed row by row, so that a row costs no launch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..block_sort.block_sort import SEGMENT_BYTES, BlockSort, run_uniform_block_sort, sampled_buckets
from ..buckets.splitters import BalanceTest, MapFlags, read_map_flags, sample_splitters
from ..keys.dtypes import Arrays, Elements
from ..launch.launch import Launch, blocks_for, side_by_side
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import count_row_bytes, fit_tile, main_shapes, most_row_digits, multiprocessors
from .partition import SPLITTERS, UNIFORM, Partition, Segments, fine_digits
from .recursive_partition import SegmentList, partition_recursively

SOURCE = "buckets/row_histogram.cu"
COUNT_THREADS = cxx_constant(SOURCE, "kRowThreads")
SCAN_THREADS = 256


@dataclass(frozen=True)
class RowPartition:
    """Say how every row of a matrix is partitioned."""

    tile: tuning.Tile  # the block of the partition; its tiles cover a row with few empty slots
    shape: tuning.BlockSortShape  # the block that sorts a bucket
    num_buckets: int  # of a row
    spread: int  # digits of the partition in a bucket, a power of two
    fine_bits: int  # bits of a fine bucket's number below the digit's: the map has finer buckets than digits

    @property
    def num_digits(self) -> int:
        """Digits of a row."""
        return self.num_buckets * self.spread

    @property
    def num_fine(self) -> int:
        """Fine buckets of a row."""
        return self.num_digits << self.fine_bits

    def num_tiles(self, length: int) -> int:
        """Tiles of a row."""
        return blocks_for(length, self.tile.keys)


def plan_partition(elements: Elements, length: int) -> RowPartition | None:
    """Give the partition of rows of `length` keys, or `None` where no tile has enough digits."""
    shapes = [shape for shape in main_shapes(elements) if shape.threads <= tuning.MOST_ROW_THREADS]
    tiles = [fit_tile(tile, elements, tuning.MAP_WORDS) for tile in tuning.ROW_PARTITION[elements.shape]]
    for shape in shapes:
        for tile in tiles:
            most = min(tile.digits, most_row_digits())
            if length > most * shape.capacity * tuning.MOST_FILL:
                continue
            num_buckets = min(blocks_for(length, int(shape.capacity * tuning.ROW_FILL)), most)
            spread = floor_power(min(tuning.ROW_DIGITS, most) // num_buckets)
            fine_bits = floor_power(tuning.MAX_FINE // (num_buckets * spread)).bit_length() - 1
            num_tiles = blocks_for(length, tile.keys)
            tile = replace(tile, items=blocks_for(length, num_tiles * tile.threads))
            return RowPartition(tile, shape, num_buckets, spread, fine_bits)
    return None


def floor_power(n: int) -> int:
    """Give the greatest power of two up to n; 1 for n = 0."""
    return 1 << max(n, 1).bit_length() - 1


def partition_rows(elements: Elements, keys: Any, arrays: Arrays, partition: RowPartition) -> bool:
    """Sort each row by one map for all, unless the distributions of the rows differ too much: nothing is then written.

    Keys may be the memory of `arrays.codes[1]` and of the outputs; `codes[1]` may be an output of the same width.
    """
    with side_by_side:
        splitters = sample_rows(elements, keys, partition)
        flags = read_map_flags(splitters)
        counts = count_rows(elements, keys, splitters, partition)
        segments, starts = scan_rows(counts, keys.shape, partition)
        found = MapFlags(*flags.wait())  # the device is still counting
        if found.is_imbalanced:
            return False
        domain = elements.domain if found.by_value else elements.code_domain
        kind = UNIFORM if found.is_uniform else SPLITTERS
        digits = fine_digits(domain, kind, True, splitters, partition.fine_bits)
        codes = arrays.codes[0], arrays.payloads[0]
        Partition(elements, elements.source, partition.tile, digits, segments, (keys, None), codes).run()
        sort_row_buckets(elements, keys.size, arrays, partition.shape, starts)
    return True


def sample_rows(elements: Elements, keys: Any, partition: RowPartition) -> Any:
    """Give the splitter map of all rows, imbalanced where too many keys are in buckets that would not fit a block."""
    num_rows, length = keys.shape
    test = BalanceTest(
        length=length,
        num_buckets=num_rows * partition.num_buckets,
        fine_bits=partition.fine_bits + partition.spread.bit_length() - 1,
        overfull=partition.shape.capacity * partition.num_buckets / length,
        least=1,
    )
    return sample_splitters(elements, keys, keys.size, partition.num_fine, test)


def count_rows(elements: Elements, keys: Any, splitters: Any, partition: RowPartition) -> Any:
    """Count the keys of each digit of each row: uint32, rows times digits."""
    num_rows, length = keys.shape
    counts = require_cupy().zeros(num_rows * partition.num_digits, np.uint32)
    blocks = tuning.COUNT_ROW_BLOCKS * multiprocessors()
    part_keys = min(tuning.COUNT_ROW_KEYS, max(keys.size // (2 * blocks), tuning.COUNT_KEYS_PER_BLOCK))
    parts = blocks_for(length, part_keys)
    sizes = np.uint64(length), np.uint32(parts), np.uint32(num_rows * parts)
    digits = splitters, np.uint32(partition.fine_bits), np.uint32(partition.num_digits)
    kernel, shared = f"count_rows<{elements.source}, {elements.domain}>", count_row_bytes(partition.num_digits)
    arguments = keys, *sizes, *digits, counts
    Launch(SOURCE, kernel, min(num_rows * parts, blocks), COUNT_THREADS, arguments, shared).run()
    return counts


def scan_rows(counts: Any, shape: tuple[int, int], partition: RowPartition) -> tuple[Segments, Any]:
    """Scan the counts: the rows as segments with their cursors, and the starts of all buckets."""
    cupy, (num_rows, length) = require_cupy(), shape
    cursors = cupy.empty(counts.size, np.uint64)
    starts = cupy.empty(num_rows * partition.num_buckets + 1, np.uint64)
    table = cupy.empty(num_rows * SEGMENT_BYTES, np.uint8)
    num_tiles = partition.num_tiles(length)
    sizes = np.uint32(partition.num_digits), np.uint32(partition.spread), np.uint32(num_tiles)
    arguments = counts, np.uint32(num_rows), np.uint64(length), *sizes, cursors, starts, table
    blocks = blocks_for(num_rows * tuning.WARP_THREADS, SCAN_THREADS)
    Launch(SOURCE, "scan_rows", blocks, SCAN_THREADS, arguments).run()
    return Segments(table, num_rows, num_rows * num_tiles, cursors), starts


def sort_row_buckets(elements: Elements, n: int, arrays: Arrays, shape: tuning.BlockSortShape, starts: Any) -> None:
    """Sort the buckets of all rows, n keys in `codes[0]`; those that fit no block are partitioned again."""
    num_buckets = starts.size - 1
    buckets = sampled_buckets(n, shape.capacity, num_buckets, starts, starts[1:])
    codes = arrays.codes[0], arrays.payloads[0]
    run_uniform_block_sort(BlockSort(elements, shape, elements.codes, codes, arrays, buckets), n / num_buckets)
    partition_recursively(elements, shape, n, arrays, 0, SegmentList.of_overflow(buckets))


def partition_rows_recursively(elements: Elements, keys: Any, arrays: Arrays) -> None:
    """Sort each row by digits of its own range."""
    num_rows, length = keys.shape
    table = require_cupy().empty(num_rows * SEGMENT_BYTES, np.uint8)
    blocks = blocks_for(num_rows, tuning.SEGMENT_THREADS)
    arguments = table, np.uint32(num_rows), np.uint64(length)
    Launch("msd/segments.cu", "list_rows", blocks, tuning.SEGMENT_THREADS, arguments).run()
    rows = SegmentList(table, num_rows, keys.size)
    partition_recursively(elements, main_shapes(elements)[0], keys.size, arrays, 1, rows, (elements.source, keys))
