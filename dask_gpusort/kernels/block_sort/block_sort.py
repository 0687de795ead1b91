"""The last pass of a most-significant-digit sort: each bucket by one block, in shared memory.

even codes -> sort_uniform_buckets                                        most blocks at a time
those it cannot sort: pending -> sort_pending_buckets                  whatever the codes are
those that do not fit: overflow, for one more level of partition
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..keys.elements import WIDE_CODE, Arrays, Elements
from ..launch.launch import Launch
from ..launch.loader import require_cupy
from ..policy import tuning

SEGMENT_BYTES = 96  # sizeof(Segment) in digits.cuh
OVERFLOW_WORDS = 3  # of Overflow in finish.cu
PENDING_SHARE = 8  # buckets a block where few are expected: to start a block takes 2 ns of the whole device


@dataclass
class Buckets:
    """Where the buckets of a finish lie, and where it notes those that it leaves.

    Attributes
    ----------
    count : int
        Number of buckets.
    starts, ends : device addresses or arrays of 64-bit offsets, or None
        None: equal rows of `stride` elements.
    stride : int
    overflow, segments : device arrays
        For buckets that do not fit a block: how many they are, and a list; `None` where there can be none.
    pending : device address
        A counter at zero, and room for the number of each bucket (32 bits): those whose codes are uneven.
    """

    count: int
    starts: Any
    ends: Any
    stride: int = 0
    overflow: Any = None
    segments: Any = None
    pending: Any = None


def list_overflow(n: int, capacity: int, count: int) -> dict[str, Any]:
    """Lists for `count` buckets of n elements: of those larger than `capacity`, and of the uneven ones."""
    cupy = require_cupy()
    cleared = cupy.zeros(OVERFLOW_WORDS + 1 + count // 2 + 1, np.uint64)
    return {
        "overflow": cleared[:OVERFLOW_WORDS],
        "segments": cupy.empty((n // capacity + 1) * SEGMENT_BYTES, np.uint8),
        "pending": cleared[OVERFLOW_WORDS:],
    }


def run_block_sort(
    elements: Elements,
    shape: tuning.BlockSortShape,
    source: str,
    codes: Any,
    payload: Any,
    arrays: Arrays,
    buckets: Buckets,
) -> None:
    """Sort every bucket in shared memory, whatever its codes are, in one launch."""
    name = (
        f"finish<{source}, {elements.sink}, {elements.payload_type}, {elements.block_sort_domain}, "
        f"{shape.threads}, {shape.items}, {shape.bins}, {shape.blocks}>"
    )
    outputs = arrays.keys_out, arrays.positions_out
    table = buckets.starts, buckets.ends, np.uint64(buckets.stride)
    arguments = (codes, payload, *outputs, *table, buckets.overflow, buckets.segments, np.uint64(elements.base))
    Launch(
        "block_sort/block_sort.cu", name, buckets.count, shape.threads, arguments, shape.shared_bytes(*elements.shape)
    ).run()


def run_uniform_block_sort(
    elements: Elements,
    shape: tuning.BlockSortShape,
    source: str,
    codes: Any,
    payload: Any,
    arrays: Arrays,
    buckets: Buckets,
    mean: float = 0,
) -> None:
    """Sort every bucket in shared memory: those of evenly spread codes first, with more blocks at a time.

    `mean` is the mean size of a bucket, where a sample has made them.
    """
    if elements.code_bytes == WIDE_CODE and not mean:
        # Most are uneven, and to find that out costs wide codes what the others gain.
        run_block_sort(elements, shape, source, codes, payload, arrays, buckets)
        return
    even = shape.for_even(mean)
    name = (
        f"sort_uniform_buckets<{source}, {elements.sink}, {elements.payload_type}, "
        f"{even.threads}, {even.items}, {even.bins}, {even.blocks}>"
    )
    data = codes, payload, arrays.keys_out, arrays.positions_out
    table = buckets.starts, buckets.ends, np.uint64(buckets.stride)
    base = np.uint64(elements.base)
    arguments = (*data, *table, buckets.pending, base)
    Launch(
        "block_sort/block_sort.cu", name, buckets.count, even.threads, arguments, even.shared_bytes(*elements.shape)
    ).run()
    name = (
        f"sort_pending_buckets<{source}, {elements.sink}, {elements.payload_type}, {elements.block_sort_domain}, "
        f"{shape.threads}, {shape.items}, {shape.bins}, {shape.blocks}>"
    )
    listed = buckets.overflow, buckets.segments, buckets.pending
    grid = -(-buckets.count // PENDING_SHARE)
    Launch(
        "block_sort/block_sort.cu",
        name,
        grid,
        shape.threads,
        (*data, *table, *listed, base),
        shape.shared_bytes(*elements.shape),
    ).run()
