"""Harada and Howes, "Introduction to GPU radix sort": count, prefix scan, reorder (``count_scan_reorder.cu``).

Memory beyond input and output: one copy of keys and values, and a table of 16 x 8 bytes per section.
"""

from __future__ import annotations

import numpy as np

from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import cxx_constant, require_cupy
from ..policy.limits import multiprocessors
from ..primitives import scan
from .passes import THREADS, KeyValueArrays, sort_by_passes

SOURCE = "papers/count_scan_reorder.cu"
RADIX_BITS = cxx_constant(SOURCE, "kReorderRadixBits")
TILE_KEYS = THREADS * cxx_constant(SOURCE, "kReorderKeysPerThread")
#: More sections than blocks that run at once only make the table longer (the paper's section 3); a multiprocessor holds
#: at most 8 blocks of 256 threads.
SECTIONS_PER_MULTIPROCESSOR = 8


class ReorderPass:
    """One pass: count the digits of each section, scan the counts, reorder the sections."""

    radix_bits = RADIX_BITS

    def __init__(self, out: KeyValueArrays) -> None:
        tiles = blocks_for(out.keys.size, TILE_KEYS)
        section_tiles = blocks_for(tiles, SECTIONS_PER_MULTIPROCESSOR * multiprocessors())
        sections = blocks_for(tiles, section_tiles)
        # Every key has an even number of digits: the last pass writes `out`.
        self.targets = (out.empty_like(), out)
        self._count_sections = instance("count_sections", out.key_type, THREADS)
        self._reorder_sections = instance("reorder_sections", out.key_type, out.value_type, THREADS)
        self._grid = (sections, THREADS)
        self._lengths = (np.uint64(out.keys.size), np.uint64(section_tiles * TILE_KEYS))
        self._table = require_cupy().empty(sections << RADIX_BITS, np.uint64)

    def run(self, source: KeyValueArrays, target: KeyValueArrays, shift: np.int32) -> None:
        """Sort by the digit at bit `shift`."""
        Launch(SOURCE, self._count_sections, *self._grid, (source.keys, *self._lengths, shift, self._table)).run()
        scan.scan_in_one_block(self._table)
        arrays_in, arrays_out = (source.keys, source.values), (target.keys, target.values)
        arguments = (*arrays_in, *self._lengths, shift, self._table, *arrays_out)
        Launch(SOURCE, self._reorder_sections, *self._grid, arguments).run()


def sort(source: KeyValueArrays, out: KeyValueArrays) -> None:
    """Sort unsigned keys, stably, with their values, by section 3, equations 1 and 2, of the paper."""
    sort_by_passes(source, out, ReorderPass)
