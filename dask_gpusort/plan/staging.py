"""Chunks and groups of the host that a GPU sorts, some at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..chunk.memory import USABLE_FRACTION, step_bytes
from ..order import Order
from ..plan import counting
from .groups import MOST_GROUPS
from .terms import InputChunks, Size

#: Chunks that fit the GPU side by side: one is sorted while the others are copied. The memory copies of one thread take
#: some five times as long as the bus, in each direction.
CHUNKS_IN_FLIGHT = 8
#: Groups that fit the GPU side by side. Chunks are divided into views, but the parts of an output chunk are copied once
#: more, so groups may be larger.
GROUPS_IN_FLIGHT = 4
#: Bytes of a group below which launches, and waits for the sort's counters, take longer than its copies.
LEAST_GROUP_BYTES = 64 << 20


def _steps(order: Order, rows: float, companion_bytes: int, memory: int, in_flight: int) -> int:
    """Steps in which some keys are sorted, so that several steps fit a GPU side by side."""
    return math.ceil(step_bytes(order, rows, companion_bytes) / (USABLE_FRACTION * memory / in_flight))


def divide_chunks(order: Order, given: InputChunks, memory: int) -> tuple[Size, ...]:
    """Divide input chunks of known sizes that are too large for a step of a GPU's `memory` into equal parts."""
    sizes: list[Size] = []
    for size in given.sizes:
        parts = max(1, _steps(order, size, given.companion_bytes, memory, CHUNKS_IN_FLIGHT))
        sizes += [size] if parts == 1 else [size * (part + 1) // parts - size * part // parts for part in range(parts)]
    return tuple(sizes)


def count_staged_groups(order: Order, given: InputChunks, num_runs: int, chunks: Sequence[Size], memory: int) -> int:
    """Count groups of chunks of known sizes, each small enough for a step of a GPU's `memory`."""
    # Where memory allows, a group is one output chunk: the parts of a chunk, and the chunks of a group, are copied once
    # more.
    rows = sum(given.sizes)
    total_bytes = rows * (order.transit_dtype.itemsize + given.companion_bytes)
    least = _steps(order, rows, given.companion_bytes, memory, GROUPS_IN_FLIGHT)
    # One task holds the cuts of all runs.
    most = min(MOST_GROUPS, counting.TABLE_BYTES // (counting.CUT_BYTES * num_runs) - 1)
    return int(max(1, least, min(len(chunks), most, total_bytes // LEAST_GROUP_BYTES)))
