"""Merge sort of Satish, Harris and Garland (IPDPS 2009), section 5, by a user's comparison (``sampled_merge_sort.cu``).

Tiles are sorted by Batcher's network; one level of merging cuts both runs of a pair at samples of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..keys.dtypes import USER_LESS, Comparison
from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import require_cupy
from ..merge.merge_sort import PART_BYTES, PLAN_THREADS, Buffers, MergeLevel, count_levels, run_levels
from ..policy.tuning import MergeShape
from .odd_even_merge import SOURCE as NETWORK_SOURCE
from .odd_even_merge import THREADS

SOURCE = "papers/sampled_merge_sort.cu"
SAMPLE_KEYS = 256  # the paper's: every 256th key of a run is a sample
TILE_KEYS = 1024  # four keys per thread
PART = MergeShape(128, 5)  # parts between samples have at most 2 SAMPLE_KEYS keys


def sort(comparison: Comparison, keys: Any, buffers: Buffers) -> None:
    """Sort keys, of which there is one at least, stably; they may be ``buffers.keys_out``."""
    n, blocks = keys.size, blocks_for(keys.size, TILE_KEYS)
    target, sink = buffers.target(comparison, count_levels(n, TILE_KEYS))
    name = instance("sort_tiles_by_network", comparison.plain(), sink, buffers.value, USER_LESS, THREADS, TILE_KEYS)
    arguments = (keys, *target, np.uint64(n))
    Launch(NETWORK_SOURCE, name, blocks, THREADS, arguments, expression=comparison.expression).run()
    run_levels(comparison, buffers, n, TILE_KEYS, merge_between_samples)


def merge_between_samples(level: MergeLevel) -> None:
    """Merge runs of `width` keys in pairs, in parts between neighbouring samples."""
    cupy, types = require_cupy(), level.types
    count = blocks_for(level.n, 2 * level.width) * 2 * (level.width // SAMPLE_KEYS)
    cuts = cupy.zeros(2 * count, np.uint64)
    parts = cupy.empty(count * PART_BYTES, np.uint8)
    blocks, sizes = blocks_for(count, PLAN_THREADS), (np.uint64(level.n), np.uint64(level.width))
    cut = instance("cut_at_samples", types.code, types.less, SAMPLE_KEYS)
    types.plan(SOURCE, cut, blocks, (level.source[0], *sizes, cuts, np.uint64(count)))
    plan = instance("plan_between_cuts", types.code, types.value, SAMPLE_KEYS)
    types.plan(SOURCE, plan, blocks, (*level.source, *sizes, cuts, parts, np.uint64(count)))
    for array in level.target:  # a comparison that is no order leaves gaps between parts
        if array is not None:
            array.view(np.uint8).fill(0)
    level.merge_parts(parts, count, PART)
