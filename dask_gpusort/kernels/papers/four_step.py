"""Satish, Harris and Garland (IPDPS 2009), section 4: the four-step radix sort (``four_step.cu``).

Memory beyond input and output: one copy of keys and values, and a table of 8 bytes per digit and tile.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import require_cupy
from ..primitives import scan
from .passes import THREADS, KeyValueArrays, keys_per_thread, sort_by_passes

SOURCE = "papers/four_step.cu"
#: Widths of digits that divide the width of every key.
RADIX_BITS = (1, 2, 4, 8)
#: The paper's balance: wider digits make more and shorter runs in a tile, narrower digits more passes.
DEFAULT_RADIX_BITS = 4


class FourStepPass:
    """One pass: sort tiles, count their buckets, scan the counts, scatter the tiles."""

    def __init__(self, out: KeyValueArrays, radix_bits: int) -> None:
        items = keys_per_thread(out.key_bytes)
        tiles = blocks_for(out.keys.size, THREADS * items)
        sizes = (THREADS, items, radix_bits)
        self.radix_bits = radix_bits
        self.targets = (out,)
        self._sort_tiles = instance("sort_tiles", out.key_type, out.value_type, *sizes)
        self._count_buckets = instance("count_buckets", out.key_type, *sizes)
        self._scatter_tiles = instance("scatter_tiles", out.key_type, out.value_type, *sizes)
        self._grid = (tiles, THREADS)
        self._scratch = out.empty_like()
        self._table = require_cupy().empty(tiles << radix_bits, np.uint64)

    def run(self, source: KeyValueArrays, target: KeyValueArrays, shift: np.int32) -> None:
        """Sort by the digit at bit `shift`."""
        tiles, length = self._scratch, np.uint64(target.keys.size)
        sources = (source.keys, source.values, tiles.keys, tiles.values, length, shift)
        Launch(SOURCE, self._sort_tiles, *self._grid, sources).run()
        Launch(SOURCE, self._count_buckets, *self._grid, (tiles.keys, length, shift, self._table)).run()
        scan.exclusive_scan(self._table)
        arguments = (tiles.keys, tiles.values, length, shift, self._table, target.keys, target.values)
        Launch(SOURCE, self._scatter_tiles, *self._grid, arguments).run()


def sort(source: KeyValueArrays, out: KeyValueArrays, *, radix_bits: int = DEFAULT_RADIX_BITS) -> None:
    """Sort unsigned keys, stably, with their values, by digits of 1, 2, 4 or 8 bits, the paper's b."""
    if radix_bits not in RADIX_BITS:
        raise ValueError(f"radix_bits must be one of {RADIX_BITS}, got {radix_bits}")
    sort_by_passes(source, out, partial(FourStepPass, radix_bits=radix_bits))
