"""Launches of the radix sort of Harada and Howes (``count_scan_reorder.cu``): count, prefix scan, reorder.

One pass over 4 bits, least significant first::

    source ── count_sections, scan ──▶ table ── reorder_sections ──▶ scratch ── next digit ──▶ out ...

Memory beyond input and output: one copy of keys and values, and a table of 16 x 8 bytes a section.
"""

from __future__ import annotations

import numpy as np

from ..launch.grid import blocks_for, instance
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..policy.limits import multiprocessors
from ..primitives import scan
from .pair_arrays import KEYS_PER_THREAD, THREADS, Columns, check_columns

SOURCE = "papers/count_scan_reorder.cu"
#: Bits of a pass: twice the 2 bits whose four counters share a word.
RADIX_BITS = 4
#: Sections for each multiprocessor. More blocks than run at once only make the table longer (the paper's section 3);
#: 8 of 256 threads are all that a multiprocessor holds.
SECTIONS_PER_MULTIPROCESSOR = 8
TILE_KEYS = THREADS * KEYS_PER_THREAD


def instances(key_name: str, value_name: str) -> tuple[str, str]:
    """Name the kernels of one pass: count_sections, reorder_sections."""
    return (
        instance("count_sections", key_name, THREADS),
        instance("reorder_sections", key_name, value_name, THREADS),
    )


def sort(source: Columns, out: Columns) -> None:
    """Sort unsigned keys, stably, with their values.

    Parameters
    ----------
    source : Columns
        Read only. Without values, where `out` has them, the keys' positions are sorted along.
    out : Columns
        Apart in memory from `source`, or `source` itself.

    Raises
    ------
    ValueError
        If the columns do not fit each other.

    References
    ----------
    Harada and Howes, Introduction to GPU radix sort, section 3, equations 1 and 2.
    """
    check_columns(source, out)
    n = out.keys.size
    if n == 0:
        return
    count_sections, reorder_sections = instances(out.key_name, out.value_name)
    tiles = blocks_for(n, TILE_KEYS)
    section_tiles = blocks_for(tiles, SECTIONS_PER_MULTIPROCESSOR * multiprocessors())
    sections = blocks_for(tiles, section_tiles)
    scratch = out.empty_like()
    table = require_cupy().empty(sections << RADIX_BITS, np.uint64)
    grid = (sections, THREADS)
    lengths = (np.uint64(n), np.uint64(section_tiles * TILE_KEYS))
    for number, first_bit in enumerate(range(0, out.key_bits, RADIX_BITS)):
        shift = np.int32(first_bit)
        target = out if number % 2 else scratch  # every key has an even number of digits: the last pass ends in out
        Launch(SOURCE, count_sections, *grid, (source.keys, *lengths, shift, table)).run()
        scan.scan_in_one_block(table)
        arguments = (source.keys, source.values, *lengths, shift, table, target.keys, target.values)
        Launch(SOURCE, reorder_sections, *grid, arguments).run()
        source = target
