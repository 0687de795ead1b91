"""Merge sort of Satish, Harris and Garland, section 5 (``merge_sort.cu``): sorted tiles, then levels of merging.

One level, in pairs or in fours::

    codes ── split_equal_runs, or cut_at_samples, plan_between_cuts ──▶ parts ── merge_parts ──▶ runs twice as long
    codes ── split_four_runs ──▶ parts ── merge_four_way ──▶ runs four times as long

Memory beyond input and output: one copy of the codes and positions (for codes alone the spare copy), and 64 bytes per
part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..keys.less import Comparison
from ..launch.cxx_types import bytes_of_type, type_of_bytes
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy import merge_tuning
from ..policy.merge_tuning import MergeTile

SOURCE = "merge/merge_sort.cu"
PARTS_SOURCE = "merge/merge_parts.cu"
FOUR_WAY_SOURCE = "merge/four_way_merge.cu"
NETWORK_SOURCE = "papers/odd_even_merge.cu"
PART_BYTES = cxx_constant("merge/merge_parts.cuh", "kPartBytes")
PLAN_THREADS = cxx_constant("merge/merge_parts.cuh", "kPlanThreads")
FOUR_WAY_RUNS = cxx_constant("merge/four_way_merge.cuh", "kWays")
WIDE_POSITION = 8
Split = Literal["path", "samples", "four_way"]
Tiles = Literal["merge", "network"]


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

    @property
    def outputs(self) -> tuple[Any, Any]:
        """What the last level writes."""
        return self.keys_out, self.positions_out

    def pair(self, slot: int) -> tuple[Any, Any]:
        """Codes and positions of one of the two."""
        return self.codes[slot], self.positions[slot]


@dataclass(frozen=True)
class Level:
    """Describe one level of merging."""

    comparison: Comparison
    source: tuple[Any, Any]  # codes and positions
    target: tuple[Any, Any]  # the same; keys and positions on the last level
    value: str  # C++ type of the values that travel with the codes
    n: int  # keys of the array
    width: int  # keys of each run but the last
    sink: str  # C++ type that stores the merged codes
    split: Split  # how runs are cut into parts

    @property
    def shape(self) -> MergeTile:
        """The block that merges a part."""
        return merge_tuning.merge_shape(self.comparison.code_bytes, bytes_of_type(self.value))

    def plan(self, source: str, name: str, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Launch a kernel that plans parts."""
        Launch(source, name, blocks, PLAN_THREADS, arguments, expression=self.comparison.expression).run()


def plan_blocks(parts: int) -> int:
    """Blocks that plan some parts: neighbouring blocks share one part."""
    return blocks_for(parts, PLAN_THREADS - 1)


def merge_instance(sink: str, code: str, value: str, less: str, shape: MergeTile) -> str:
    """Name one template instance of merge_parts."""
    return instance("merge_parts", sink, code, value, less, shape.threads, shape.items, shape.blocks)


def sort(
    comparison: Comparison, keys: Any, buffers: Buffers, *, split: Split = merge_tuning.SPLIT, tiles: Tiles = "merge"
) -> None:
    """Sort keys, of which there is one at least, stably; they may be ``buffers.keys_out``.

    Runs are cut into parts in pairs by merge path or by the paper's samples, or in fours by selection; tiles are sorted
    in strips in registers that are then merged, or by Batcher's network on (key, position) (Satish, Harris, Garland,
    IPDPS 2009, section 5).
    """
    n = keys.size
    width = tile_keys(comparison, buffers, tiles)
    factors = level_factors(blocks_for(n, width), split)
    levels = len(factors)
    sort_tiles(comparison, keys, buffers, tiles, levels)
    for level, factor in enumerate(factors):
        slot = (levels - 1 - level) % 2
        last = level == levels - 1
        target = buffers.outputs if last else buffers.pair(1 - slot)
        sink = final_sink(comparison, buffers) if last else between_sink(comparison)
        merge = merge_four_way if factor == FOUR_WAY_RUNS else merge_pairs
        merge(Level(comparison, buffers.pair(slot), target, buffers.value, n, width, sink, split))
        width *= factor


def level_factors(runs: int, split: Split) -> list[int]:
    """Number of runs that each level merges into one: at most one level of two, then levels of four."""
    doublings = max(0, runs - 1).bit_length()
    if split != "four_way":
        return [2] * doublings
    return [2] * (doublings % 2) + [FOUR_WAY_RUNS] * (doublings // 2)


def final_sink(comparison: Comparison, buffers: Buffers) -> str:
    """C++ type that stores the sorted keys and positions."""
    wide = buffers.positions_out is not None and buffers.positions_out.itemsize == WIDE_POSITION
    return comparison.sink.format(position="long long" if wide else "u32")


def between_sink(comparison: Comparison) -> str:
    """C++ type that stores codes between the levels."""
    return f"Plain<{comparison.code}, u32>"


def tile_keys(comparison: Comparison, buffers: Buffers, tiles: Tiles) -> int:
    """Keys of one sorted tile."""
    if tiles == "network":
        return merge_tuning.NETWORK_TILE_KEYS
    return merge_tuning.merge_shape(comparison.code_bytes, bytes_of_type(buffers.value)).keys


def sort_tiles(comparison: Comparison, keys: Any, buffers: Buffers, tiles: Tiles, levels: int) -> None:
    """Sort tiles into the buffer that the first level reads; into the outputs if there is no level."""
    target = buffers.pair((levels - 1) % 2) if levels else buffers.outputs
    sink = between_sink(comparison) if levels else final_sink(comparison, buffers)
    types = (comparison.source, sink, buffers.value, comparison.less)
    value_bytes = bytes_of_type(buffers.value)
    shape = merge_tuning.merge_shape(comparison.code_bytes, value_bytes)
    blocks = blocks_for(keys.size, tile_keys(comparison, buffers, tiles))
    arguments = (keys, *target, np.uint64(keys.size))
    if tiles == "network":
        threads = merge_tuning.NETWORK_THREADS
        name = instance("sort_tiles_by_network", *types, threads, merge_tuning.NETWORK_TILE_KEYS)
        Launch(NETWORK_SOURCE, name, blocks, threads, arguments, expression=comparison.expression).run()
    else:
        name = instance("sort_tiles", *types, shape.threads, shape.items, shape.blocks)
        shared = shape.shared_bytes(comparison.code_bytes, value_bytes)
        Launch(SOURCE, name, blocks, shape.threads, arguments, shared, expression=comparison.expression).run()


def merge_pairs(level: Level) -> None:
    """Merge runs of `width` keys in pairs."""
    comparison, shape = level.comparison, level.shape
    if level.split == "samples":
        shape = merge_tuning.SAMPLED
        parts, count = plan_by_samples(level)
        if comparison.expression is not None:
            for array in level.target:  # a comparison that is no order leaves gaps between parts
                if array is not None:
                    array.view(np.uint8).fill(0)
    else:
        parts, count = plan_by_path(level)
    name = merge_instance(level.sink, comparison.code, level.value, comparison.less, shape)
    shared = shape.shared_bytes(comparison.code_bytes, bytes_of_type(level.value))
    arguments = (parts, *level.target)
    Launch(PARTS_SOURCE, name, count, shape.threads, arguments, shared, expression=comparison.expression).run()


def merge_four_way(level: Level) -> None:
    """Merge runs of `width` keys in fours."""
    comparison, shape = level.comparison, level.shape
    part_keys = (shape.threads - 1) * shape.items
    count = count_parts(level.n, FOUR_WAY_RUNS * level.width, part_keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    split = instance("split_four_runs", comparison.code, comparison.less, part_keys)
    arguments = (level.source[0], np.uint64(level.n), np.uint64(level.width), parts, np.uint64(count))
    level.plan(FOUR_WAY_SOURCE, split, plan_blocks(count), arguments)
    types = (level.sink, comparison.code, level.value, comparison.less)
    name = instance("merge_four_way", *types, shape.threads, shape.items, shape.blocks)
    shared = shape.shared_bytes(comparison.code_bytes, bytes_of_type(level.value))
    arguments = (*level.source, parts, *level.target)
    Launch(FOUR_WAY_SOURCE, name, count, shape.threads, arguments, shared, expression=comparison.expression).run()


def count_parts(n: int, merged: int, part_keys: int) -> int:
    """Number of parts of n keys in merged runs of `merged` keys, each of which begins with a new part."""
    whole, rest = divmod(n, merged)
    return whole * blocks_for(merged, part_keys) + blocks_for(rest, part_keys)


def plan_by_path(level: Level) -> tuple[Any, int]:
    """Plan equal parts by merge path; returns the parts and their number."""
    comparison, shape = level.comparison, level.shape
    count = count_parts(level.n, 2 * level.width, shape.keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    name = instance("split_equal_runs", comparison.code, level.value, comparison.less, shape.keys)
    arguments = (*level.source, np.uint64(level.n), np.uint64(level.width), parts, np.uint64(count))
    level.plan(SOURCE, name, plan_blocks(count), arguments)
    return parts, count


def plan_by_samples(level: Level) -> tuple[Any, int]:
    """Plan parts between neighbouring samples; returns the parts and their number."""
    cupy, comparison, samples = require_cupy(), level.comparison, merge_tuning.SAMPLE_KEYS
    count = blocks_for(level.n, 2 * level.width) * 2 * (level.width // samples)
    cuts = cupy.zeros(2 * count, np.uint64)
    parts = cupy.empty(count * PART_BYTES, np.uint8)
    blocks, sizes = blocks_for(count, PLAN_THREADS), (np.uint64(level.n), np.uint64(level.width))
    cut = instance("cut_at_samples", comparison.code, comparison.less, samples)
    level.plan(SOURCE, cut, blocks, (level.source[0], *sizes, cuts, np.uint64(count)))
    plan = instance("plan_between_cuts", comparison.code, level.value, samples)
    level.plan(SOURCE, plan, blocks, (*level.source, *sizes, cuts, parts, np.uint64(count)))
    return parts, count
