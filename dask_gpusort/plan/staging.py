"""Chunks and groups of the host that a GPU sorts, some at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..chunk.device_memory import USABLE_FRACTION, step_bytes
from ..order import Order
from ..plan import counting
from .groups import MOST_GROUPS
from .terms import InputChunks, Size

#: Steps that fit the GPU side by side: one sorts while the others copy, and the memory copies of one thread are slower
#: than the bus.
STEPS_IN_FLIGHT = 4
#: Bytes of a group below which launches, and waits for the sort's counters, take longer than its copies.
LEAST_GROUP_BYTES = 64 << 20


def step_limit(memory: int) -> float:
    """Bytes of the GPU that one step may take."""
    return USABLE_FRACTION * memory / STEPS_IN_FLIGHT


def divide_chunks(order: Order, given: InputChunks, memory: int) -> tuple[Size, ...]:
    """Chunk sizes of the input, with chunks that are too large for a step divided into equal parts.

    Parameters
    ----------
    order : Order
    given : InputChunks
    memory : int
        Bytes of the GPU.
    """
    sizes: list[Size] = []
    for size in given.sizes:
        needed = step_bytes(order, size, given.companion_bytes)
        parts = 1 if math.isnan(size) else max(1, math.ceil(needed / step_limit(memory)))
        sizes += [size] if parts == 1 else [size * (part + 1) // parts - size * part // parts for part in range(parts)]
    return tuple(sizes)


def count_staged_groups(order: Order, given: InputChunks, chunks: Sequence[Size], memory: int) -> int:
    """Number of groups, each small enough for a step.

    Where memory allows, a group is one output chunk: the parts of a chunk, and the chunks of a group, are copied once
    more.

    Parameters
    ----------
    order : Order
    given : InputChunks
        Of known sizes.
    chunks : sequence of int
        Keys in each output chunk.
    memory : int
        Bytes of the GPU.
    """
    rows = sum(given.sizes)
    total_bytes = rows * (order.transit_dtype.itemsize + given.companion_bytes)
    least = math.ceil(step_bytes(order, rows, given.companion_bytes) / step_limit(memory))
    # One task holds the cuts of all chunks.
    most = min(MOST_GROUPS, counting.TABLE_BYTES // (counting.CUT_BYTES * len(given.sizes)) - 1)
    return int(max(1, least, min(len(chunks), most, total_bytes // LEAST_GROUP_BYTES)))
