"""Scatter by a permutation (``ties.cu``): pairs are partitioned by position before they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..launch.launch import Launch, blocks_for, instance
from ..launch.loader import require_cupy
from ..policy import tuning
from ..policy.limits import fit, half

SOURCE = "ties/ties.cu"
THREADS = 256
#: C++ types of the elements of the output.
ELEMENTS = {"u4": "u32", "i8": "long long", "f8": "double"}
PAIR_BYTES = 8


def scatter_numbers(numbers: Any, positions: Any, out: Any, factor: float = 1, first: int = 0) -> None:
    """Set ``out[positions] = numbers * factor``, for positions that are a permutation; None counts from `first`.

    The output shares no memory with the inputs; `factor` is for floats.
    """
    n, element = positions.size, ELEMENTS[out.dtype.str[1:]]
    shape = tuning.SCATTER
    bits = max(n - 1, 0).bit_length() - shape.bucket_bits
    if n < shape.least or bits < 1:
        arguments = (positions, numbers, np.uint32(first), out, np.uint64(n), np.float64(factor))
        Launch(SOURCE, instance("write_at_positions", element), blocks_for(n, THREADS), THREADS, arguments).run()
        return
    pairs = _partition(numbers, first, positions, out, bits)
    name = instance("write_buckets", shape.threads, shape.bucket_bits, element)
    buckets = blocks_for(n, 1 << shape.bucket_bits)
    Launch(SOURCE, name, buckets, shape.threads, (pairs, out, np.uint64(n), np.float64(factor))).run()


def _partition(numbers: Any, first: int, positions: Any, out: Any, bits: int) -> Any:
    """Pairs of positions and numbers, partitioned by so many leading bits of the positions, in one pass or two."""
    cupy, shape, n = require_cupy(), tuning.SCATTER, np.uint64(positions.size)
    first_bits = bits if 1 << bits <= shape.radix else (bits + 1) // 2
    shape = replace(shape, radix=max(shape.radix, 1 << first_bits))
    shape = fit(shape, lambda shape: shape.shared_bytes, half)
    shift, last_shift = shape.bucket_bits + bits - first_bits, shape.bucket_bits

    def launch(kernel: str, bucket_bits: int, *arguments: Any) -> None:
        name = instance(kernel, shape.threads, shape.items, shape.radix)
        cursors = cupy.zeros(blocks_for(positions.size, 1 << bucket_bits), np.uint32)
        tiles = blocks_for(positions.size, shape.tile)
        scalars = (n, np.int32(bucket_bits), np.int32(shift))
        Launch(SOURCE, name, tiles, shape.threads, (*arguments, cursors, *scalars), shape.shared_bytes).run()

    # The output's own memory holds the pairs between two passes, if they fit.
    in_out = shift > last_shift and out.itemsize == PAIR_BYTES
    pairs = out.view(np.uint64) if in_out else cupy.empty(positions.size, np.uint64)
    launch("partition_positions", shift, positions, numbers, np.uint32(first), pairs)
    if shift == last_shift:
        return pairs
    found = cupy.empty(positions.size, np.uint64)
    launch("partition_pairs", last_shift, pairs, found)
    return found
