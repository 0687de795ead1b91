"""Merge sort by a user's comparison (``merge_sort.cu``): sorted tiles, then levels that merge four runs or two.

One level::

    codes ── split_equal_runs ──▶ parts ── merge_parts ──▶ runs twice as long
    codes ── split_four_runs ──▶ parts ── merge_four_way ──▶ runs four times as long

Memory beyond input and output: one copy of the codes and positions (for codes alone the spare copy), and 64 bytes per
part. The merge sort of Satish, Harris and Garland, section 5, is `papers.sampled_merge_sort`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.less import USER_LESS, Comparison
from ..launch.cxx_types import bytes_of_type, type_of_bytes
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import merge_tuning
from ..policy.merge_tuning import MergeShape

SOURCE = "merge/merge_sort.cu"
PARTS_SOURCE = "merge/merge_parts.cu"
FOUR_WAY_SOURCE = "merge/four_way_merge.cu"
PART_BYTES = cxx_constant("merge/merge_parts.cuh", "kPartBytes")
PLAN_THREADS = cxx_constant("merge/merge_parts.cuh", "kPlanThreads")
FOUR_WAY_RUNS = cxx_constant("merge/four_way_merge.cuh", "kWays")
WIDE_POSITION = 8


@dataclass(frozen=True)
class Buffers:
    """Hold codes and positions between the levels, and the outputs."""

    codes: list[Any]  # the last level reads ``codes[0]``; ``codes[1]`` may be `keys_out`
    positions: list[Any]  # uint32, with the codes, or two None
    keys_out: Any  # what the last level stores, or None
    positions_out: Any  # or None

    @property
    def value(self) -> str:
        """C++ type of the values that travel with the codes."""
        return type_of_bytes(0 if self.positions[0] is None else self.positions[0].itemsize)

    def pair(self, slot: int) -> tuple[Any, Any]:
        """Codes and positions of one of the two."""
        return self.codes[slot], self.positions[slot]

    def target(self, comparison: Comparison, levels_left: int) -> tuple[tuple[Any, Any], str]:
        """Arrays that a level writes with so many levels after it, and the C++ type that stores into them."""
        if levels_left:
            return self.pair((levels_left - 1) % 2), comparison.plain()
        wide = self.positions_out is not None and self.positions_out.itemsize == WIDE_POSITION
        return (self.keys_out, self.positions_out), comparison.plain("long long" if wide else "u32")


@dataclass(frozen=True)
class MergeLevel:
    """Describe one level of merging."""

    comparison: Comparison
    source: tuple[Any, Any]  # codes and positions
    target: tuple[Any, Any]  # the same; keys and positions on the last level
    value: str  # C++ type of the values that travel with the codes
    n: int  # keys of the array
    width: int  # keys of each run but the last
    sink: str  # C++ type that stores the merged codes

    @property
    def shape(self) -> MergeShape:
        """The block that merges a part."""
        return merge_tuning.merge_shape(self.comparison.code_bytes, bytes_of_type(self.value))

    def plan(self, source: str, name: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel that plans parts."""
        Launch(source, name, blocks, PLAN_THREADS, arguments, expression=self.comparison.expression).run()

    def merge_parts(self, parts: Any, count: int, shape: MergeShape) -> None:
        """Merge planned parts of pairs of runs."""
        name = merge_instance(self.sink, self.comparison.code, self.value, USER_LESS, shape)
        shared = shape.shared_bytes(self.comparison.code_bytes, bytes_of_type(self.value))
        arguments, expression = (parts, *self.target), self.comparison.expression
        Launch(PARTS_SOURCE, name, count, shape.threads, arguments, shared, expression=expression).run()


def plan_blocks(parts: int) -> int:
    """Blocks that plan some parts: neighbouring blocks share one part."""
    return blocks_for(parts, PLAN_THREADS - 1)


def merge_instance(sink: str, code: str, value: str, less: str, shape: MergeShape) -> str:
    """Name one template instance of merge_parts."""
    return instance("merge_parts", sink, code, value, less, shape.threads, shape.items, shape.blocks)


def sort(comparison: Comparison, keys: Any, buffers: Buffers) -> None:
    """Sort keys, of which there is one at least, stably; they may be ``buffers.keys_out``."""
    n = keys.size
    shape = merge_tuning.merge_shape(comparison.code_bytes, bytes_of_type(buffers.value))
    doublings = max(0, blocks_for(n, shape.keys) - 1).bit_length()
    steps = [(2, merge_pairs)] * (doublings % 2) + [(FOUR_WAY_RUNS, merge_four_way)] * (doublings // 2)
    target, sink = buffers.target(comparison, len(steps))
    types = comparison.plain(), sink, buffers.value, USER_LESS
    name = instance("sort_tiles", *types, shape.threads, shape.items, shape.blocks)
    shared = shape.shared_bytes(comparison.code_bytes, bytes_of_type(buffers.value))
    arguments, blocks = (keys, *target, np.uint64(n)), blocks_for(n, shape.keys)
    Launch(SOURCE, name, blocks, shape.threads, arguments, shared, expression=comparison.expression).run()
    run_levels(comparison, buffers, n, shape.keys, steps)


def run_levels(
    comparison: Comparison,
    buffers: Buffers,
    n: int,
    width: int,
    steps: Sequence[tuple[int, Callable[[MergeLevel], None]]],
) -> None:
    """Merge runs of `width` keys level by level, of which each makes one of so many runs by a function."""
    for left, (factor, merge) in zip(reversed(range(len(steps))), steps, strict=True):
        target, sink = buffers.target(comparison, left)
        merge(MergeLevel(comparison, buffers.pair(left % 2), target, buffers.value, n, width, sink))
        width *= factor


def merge_pairs(level: MergeLevel) -> None:
    """Merge runs of `width` keys in pairs, in equal parts that are cut by merge path."""
    comparison, shape = level.comparison, level.shape
    count = count_parts(level.n, 2 * level.width, shape.keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    name = instance("split_equal_runs", comparison.code, level.value, USER_LESS, shape.keys)
    arguments = (*level.source, np.uint64(level.n), np.uint64(level.width), parts, np.uint64(count))
    level.plan(SOURCE, name, plan_blocks(count), arguments)
    level.merge_parts(parts, count, shape)


def merge_four_way(level: MergeLevel) -> None:
    """Merge runs of `width` keys in fours."""
    comparison, shape = level.comparison, level.shape
    part_keys = (shape.threads - 1) * shape.items
    count = count_parts(level.n, FOUR_WAY_RUNS * level.width, part_keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    split = instance("split_four_runs", comparison.code, USER_LESS, part_keys)
    arguments = (level.source[0], np.uint64(level.n), np.uint64(level.width), parts, np.uint64(count))
    level.plan(FOUR_WAY_SOURCE, split, plan_blocks(count), arguments)
    types = (level.sink, comparison.code, level.value, USER_LESS)
    name = instance("merge_four_way", *types, shape.threads, shape.items, shape.blocks)
    shared = shape.shared_bytes(comparison.code_bytes, bytes_of_type(level.value))
    arguments = (*level.source, parts, *level.target)
    Launch(FOUR_WAY_SOURCE, name, count, shape.threads, arguments, shared, expression=comparison.expression).run()


def count_parts(n: int, merged: int, part_keys: int) -> int:
    """Number of parts of n keys in merged runs of `merged` keys, each of which begins with a new part."""
    whole, rest = divmod(n, merged)
    return whole * blocks_for(merged, part_keys) + blocks_for(rest, part_keys)
