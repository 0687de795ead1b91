"""Most-significant-digit sort of one array on the device.

    sample -> splitter map -> histogram of fine buckets -> partition -> partition -> block sort in shared memory
                                          buckets that do not fit a block: `partition_recursively`

After Satish, Harris and Garland (IPDPS 2009), section 4, with the digit order reversed, as in the hybrid radix sort of
Stehle and Jacobsen (SIGMOD 2017): a block of the last pass holds a whole bucket, so the keys are read and written once
a level, and 2^28 keys of any width take two levels.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..block_sort.block_sort import BlockSort, Buckets, run_block_sort, run_uniform_block_sort, sampled_buckets
from ..buckets.splitters import narrow_base
from ..keys.dtypes import Arrays, DeviceKey, Elements, indexed_elements, tied_elements
from ..keys.transform import store_in_order
from ..launch.launch import Readback, blocks_for, side_by_side
from ..launch.loader import require_cupy
from ..lsd import lsd
from ..policy import tuning
from ..policy.limits import block_sort_shapes, main_shapes, most_fine
from .partition import BucketMap, DigitMap, Partition, Segments, describe_segments, map_buckets, split_fine
from .recursive_partition import SegmentList, partition_recursively


@dataclass(slots=True)
class SortTask:
    """Say what one sort reads and writes."""

    elements: Elements
    #: Raw keys (or codes, as `elements.source` says), contiguous. May be the memory of `arrays.codes[1]` and of the
    #: outputs.
    keys: Any
    n: int
    arrays: Arrays  # `codes[1]` may be an output of the same width: the last pass works in place, bucket by bucket
    #: Of the keys, where an earlier level has written them; else a payload is the elements' positions.
    payload: Any = None
    may_decline: bool = False  # decline keys that are skewed at every scale: stable passes sort them in less time

    @property
    def inputs(self) -> tuple[Any, Any]:
        """Keys and payloads."""
        return self.keys, self.payload

    def store(self) -> bool:
        """Store the elements if their keys are in order."""
        outputs = self.arrays.keys_out, self.arrays.positions_out
        # A partition has lost the order of equal keys that have a payload.
        return self.payload is None and store_in_order(self.elements, self.inputs, outputs, self.n)


@dataclass
class CoarseBuckets:
    """Elements in the buckets of the first level, by narrow codes if all codes are within 2^32 of each other."""

    elements: Elements
    arrays: Arrays
    tile: tuning.Tile
    buckets: BucketMap


def block_sort_shape(elements: Elements, n: int) -> tuple[tuning.BlockSortShape, int]:
    """Give the block of the block sort for n elements, and the number of fine buckets."""
    fine_limit = most_fine()
    if n <= tuning.SMALL_KEYS:
        shape = block_sort_shapes(elements)[tuning.SMALL_BLOCK_SORT]
        return shape, round_fine(blocks_for(n, int(shape.capacity * tuning.FILL)))
    for shape in main_shapes(elements):
        if n <= fine_limit * shape.capacity * tuning.MOST_FILL:
            break
    return shape, min(round_fine(blocks_for(n, int(shape.capacity * tuning.FILL))), fine_limit)


def round_fine(num_fine: int) -> int:
    """Give the next number of the form 2^k or 3 x 2^k: intervals of the splitter map then hold whole buckets."""
    power = 1 << max(num_fine - 1, 1).bit_length()
    return 3 * power // 4 if num_fine <= 3 * power // 4 else power


def sort(elements: Elements, keys: Any, n: int, arrays: Arrays, may_decline: bool = False) -> bool:
    """Sort n elements into the outputs, as in `SortTask`, or decline to: nothing is then written."""
    task = SortTask(elements, keys, n, arrays, None, may_decline)
    return sort_part(task) if n <= tuning.MOST_TWO_LEVELS else sort_parts(task)


def sort_part(task: SortTask) -> bool:
    """As `sort`, in one block or by two levels of partition, and more where buckets are overfull."""
    elements, n = task.elements, task.n
    smallest = next((s for s in block_sort_shapes(elements) if n <= s.capacity), None)
    if smallest is not None:
        buckets = Buckets(1, None, None, n)
        run_block_sort(BlockSort(elements, smallest, elements.source, task.inputs, task.arrays, buckets))
        return True
    shape, num_fine = block_sort_shape(elements, n)
    unsorted = sort_two_levels(task, shape, num_fine)
    if isinstance(unsorted, bool):
        return unsorted
    elements, arrays, buckets = unsorted
    partition_recursively(elements, shape, n, arrays, 1, SegmentList.of_overflow(buckets))
    return True


def sort_parts(task: SortTask) -> bool:
    """As `sort`, for more keys than two levels make small buckets of: one more partition, then part by part."""
    num_parts = 1 << (blocks_for(task.n, tuning.PART_KEYS) - 1).bit_length()
    num_fine = most_fine()
    # Each part chooses narrow codes for itself, by its own map.
    elements = replace(task.elements, narrow=None)
    with side_by_side:
        partition = functools.partial(partition_coarse, replace(task, elements=elements))
        coarse = map_buckets(
            elements, task.keys, task.n, num_fine, num_fine // num_parts, partition, task.store, task.may_decline
        )
    if isinstance(coarse, bool):
        return coarse
    for begin, end in pairwise([0, *Readback(coarse.buckets.cursors).wait()]):
        if begin < end:
            sort_part(part_of(replace(task, elements=replace(elements, source=elements.codes)), begin, end))
    return True


def part_of(task: SortTask, begin: int, end: int) -> SortTask:
    """Give the sort of one coarse bucket, whose codes the first level has written to `codes[0]`."""
    arrays = task.arrays
    # The output of the last pass becomes the output of the next one.
    codes = [array[begin:end] for array in reversed(arrays.codes)]
    payloads = [None if array is None else array[begin:end] for array in reversed(arrays.payloads)]
    outputs = [None if array is None else array[begin:end] for array in (arrays.keys_out, arrays.positions_out)]
    return SortTask(task.elements, codes[1], end - begin, Arrays(codes, payloads, *outputs), payloads[1])


def sort_two_levels(
    task: SortTask, shape: tuning.BlockSortShape, num_fine: int
) -> tuple[Elements, Arrays, Buckets] | bool:
    """Two partitions and the block sort, with the buckets that it may leave; without them, as `map_buckets`."""

    def sort_mapped(buckets: BucketMap) -> tuple[Elements, Arrays, Buckets]:
        coarse = partition_coarse(task, buckets)
        elements, arrays = coarse.elements, coarse.arrays
        codes = arrays.codes[0], arrays.payloads[0]
        fine = sort_coarse_buckets(coarse, buckets.digits(False), elements.codes, codes, task.n, shape)
        return elements, arrays, fine

    with side_by_side:
        return map_buckets(
            task.elements, task.keys, task.n, num_fine, split_fine(num_fine), sort_mapped, task.store, task.may_decline
        )


def partition_coarse(task: SortTask, buckets: BucketMap) -> CoarseBuckets:
    """Partition the keys into `codes[0]`."""
    elements, n, arrays = task.elements, task.n, task.arrays
    if buckets.is_narrow and elements.narrow is not None and (base := narrow_base(buckets.splitters)) is not None:
        elements = replace(elements.narrow, base=base)
        arrays, buckets.domain = arrays.narrowed(elements, n), elements.narrow_domain
    tile = describe_segments(elements, buckets)
    segments = Segments(buckets.tables["whole"], 1, blocks_for(n, tile.keys), buckets.tables["coarse_cursors"])
    codes = arrays.codes[0], arrays.payloads[0]
    Partition(elements, elements.source, tile, buckets.digits(True), segments, task.inputs, codes).run()
    return CoarseBuckets(elements, arrays, tile, buckets)


def sort_coarse_buckets(
    coarse: CoarseBuckets, digits: DigitMap, source: str, inputs: tuple[Any, Any], n: int, shape: tuning.BlockSortShape
) -> Buckets:
    """Partition `inputs`, in coarse buckets, into `codes[1]`, and sort the fine buckets."""
    elements, arrays, buckets = coarse.elements, coarse.arrays, coarse.buckets
    codes, num_fine = (arrays.codes[1], arrays.payloads[1]), buckets.num_fine
    num_tiles = blocks_for(n, coarse.tile.keys) + buckets.num_coarse  # each bucket has a partial one
    segments = Segments(buckets.tables["coarse"], buckets.num_coarse, num_tiles, buckets.tables["cursors"])
    Partition(elements, source, coarse.tile, digits, segments, inputs, codes).run()
    table = buckets.tables["starts"], buckets.tables["cursors"]
    fine = sampled_buckets(n, shape.capacity, num_fine, *table)
    run_uniform_block_sort(BlockSort(elements, shape, elements.codes, codes, arrays, fine), n / num_fine)
    return fine


def sort_indexed_passes(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """As `sort_indexed`, by LSD passes over the bytes of the keys."""
    cupy = require_cupy()
    if keys.data.ptr == positions_out.data.ptr:
        keys = keys.copy()  # a single pass reads the keys while it writes the positions
    codes, payloads = list(cupy.empty((2, keys.size), key.code_dtype)), list(cupy.empty((2, keys.size), np.uint32))
    elements = tied_elements(key, position_type, "u32")
    lsd.sort(elements, keys, keys.size, Arrays(codes, payloads, keys_out, positions_out))


def sort_indexed(keys: Any, key: DeviceKey, position_type: str, positions_out: Any, keys_out: Any) -> None:
    """Sort fewer than 2^32 keys stably with their positions: the low part of the code, or a payload beside it."""
    # Keys may begin the memory of `positions_out`, of int64 or uint32; floats that compare equal leave with the same
    # bits.
    cupy = require_cupy()
    n = keys.size
    in_place = positions_out.itemsize == 8
    elements = indexed_elements(key, position_type)
    codes = [cupy.empty(n, np.uint64), positions_out if in_place else cupy.empty(n, np.uint64)]
    payloads = list(cupy.empty((2, n), np.uint32)) if elements.payload_bytes else [None, None]
    arrays = Arrays(codes, payloads, keys_out, positions_out)
    if not sort(elements, keys, n, arrays, may_decline=True):
        del codes, payloads, arrays
        sort_indexed_passes(keys, key, position_type, positions_out, keys_out)
