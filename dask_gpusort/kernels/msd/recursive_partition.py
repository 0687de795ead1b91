"""Further levels: a segment that fits no block is partitioned by digits of its own range, until its children fit.

number tiles -> measure -> plan -> sample -> count -> scan -> partition -> block sort
^                                                                          |  children that do not fit
+--------------------------------------------------------------------------+
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..block_sort.block_sort import BlockSort, Buckets, run_uniform_block_sort, sampled_buckets
from ..keys.dtypes import Arrays, Elements
from ..launch.launch import Launch, Readback, instance, side_by_side
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.limits import fit_tile
from .partition import DigitMap, Partition, Segments

SOURCE = "msd/segments.cu"
PLAN_WORDS = cxx_constant(SOURCE, "kPlanWords")
SCAN_SEGMENTS = instance("scan_segments", tuning.SEGMENT_THREADS)


@dataclass(slots=True)
class SegmentList:
    """Hold segments that still need sorting."""

    table: Any  # C++ structs ``Segment``, in bytes
    count: int  # of segments
    num_keys: int  # of all segments

    @classmethod
    def of_overflow(cls, buckets: Buckets) -> SegmentList:
        """Give the buckets that do not fit a block, which a block sort has listed; waits for the device."""
        count, num_keys, _ = Readback(buckets.overflow).wait()
        return cls(buckets.segments, count, num_keys)


@dataclass(slots=True)
class Level:
    """Describe one level of partition, and the block sort of what it makes."""

    elements: Elements
    shape: tuning.BlockSortShape  # the block that sorts a child
    n: int  # keys of the whole array: with the shape, the most segments that can come out
    arrays: Arrays
    target: int  # index of the codes and payloads that the level writes
    source: str  # C++ source of the codes
    inputs: tuple[Any, Any]  # codes (or raw keys) and payloads
    segments: SegmentList

    @property
    def keys_alone(self) -> bool:
        """Keys have no payload beside them."""
        return self.elements.payload_bytes == 0

    @property
    def tile(self) -> tuning.Tile:
        """The tile that all kernels of the level share."""
        elements = self.elements
        return fit_tile(tuning.SEGMENT_PARTITION[elements.shape], elements, tuning.SEGMENT_MAP_WORDS)

    @property
    def num_tiles(self) -> int:
        """Tiles of all segments, at most: the last tile of each may be partial."""
        return self.segments.num_keys // self.tile.keys + self.segments.count

    @property
    def listed(self) -> tuple[Any, np.uint32]:
        """The segments, as kernel arguments."""
        return self.segments.table, np.uint32(self.segments.count)

    def launch(self, kernel: str, blocks: int, *arguments: Any) -> None:
        """Launch a kernel of ``segments.cu``."""
        Launch(SOURCE, kernel, blocks, tuning.SEGMENT_THREADS, arguments).run()

    def on_tiles(self, kernel: str) -> str:
        """Name a kernel that reads the elements tile by tile."""
        return instance(kernel, self.source, self.elements.payload_type, self.tile.items)

    def measure(self) -> None:
        """Number the tiles and find each segment's range of codes."""
        self.launch(instance("number_tiles", self.tile.items), 1, *self.listed)
        self.launch(self.on_tiles("measure_segments"), self.num_tiles, *self.inputs, *self.listed)

    def plan(self) -> tuple[int, int]:
        """Choose the digits of each segment: how many children there are, and how many segments hold one code."""
        target = np.uint32(self.shape.capacity * tuning.SEGMENT_FILL)
        plan = require_cupy().zeros(PLAN_WORDS, np.uint64)
        self.launch(instance("plan_segments", not self.keys_alone), 1, *self.listed, target, plan)
        num_children, num_constant = Readback(plan).wait()
        return num_children, num_constant

    def store_constant(self) -> None:
        """Write the segments of one code to the outputs."""
        elements, arrays = self.elements, self.arrays
        types = elements.sink, elements.code_type, elements.payload_type
        outputs = self.inputs[1], arrays.keys_out, arrays.positions_out
        kernel = instance("store_constant", *types, self.tile.items)
        self.launch(kernel, self.num_tiles, *outputs, *self.listed, np.uint64(elements.base))

    def sample(self, num_children: int) -> Any:
        """Sample each segment: the intervals that its digits are cut by."""
        intervals = require_cupy().empty(num_children * tuning.INTERVALS_PER_DIGIT, np.uint32)
        kernel = instance("sample_segments", self.source)
        self.launch(kernel, self.segments.count, self.inputs[0], self.segments.table, intervals)
        return intervals

    def count(self, num_children: int, intervals: Any) -> tuple[Any, Any]:
        """Count and scan the keys of each child: starts and cursors."""
        cupy = require_cupy()
        counts = cupy.zeros(num_children, np.uint64)
        starts, cursors = cupy.empty((2, num_children), np.uint64)
        self.launch(self.on_tiles("count_segments"), self.num_tiles, *self.inputs, intervals, *self.listed, counts)
        self.launch(SCAN_SEGMENTS, self.segments.count, self.segments.table, counts, starts, cursors)
        return starts, cursors

    def fill(self, starts: Any) -> None:
        """Write the segments with one code a digit to the outputs; for keys alone."""
        elements = self.elements
        kernel = instance("fill_segments", elements.sink, elements.code_type, self.tile.items)
        self.launch(kernel, self.num_tiles, starts, self.arrays.keys_out, *self.listed, np.uint64(elements.base))

    @property
    def outputs(self) -> tuple[Any, Any]:
        """Codes and payloads that the level writes."""
        return self.arrays.codes[self.target], self.arrays.payloads[self.target]

    def partition(self, intervals: Any, cursors: Any) -> None:
        """Move every element to its child."""
        name = instance("SegmentDigits", self.elements.code_type, self.keys_alone)
        digits = DigitMap(name, tuning.SEGMENT_MAP_WORDS, intervals)
        segments = Segments(self.segments.table, self.segments.count, self.num_tiles, cursors)
        Partition(self.elements, self.source, self.tile, digits, segments, self.inputs, self.outputs).run()

    def sort_children(self, num_children: int, starts: Any, cursors: Any) -> SegmentList:
        """Sort the children that fit a block; the others are the segments of the next level."""
        children = sampled_buckets(self.n, self.shape.capacity, num_children, starts, cursors)
        sort = BlockSort(self.elements, self.shape, self.elements.codes, self.outputs, self.arrays, children)
        run_uniform_block_sort(sort)
        return SegmentList.of_overflow(children)

    def run(self) -> SegmentList | None:
        """Run the level; `None` if no segment needs a partition."""
        with side_by_side:
            self.measure()
            num_children, num_constant = self.plan()
            if num_constant:
                self.store_constant()
            if num_children == 0:
                return None
            intervals = self.sample(num_children)
            starts, cursors = self.count(num_children, intervals)
            if self.keys_alone:
                self.fill(starts)
            self.partition(intervals, cursors)
            return self.sort_children(num_children, starts, cursors)


def partition_recursively(
    elements: Elements,
    shape: tuning.BlockSortShape,
    n: int,
    arrays: Arrays,
    current: int,
    segments: SegmentList,
    first: tuple[str, Any] | None = None,
) -> None:
    """Sort segments that fit no block: level by level, until all children fit one or hold one code."""
    # They are in `arrays` at `current`; `first` is the C++ source and the array of the first level, if it reads raw
    # keys.
    source, inputs = elements.codes, (arrays.codes[current], arrays.payloads[current])
    if first is not None:
        source, inputs = first[0], (first[1], None)
    level = Level(elements, shape, n, arrays, 1 - current, source, inputs, segments)
    while level.segments.count:
        left = level.run()
        if left is None:
            return
        level = replace(level, target=1 - level.target, source=elements.codes, inputs=level.outputs, segments=left)
