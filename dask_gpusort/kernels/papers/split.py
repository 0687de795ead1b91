"""Blelloch's split as a radix sort of one bit per pass (``split.cu``); Satish, Harris and Garland, section 4.1.

Memory beyond input and output: one copy of keys and values, and 8 bytes per tile.
"""

from __future__ import annotations

import numpy as np

from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import require_cupy
from ..primitives import scan
from .passes import THREADS, KeyValueArrays, keys_per_thread, sort_by_passes

SOURCE = "papers/split.cu"


class SplitPass:
    """One pass: count the ones of each tile, scan the counts, split the keys."""

    radix_bits = 1

    def __init__(self, out: KeyValueArrays) -> None:
        items = keys_per_thread(out.key_bytes)
        tiles = blocks_for(out.keys.size, THREADS * items)
        # Every key has an even number of bits: the last pass writes `out`.
        self.targets = (out.empty_like(), out)
        self._count_ones = instance("count_ones", out.key_type, THREADS, items)
        self._split_keys = instance("split_keys", out.key_type, out.value_type, THREADS, items)
        self._grid = (tiles, THREADS)
        self._tile_ones = require_cupy().empty(tiles + 1, np.uint64)  # the scan makes the last entry the sum of all

    def run(self, source: KeyValueArrays, target: KeyValueArrays, shift: np.int32) -> None:
        """Split by the bit `shift`."""
        length = np.uint64(target.keys.size)
        Launch(SOURCE, self._count_ones, *self._grid, (source.keys, length, shift, self._tile_ones)).run()
        scan.exclusive_scan(self._tile_ones)
        arguments = (source.keys, source.values, length, shift, self._tile_ones, target.keys, target.values)
        Launch(SOURCE, self._split_keys, *self._grid, arguments).run()


def sort(source: KeyValueArrays, out: KeyValueArrays) -> None:
    """Sort unsigned keys, stably, with their values: section 4.1, and ``radix_sort_iter`` of Dillhoff's notes."""
    sort_by_passes(source, out, SplitPass)
