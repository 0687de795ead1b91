"""Merge sort by a user's comparison (``merge.cu``): sorted tiles, then levels that merge pairs of runs.

Memory beyond input and output: one copy of the codes and positions (for codes alone the spare copy), and 64 bytes per
part. The merge sort of Satish, Harris and Garland, section 5, is `papers.sampled_merge_sort`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.dtypes import USER_LESS, Comparison
from ..launch.arrays import bytes_of_type, type_of_bytes
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import tuning
from ..policy.tuning import MergeShape

SOURCE = "merge/merge.cu"
PART_BYTES = cxx_constant("merge/merge_tile.cuh", "kPartBytes")
PLAN_THREADS = cxx_constant("merge/merge_tile.cuh", "kPlanThreads")
WIDE_POSITION = 8


@dataclass(frozen=True)
class MergeTypes:
    """Name the C++ types of a merge."""

    code: str  # type of the keys, of `code_bytes` bytes
    code_bytes: int
    value: str  # type of the values that travel with the keys
    less: str = USER_LESS  # type whose ``less(a, b)`` compares two keys
    expression: str | None = None  # of the user, if there is one

    @property
    def value_bytes(self) -> int:
        """Bytes of a value."""
        return bytes_of_type(self.value)

    @property
    def shape(self) -> MergeShape:
        """The block that sorts a tile or merges a part."""
        return tuning.merge_shape(self.code_bytes, self.value_bytes)

    def plan(self, source: str, name: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel that plans parts."""
        Launch(source, name, blocks, PLAN_THREADS, arguments, expression=self.expression).run()

    def launch(self, kernel: str, types: tuple[str, ...], shape: MergeShape, blocks: int, *arguments: Any) -> None:
        """Launch a kernel whose blocks sort tiles or merge parts; `types` are the first template arguments."""
        name = instance(kernel, *types, self.value, self.less, shape.threads, shape.items, shape.blocks)
        shared = shape.shared_bytes(self.code_bytes, self.value_bytes)
        Launch(SOURCE, name, blocks, shape.threads, arguments, shared, expression=self.expression).run()


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
        """Give the arrays that a level writes with so many levels after it, and the C++ type that stores into them."""
        if levels_left:
            return self.pair((levels_left - 1) % 2), comparison.plain()
        wide = self.positions_out is not None and self.positions_out.itemsize == WIDE_POSITION
        return (self.keys_out, self.positions_out), comparison.plain("long long" if wide else "u32")


@dataclass(frozen=True)
class MergeLevel:
    """Describe one level of merging."""

    types: MergeTypes
    source: tuple[Any, Any]  # codes and positions
    target: tuple[Any, Any]  # the same; keys and positions on the last level
    n: int  # keys of the array
    width: int  # keys of each run but the last
    sink: str  # C++ type that stores the merged codes

    def merge_parts(self, parts: Any, count: int, shape: MergeShape) -> None:
        """Merge planned parts of pairs of runs."""
        self.types.launch("merge_parts", (self.sink, self.types.code), shape, count, parts, *self.target)


def plan_blocks(parts: int) -> int:
    """Count the blocks that plan some parts: neighbouring blocks share one part."""
    return blocks_for(parts, PLAN_THREADS - 1)


def sort(comparison: Comparison, keys: Any, buffers: Buffers) -> None:
    """Sort keys, of which there is one at least, stably; they may be ``buffers.keys_out``."""
    n, types = keys.size, merge_types(comparison, buffers)
    shape = types.shape
    target, sink = buffers.target(comparison, count_levels(n, shape.keys))
    blocks, arguments = blocks_for(n, shape.keys), (keys, *target, np.uint64(n))
    types.launch("sort_tiles", (comparison.plain(), sink), shape, blocks, *arguments)
    run_levels(comparison, buffers, n, shape.keys, merge_pairs)


def merge_types(comparison: Comparison, buffers: Buffers) -> MergeTypes:
    """The C++ types of a sort by comparison."""
    return MergeTypes(comparison.code, comparison.code_bytes, buffers.value, expression=comparison.expression)


def count_levels(n: int, width: int) -> int:
    """Count the levels that merge runs of `width` of n keys into one, n above 0."""
    return (blocks_for(n, width) - 1).bit_length()


def run_levels(
    comparison: Comparison, buffers: Buffers, n: int, width: int, merge: Callable[[MergeLevel], None]
) -> None:
    """Merge runs of `width` keys level by level, in pairs, by a function for one level."""
    for left in reversed(range(count_levels(n, width))):
        target, sink = buffers.target(comparison, left)
        merge(MergeLevel(merge_types(comparison, buffers), buffers.pair(left % 2), target, n, width, sink))
        width *= 2


def merge_pairs(level: MergeLevel) -> None:
    """Merge runs of `width` keys in pairs, in equal parts that are cut by merge path."""
    types, shape = level.types, level.types.shape
    whole, rest = divmod(level.n, 2 * level.width)  # each merged run begins with a new part
    count = whole * blocks_for(2 * level.width, shape.keys) + blocks_for(rest, shape.keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    name = instance("split_equal_runs", types.code, types.value, types.less, shape.keys)
    arguments = (*level.source, np.uint64(level.n), np.uint64(level.width), parts, np.uint64(count))
    types.plan(SOURCE, name, plan_blocks(count), arguments)
    level.merge_parts(parts, count, shape)
