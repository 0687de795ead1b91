"""Launches of the merge sort (``merge_sort.cu``): tiles, then levels of pairwise merging.

One level::

    codes ── split_even_runs (or rank_samples, close_parts) ──▶ parts ── merge_parts ──▶ codes, runs twice as long
    codes ── split_quads ─────────────────────────────────────▶ parts ── merge_four_way ──▶ codes, four times as long

Memory beyond input and output: one copy of the codes and positions (of codes alone: none but the spare copy), and 64
bytes a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..keys.less import Comparison
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..policy import merge_tuning
from ..policy.merge_tuning import MergeTile

SOURCE = "merge/merge_sort.cu"
PARTS_SOURCE = "merge/merge_parts.cu"
PART_BYTES = 64  # sizeof(Part), sizeof(FourWayPart)
WAYS = 4  # kWays in merge_four_way.cuh
FOUR_WAY_SOURCE = "merge/four_way_merge.cu"
Split = Literal["path", "samples", "four_way"]
Tiles = Literal["merge", "network"]


@dataclass(frozen=True)
class Buffers:
    """Where codes and positions are between the levels, and where the sorted keys and positions go.

    Attributes
    ----------
    codes : list of two arrays
        The last level reads ``codes[0]``; ``codes[1]`` may be `keys_out`.
    positions : list of two arrays, or of two None
        uint32, with the codes.
    keys_out, positions_out : arrays or None
        What the last level stores.
    """

    codes: list[Any]
    positions: list[Any]
    keys_out: Any
    positions_out: Any

    @property
    def value(self) -> str:
        """C++ type of what travels with a code."""
        return "NoValue" if self.positions[0] is None else "u32"

    @property
    def value_bytes(self) -> int:
        """Bytes of what travels with a code."""
        return 0 if self.positions[0] is None else 4


@dataclass(frozen=True)
class Level:
    """One level of merging: codes and values from `source` to `target`, runs of `width` keys to longer ones.

    Attributes
    ----------
    comparison : Comparison
    source, target : pair of arrays
        Codes and positions; keys and positions on the last level.
    value : str
        C++ type of what travels with a code, of `value_bytes` bytes.
    n, width : int
        Keys in all, and of a run.
    sink : str
        C++ type that stores the merged codes.
    split : {"path", "samples", "four_way"}
    """

    comparison: Comparison
    source: tuple[Any, Any]
    target: tuple[Any, Any]
    value: str
    value_bytes: int
    n: int
    width: int
    sink: str
    split: Split

    @property
    def shape(self) -> MergeTile:
        """The block that merges a part."""
        return merge_tuning.merge_shape(self.comparison.code_bytes, self.value_bytes)


def plan_blocks(parts: int) -> int:
    """Blocks that plan some parts: neighbours share one."""
    return -(-parts // (merge_tuning.PLAN_THREADS - 1))


def merge_instance(sink: str, code: str, value: str, less: str, shape: MergeTile) -> str:
    """Name one template instance of merge_parts."""
    return f"merge_parts<{sink}, {code}, {value}, {less}, {shape.threads}, {shape.items}, {shape.blocks}>"


def sort(
    comparison: Comparison, keys: Any, buffers: Buffers, *, split: Split = merge_tuning.SPLIT, tiles: Tiles = "merge"
) -> None:
    """Sort keys, stably.

    Parameters
    ----------
    comparison : Comparison
    keys : array, shape (n,)
        n > 0. May be ``buffers.keys_out``.
    buffers : Buffers
    split : {"path", "samples", "four_way"}
        How runs are cut into parts: pairs by merge path, or by the paper's samples; or four at a time by selection.
    tiles : {"merge", "network"}
        How tiles are sorted: strips in registers and merging, or Batcher's network on (key, position).

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 5.
    """
    n = keys.size
    width = tile_keys(comparison, buffers, tiles)
    factors = level_factors(-(-n // width), split)
    levels = len(factors)
    sort_tiles(comparison, keys, buffers, tiles, levels)
    for level, factor in enumerate(factors):
        slot = (levels - 1 - level) % 2
        source = buffers.codes[slot], buffers.positions[slot]
        last = level == levels - 1
        target = outputs(buffers) if last else (buffers.codes[1 - slot], buffers.positions[1 - slot])
        sink = final_sink(comparison, buffers) if last else between_sink(comparison)
        merge = merge_four_way if factor == WAYS else merge_pairs
        merge(Level(comparison, source, target, buffers.value, buffers.value_bytes, n, width, sink, split))
        width *= factor


def level_factors(runs: int, split: Split) -> list[int]:
    """How many runs each level merges to one: pairs, or fours and perhaps one level of pairs."""
    doublings = max(0, runs - 1).bit_length()
    if split != "four_way":
        return [2] * doublings
    return [2] * (doublings % 2) + [WAYS] * (doublings // 2)


def outputs(buffers: Buffers) -> tuple[Any, Any]:
    """What the last level writes."""
    return buffers.keys_out, buffers.positions_out


def final_sink(comparison: Comparison, buffers: Buffers) -> str:
    """C++ type that stores the sorted keys and positions."""
    wide = buffers.positions_out is not None and buffers.positions_out.itemsize == 8
    return comparison.sink.format(position="long long" if wide else "u32")


def between_sink(comparison: Comparison) -> str:
    """C++ type that stores codes between the levels."""
    return f"Plain<{comparison.code}, u32>"


def tile_keys(comparison: Comparison, buffers: Buffers, tiles: Tiles) -> int:
    """Keys of one sorted tile."""
    if tiles == "network":
        return merge_tuning.NETWORK_TILE_KEYS
    return merge_tuning.merge_shape(comparison.code_bytes, buffers.value_bytes).keys


def sort_tiles(comparison: Comparison, keys: Any, buffers: Buffers, tiles: Tiles, levels: int) -> None:
    """Sort tiles into the buffer that the first level reads, or, if there is no level, into the outputs."""
    slot = (levels - 1) % 2
    target = (buffers.codes[slot], buffers.positions[slot]) if levels else outputs(buffers)
    sink = between_sink(comparison) if levels else final_sink(comparison, buffers)
    types = f"{comparison.source}, {sink}, {buffers.value}, {comparison.less}"
    shape = merge_tuning.merge_shape(comparison.code_bytes, buffers.value_bytes)
    blocks = -(-keys.size // tile_keys(comparison, buffers, tiles))
    arguments = (keys, *target, np.uint64(keys.size))
    if tiles == "network":
        threads, tile = merge_tuning.NETWORK_THREADS, merge_tuning.NETWORK_TILE_KEYS
        name = f"sort_tiles_by_network<{types}, {threads}, {tile}>"
        Launch("papers/odd_even_merge.cu", name, blocks, threads, arguments, expression=comparison.expression).run()
    else:
        name = f"sort_tiles<{types}, {shape.threads}, {shape.items}, {shape.blocks}>"
        shared = shape.shared_bytes(comparison.code_bytes, buffers.value_bytes)
        Launch(SOURCE, name, blocks, shape.threads, arguments, shared, expression=comparison.expression).run()


def merge_pairs(level: Level) -> None:
    """Merge runs of `width` keys in pairs."""
    comparison, shape = level.comparison, level.shape
    if level.split == "samples":
        shape = merge_tuning.SAMPLED
        parts, count = plan_by_samples(level)
        if comparison.expression is not None:
            for array in level.target:  # parts of what is no order leave gaps
                if array is not None:
                    array.view(np.uint8).fill(0)
    else:
        parts, count = plan_by_path(level)
    name = merge_instance(level.sink, comparison.code, level.value, comparison.less, shape)
    shared = shape.shared_bytes(comparison.code_bytes, level.value_bytes)
    Launch(
        PARTS_SOURCE, name, count, shape.threads, (parts, *level.target), shared, expression=comparison.expression
    ).run()


def merge_four_way(level: Level) -> None:
    """Merge runs of `width` keys in fours."""
    comparison, shape = level.comparison, level.shape
    part_keys = (shape.threads - 1) * shape.items
    count = count_parts(level.n, WAYS * level.width, part_keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    split = f"split_quads<{comparison.code}, {comparison.less}, {part_keys}>"
    arguments = (level.source[0], np.uint64(level.n), np.uint64(level.width), parts, np.uint64(count))
    threads = merge_tuning.PLAN_THREADS
    Launch(FOUR_WAY_SOURCE, split, plan_blocks(count), threads, arguments, expression=comparison.expression).run()
    types = f"{level.sink}, {comparison.code}, {level.value}, {comparison.less}"
    name = f"merge_four_way<{types}, {shape.threads}, {shape.items}, {shape.blocks}>"
    shared = shape.shared_bytes(comparison.code_bytes, level.value_bytes)
    arguments = (*level.source, parts, *level.target)
    Launch(FOUR_WAY_SOURCE, name, count, shape.threads, arguments, shared, expression=comparison.expression).run()


def count_parts(n: int, merged: int, part_keys: int) -> int:
    """Parts of an array of n keys, each merged run of which is cut on its own."""
    whole, rest = divmod(n, merged)
    return whole * -(-merged // part_keys) + -(-rest // part_keys)


def plan_by_path(level: Level) -> tuple[Any, int]:
    """Equal parts, by merge path; the parts and how many they are."""
    comparison, shape = level.comparison, level.shape
    count = count_parts(level.n, 2 * level.width, shape.keys)
    parts = require_cupy().empty(count * PART_BYTES, np.uint8)
    name = f"split_even_runs<{comparison.code}, {level.value}, {comparison.less}, {shape.keys}>"
    arguments = (*level.source, np.uint64(level.n), np.uint64(level.width), parts, np.uint64(count))
    Launch(
        SOURCE, name, plan_blocks(count), merge_tuning.PLAN_THREADS, arguments, expression=comparison.expression
    ).run()
    return parts, count


def plan_by_samples(level: Level) -> tuple[Any, int]:
    """Parts between neighbouring samples; the parts and how many they are."""
    cupy, comparison = require_cupy(), level.comparison
    samples, threads = merge_tuning.SAMPLE_KEYS, merge_tuning.PLAN_THREADS
    count = -(-level.n // (2 * level.width)) * 2 * (level.width // samples)
    cuts = cupy.zeros(2 * count, np.uint64)
    parts = cupy.empty(count * PART_BYTES, np.uint8)
    blocks, sizes = -(-count // threads), (np.uint64(level.n), np.uint64(level.width))
    rank = f"rank_samples<{comparison.code}, {comparison.less}, {samples}>"
    close = f"close_parts<{comparison.code}, {level.value}, {samples}>"
    for name, arguments in (
        (rank, (level.source[0], *sizes, cuts, np.uint64(count))),
        (close, (*level.source, *sizes, cuts, parts, np.uint64(count))),
    ):
        Launch(SOURCE, name, blocks, threads, arguments, expression=comparison.expression).run()
    return parts, count
