"""Launches of the radix sort of one bit a pass (``split.cu``): Blelloch's split of the whole array.

One pass a bit, least significant first::

    source ── count_ones, scan ──▶ ones before each tile ── split_keys ──▶ scratch ── next bit ──▶ out ...

Memory beyond input and output: one copy of keys and values, and 8 bytes a tile.
"""

from __future__ import annotations

import numpy as np

from ..launch.grid import blocks_for, instance
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..primitives import scan
from .pair_arrays import THREADS, Columns, check_columns, keys_per_thread

SOURCE = "papers/split.cu"


def instances(key_name: str, value_name: str, key_bytes: int) -> tuple[str, str]:
    """Name the kernels of one pass: count_ones, split_keys."""
    sizes = (THREADS, keys_per_thread(key_bytes))
    return (
        instance("count_ones", key_name, *sizes),
        instance("split_keys", key_name, value_name, *sizes),
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
    Satish, Harris, Garland, IPDPS 2009, section 4.1; Dillhoff's notes, ``radix_sort_iter``.
    """
    check_columns(source, out)
    n = out.keys.size
    if n == 0:
        return
    key_bytes = out.key_bits // 8
    count_ones, split_keys = instances(out.key_name, out.value_name, key_bytes)
    tiles = blocks_for(n, THREADS * keys_per_thread(key_bytes))
    scratch = out.empty_like()
    tile_ones = require_cupy().empty(tiles + 1, np.uint64)  # one more entry, which becomes the number of all ones
    grid = (tiles, THREADS)
    length = np.uint64(n)
    for first_bit in range(out.key_bits):
        bit = np.int32(first_bit)
        target = out if first_bit % 2 else scratch  # every key has an even number of bits: the last pass ends in out
        Launch(SOURCE, count_ones, *grid, (source.keys, length, bit, tile_ones)).run()
        scan.exclusive_scan(tile_ones)
        arguments = (source.keys, source.values, length, bit, tile_ones, target.keys, target.values)
        Launch(SOURCE, split_keys, *grid, arguments).run()
        source = target
