"""Exclusive scan of 64-bit counts (``scan.cu``): Satish, Harris, Garland, IPDPS 2009, section 4."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import require_cupy

SOURCE = "primitives/scan.cu"
THREADS = 256
#: Counts per thread: 4 of 8 bytes fill one 32-byte memory sector.
VALUES_PER_THREAD = 4
TILE_VALUES = THREADS * VALUES_PER_THREAD
#: At most so many counts are scanned by one block in a loop over the tiles: it takes 1.7 us per tile on an H200, and up
#: to 8 tiles no longer than three launches.
ONE_BLOCK_VALUES = 8 * TILE_VALUES

_TEMPLATE = (THREADS, VALUES_PER_THREAD)
SCAN_IN_ONE_BLOCK = instance("scan_in_one_block", *_TEMPLATE)
SUM_TILES = instance("sum_tiles", *_TEMPLATE)
SCAN_TILES = instance("scan_tiles", *_TEMPLATE)


def scan_in_one_block(counts: Any) -> None:
    """Replace each uint64 count by the sum of all earlier ones, with one block (Harada and Howes, section 3.2)."""
    Launch(SOURCE, SCAN_IN_ONE_BLOCK, 1, THREADS, (counts, np.uint64(counts.size))).run()


def exclusive_scan(counts: Any) -> None:
    """Replace each uint64 count by the sum of all earlier ones. Sums of tiles are scanned first, then each tile."""
    # A table of shape (radix, num_tiles) in C order is the papers' column-major table of (tile, digit).
    if counts.size <= ONE_BLOCK_VALUES:
        scan_in_one_block(counts)
        return
    n = np.uint64(counts.size)
    tiles = blocks_for(counts.size, TILE_VALUES)
    tile_offsets = require_cupy().empty(tiles, np.uint64)
    Launch(SOURCE, SUM_TILES, tiles, THREADS, (counts, n, tile_offsets)).run()
    exclusive_scan(tile_offsets)
    Launch(SOURCE, SCAN_TILES, tiles, THREADS, (counts, n, tile_offsets)).run()
