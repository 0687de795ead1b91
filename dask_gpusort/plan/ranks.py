"""The plan of ranks: how the keys of a lane come together.

============  ========================================  ===================================================
strategy      lanes                                     how
============  ========================================  ===================================================
`blocks`      whole in a chunk                          rank the rows of each chunk
`join`        in the memory of one GPU                  make all chunks one, rank the rows, divide again
`rechunk`     in several chunks, fit one                rechunk in bounded memory, rank, rechunk back
`global`      one dimension, or longer than a chunk     tie groups of the sorted distinct keys, and back
============  ========================================  ===================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..order import Order
from .distinct import DistinctPlan, describe_moves, describe_peak, describe_sort
from .join import join_bytes
from .plan import Plan
from .select import LANES_BYTES, Lanes
from .terms import InputChunks
from .text import format_chunks, format_lines, format_number, format_size, format_tasks

RankStrategy = Literal["blocks", "join", "rechunk", "global"]

#: Most bytes for each key, besides twice the key, of the task that ranks the rows of a chunk. Measured with NumPy for
#: 10^4 to 10^6 keys of 1 to 8 bytes, in one row and in many, with 1 to 2^40 distinct ones: 62 at most.
RANK_BYTES = 68
#: Most bytes of a device for each key, besides those of a join and a further copy of the key. Measured on CuPy's pool
#: for 2^24 and 2^25 keys of 2 to 8 bytes, of which 1,000, half, nearly all and all differ, in one row and in 64.
DEVICE_BYTES = 44


@dataclass(frozen=True)
class RankPlan:
    """Say how keys are ranked."""

    strategy: RankStrategy
    lanes: Lanes
    flat: bool  # whether the array has one dimension
    key_bytes: float  # bytes for each key that the task takes which ranks the rows of a chunk

    @property
    def chunk_bytes(self) -> float:
        """Bytes of a chunk whose rows are ranked, nan if unknown. Lanes that are made whole are not divided."""
        lanes = self.lanes
        if self.strategy == "join":
            return lanes.bytes
        chunk = lanes.bytes / (lanes.chunks * lanes.blocks)
        if self.strategy == "blocks":
            return chunk
        return max(lanes.keys * lanes.itemsize, min(lanes.limit, max(LANES_BYTES, chunk), lanes.bytes))

    @property
    def projected_bytes(self) -> float:
        """Peak bytes of a task that ranks the rows of a chunk, nan if unknown."""
        return self.chunk_bytes / self.lanes.itemsize * self.key_bytes


def device_bytes(itemsize: int) -> int:
    """Bytes of a device for each key that the task which ranks them takes beside a join."""
    return itemsize + DEVICE_BYTES


def make_rank_plan(lanes: Lanes, flat: bool, joins: bool, device_order: Order | None = None) -> RankPlan:
    """Plan ranks; `joins` if one GPU has memory for all chunks and what a sort of them needs."""
    # An unknown number of lanes cannot be ranked one by one.
    unknown = math.isnan(lanes.count) or math.isnan(lanes.keys)
    strategy: RankStrategy
    if lanes.chunks == 1:
        strategy = "blocks"
    elif joins:
        strategy = "join"
    elif flat:  # a chunk is never made of several ones
        strategy = "global"
    else:
        strategy = "rechunk" if unknown or lanes.keys * lanes.itemsize <= lanes.limit else "global"
    if device_order is None:
        key_bytes: float = RANK_BYTES + 2 * lanes.itemsize
    else:
        key_bytes = join_bytes(device_order, InputChunks((1,), task_bytes=device_bytes(lanes.itemsize)))
    return RankPlan(strategy, lanes, flat, key_bytes)


def describe_rank(
    plan: RankPlan, tasks: int, chunks: int, distinct: DistinctPlan | None = None, sort: Plan | None = None
) -> str:
    """Describe the plan, one decision a line; "global" has plans of the distinct keys of a lane, and of their sort."""
    lanes = plan.lanes
    fits = f"one of {format_size(lanes.limit)}"
    where = "in several chunks" if plan.flat else f"in several chunks and does not fit {fits}"
    strategies = {
        "blocks": "blocks: lanes are whole in their chunks, whose rows are ranked where they are",
        "join": "join: the chunks share one memory, which holds a sort of them; they are made one",
        "rechunk": f"rechunk: lanes are in several chunks and fit {fits}; made whole, ranked, and divided again",
        "global": f"global: a lane is {where}; the distinct keys of its chunks are sorted together, and numbered",
    }
    moves = {
        "blocks": "nothing",
        "join": "nothing: the chunks are in one memory",
        "rechunk": f"every key once, {format_size(lanes.bytes)}, and its rank back",
    }
    each = "" if plan.flat else "of each lane "
    decisions = {
        "lanes": f"{format_number(lanes.count)} of {format_number(lanes.keys)} keys, "
        f"each in {format_chunks(lanes.chunks)}",
        "strategy": strategies[plan.strategy],
        "sort": describe_sort(sort),
        "moves": moves[plan.strategy] if distinct is None else each + describe_moves(distinct),
        "tasks": format_tasks(tasks, chunks),
        "peak": f"{format_size(plan.projected_bytes)} for each thread" if distinct is None else describe_peak(distinct),
        "unknown": "how many keys are distinct, and so the bytes of their sort" if plan.strategy == "global" else "",
    }
    return format_lines(decisions)
