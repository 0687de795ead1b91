"""Launches of the four-step radix sort of Satish, Harris and Garland (``four_step.cu``).

One pass a digit, least significant first::

    source ── sort_tiles ──▶ scratch ── count_buckets, scan ──▶ table ── scatter_tiles ──▶ out ── next digit ...

Memory beyond input and output: one copy of keys and values, and a table of 8 bytes a (digit, tile). For keys alone of
32 bits the table takes 1/32 of the keys' bytes with digits of 4 bits, and half of them with digits of 8 bits.
"""

from __future__ import annotations

import numpy as np

from ..launch.grid import blocks_for, instance
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..primitives import scan
from .pair_arrays import THREADS, Columns, check_columns, keys_per_thread

SOURCE = "papers/four_step.cu"
#: Digit widths that divide every key's width, so that no pass has a digit of its own.
RADIX_BITS = (1, 2, 4, 8)
#: The paper's balance: wider digits make more, shorter runs in a tile, narrower ones more passes.
DEFAULT_RADIX_BITS = 4


def instances(key_name: str, value_name: str, key_bytes: int, radix_bits: int) -> tuple[str, str, str]:
    """Name the kernels of one pass: sort_tiles, count_buckets, scatter_tiles."""
    sizes = (THREADS, keys_per_thread(key_bytes), radix_bits)
    return (
        instance("sort_tiles", key_name, value_name, *sizes),
        instance("count_buckets", key_name, *sizes),
        instance("scatter_tiles", key_name, value_name, *sizes),
    )


def sort(source: Columns, out: Columns, *, radix_bits: int = DEFAULT_RADIX_BITS) -> None:
    """Sort unsigned keys, stably, with their values.

    Parameters
    ----------
    source : Columns
        Read only. Without values, where `out` has them, the keys' positions are sorted along.
    out : Columns
        Apart in memory from `source`, or `source` itself.
    radix_bits : {1, 2, 4, 8}
        Bits of a digit: b of the paper.

    Raises
    ------
    ValueError
        If the columns do not fit each other, or for another `radix_bits`.

    References
    ----------
    Satish, Harris, Garland, IPDPS 2009, section 4.2.
    """
    check_columns(source, out)
    if radix_bits not in RADIX_BITS:
        raise ValueError(f"radix_bits must be one of {RADIX_BITS}, got {radix_bits}")
    n = out.keys.size
    if n == 0:
        return
    key_bytes = out.key_bits // 8
    sort_tiles, count_buckets, scatter_tiles = instances(out.key_name, out.value_name, key_bytes, radix_bits)
    tiles = blocks_for(n, THREADS * keys_per_thread(key_bytes))
    scratch = out.empty_like()
    table = require_cupy().empty(tiles << radix_bits, np.uint64)
    grid = (tiles, THREADS)
    length = np.uint64(n)
    for first_bit in range(0, out.key_bits, radix_bits):
        shift = np.int32(first_bit)
        tile_arguments = (source.keys, source.values, scratch.keys, scratch.values, length, shift)
        Launch(SOURCE, sort_tiles, *grid, tile_arguments).run()
        Launch(SOURCE, count_buckets, *grid, (scratch.keys, length, shift, table)).run()
        scan.exclusive_scan(table)
        scatter_arguments = (scratch.keys, scratch.values, length, shift, table, out.keys, out.values)
        Launch(SOURCE, scatter_tiles, *grid, scatter_arguments).run()
        source = out
