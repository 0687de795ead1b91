"""The plan of distinct keys: whose sort finds those of all chunks.

============  ====================================  ===================================================
strategy      keys                                  how
============  ====================================  ===================================================
`blocks`      in one chunk                          the distinct keys of the chunk are the result
`join`        in the memory of one GPU              the chunks are made one, then the same
`sort`        in several chunks                     the distinct keys of each chunk are sorted together
============  ====================================  ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..chunk.distinct import Columns
from ..order import Order
from .join import join_bytes
from .plan import Plan
from .terms import InputChunks, Size
from .text import format_chunks, format_lines, format_number, format_size, format_tasks

DistinctStrategy = Literal["blocks", "join", "sort"]

#: Most bytes for each key, besides twice the key, of the task that finds the distinct keys of a chunk: of values alone,
#: and with positions, counts or an inverse. Measured with NumPy for 10^4 to 10^6 keys of 1 to 8 bytes with 1 to 2^40
#: distinct ones: 34 and 57 bytes at most, where the keys are float64 and most of them tie.
VALUES_BYTES, COLUMNS_BYTES = 36, 60
#: Most bytes of a device for each key, besides a join and two further copies of the key: of values, for counts,
#: for positions, and for each array of the keys' positions, an inverse or the first ones. Measured on CuPy's pool for
#: 2^24 and 2^25 keys of 2 to 8 bytes, of which 1,000, half, nearly all and all differ, in one chunk and in four.
DEVICE_VALUES, DEVICE_COUNTS, DEVICE_POSITIONS, DEVICE_OF_KEYS = 2, 16, 20, 8
#: Width of the widest keys of which at most 65,536 differ.
NARROW_BYTES = 2
#: Bytes of a count, of a first position, and of the number of a tie group.
COUNT_BYTES = 8


@dataclass(frozen=True)
class DistinctPlan:
    """Say how the distinct keys of an array are found."""

    strategy: DistinctStrategy
    chunks: int  # of the input
    keys: Size  # of the input, nan if unknown
    largest: Size  # keys of the largest chunk whose distinct keys are found at once, nan if unknown
    itemsize: int  # bytes of a key
    columns: Columns  # what is found of each distinct key of a chunk
    key_bytes: float  # bytes for each key that the task takes which finds the distinct keys of a chunk

    @property
    def row_bytes(self) -> int:
        """Bytes of a distinct key and of what is sorted with it."""
        wanted = self.columns
        return self.itemsize + self._origin_bytes * wanted.origins + COUNT_BYTES * (wanted.counts + wanted.firsts)

    @property
    def back_bytes(self) -> int:
        """Bytes that go back to a chunk for each of its distinct keys."""
        return (COUNT_BYTES + self._origin_bytes) * (self.columns.origins and self.columns.inverse)

    @property
    def projected_bytes(self) -> float:
        """Peak bytes of a task that finds the distinct keys of a chunk; nan if unknown."""
        return self.largest * self.key_bytes

    @property
    def _origin_bytes(self) -> int:
        return origin_dtype(self.chunks).itemsize


def origin_dtype(chunks: int) -> np.dtype[Any]:
    """The smallest dtype for numbers of chunks: fewer digits are sorted in less time."""
    return np.min_scalar_type(chunks)


def host_bytes(itemsize: int, columns: Columns) -> int:
    """Bytes of the host for each key that the task takes which finds distinct keys."""
    alone = columns == Columns(origins=columns.origins)
    return (VALUES_BYTES if alone else COLUMNS_BYTES) + 2 * itemsize


def device_bytes(itemsize: int, columns: Columns) -> int:
    """Bytes of a device for each key that the task which finds distinct keys takes beside a join."""
    of_keys = DEVICE_OF_KEYS * (columns.firsts + columns.inverse)
    # Of narrow keys few differ, so their counts take next to nothing.
    counts = DEVICE_COUNTS * (columns.counts and itemsize > NARROW_BYTES)
    return 2 * itemsize + DEVICE_VALUES + counts + DEVICE_POSITIONS * columns.positions + of_keys


def make_distinct_plan(
    sizes: Sequence[Size], itemsize: int, columns: Columns, joins: bool, device_order: Order | None = None
) -> DistinctPlan:
    """Plan distinct keys, of which `columns` are wanted besides the values; `joins` if one GPU has memory for all."""
    # Origins are kept only where several chunks are sorted.
    strategy: DistinctStrategy = "blocks" if len(sizes) == 1 else "join" if joins else "sort"
    # Of several sizes of which one is unknown, the largest is unknown too.
    largest = max(sizes) if strategy == "sort" and not math.isnan(sum(sizes)) else sum(sizes)
    wanted = columns if strategy == "sort" else replace(columns, origins=False)
    if device_order is None:
        key_bytes: float = host_bytes(itemsize, wanted)
    else:
        key_bytes = join_bytes(device_order, InputChunks((1,), task_bytes=device_bytes(itemsize, wanted)))
    return DistinctPlan(strategy, len(sizes), sum(sizes), largest, itemsize, wanted, key_bytes)


def describe_distinct(plan: DistinctPlan, tasks: int, chunks: int, sort: Plan | None = None) -> str:
    """Describe the plan, one decision a line; `chunks` counts those of the array that the user gave."""
    strategies = {
        "blocks": "blocks: all keys are in one chunk, whose distinct keys are the result",
        "join": "join: the chunks share one memory, which holds a sort of them; they are made one",
        "sort": "sort: keys are in several chunks; the distinct keys of each are sorted together, and numbered",
    }
    decisions = {
        "keys": f"{format_number(plan.keys)} in {format_chunks(plan.chunks)}",
        "strategy": strategies[plan.strategy],
        "sort": describe_sort(sort),
        "moves": describe_moves(plan),
        "tasks": format_tasks(tasks, chunks),
        "peak": describe_peak(plan),
        "unknown": "how many keys are distinct, and the sizes of the chunks of distinct keys",
    }
    return format_lines(decisions)


def describe_sort(sort: Plan | None) -> str:
    """The sort of the distinct keys, on one line."""
    return "" if sort is None else f"exchange {sort.exchange}, {len(sort.groups):,} groups, sizes unknown"


def describe_moves(plan: DistinctPlan) -> str:
    """What moves between chunks, on one line."""
    if plan.strategy != "sort":
        return "nothing" if plan.strategy == "blocks" else "nothing: the chunks are in one memory"
    back = f"; {plan.back_bytes} bytes for each go back to its chunk" if plan.back_bytes else ""
    most = format_size(plan.keys * plan.row_bytes)
    return f"only distinct keys, {plan.row_bytes} bytes each: at most {most}, if all keys differ{back}"


def describe_peak(plan: DistinctPlan) -> str:
    """Projected peak bytes, on one line."""
    step = format_size(plan.projected_bytes)
    return f"{step} for each thread, while it finds the distinct keys of a chunk" + (
        "; what their sort takes is unknown" if plan.strategy == "sort" else ""
    )
