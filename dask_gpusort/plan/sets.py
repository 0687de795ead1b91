"""The plans of distinct keys, and of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..chunk.distinct import Columns
from ..chunk.tie_groups import may_be_nan
from ..order import Order
from .division import fits_gang, gang_bundles
from .memory import device_bytes, distinct_bytes, host_bytes, key_bytes
from .plan import Plan
from .select import LANES_BYTES, Lanes
from .terms import (
    InputChunks,
    Projection,
    Runs,
    Scope,
    Size,
    Workers,
    format_chunks,
    format_count,
    format_number,
    format_size,
)

DistinctStrategy = Literal["blocks", "join", "gang", "sort"]

#: Strategies in which distinct keys move between tasks.
SPREADING: tuple[DistinctStrategy, ...] = ("gang", "sort")
#: Bytes of a count, of a first position, and of the number of a tie group.
COUNT_BYTES = 8
#: Bytes of a key's place among the distinct keys of its chunk.
INVERSE_BYTES = 4
#: Kinds of dtypes whose distinct keys no gang finds: Python objects, and records, of which NumPy compares each field.
NO_GANG_KINDS = "OV"
RankStrategy = Literal["blocks", "join", "rechunk", "global"]


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
    sources: Runs = ()  # the chunks of each member of a gang

    @property
    def row_bytes(self) -> int:
        """Bytes of a distinct key and of what is sorted with it."""
        wanted = self.columns
        return self.itemsize + self._origin_bytes * wanted.origins + COUNT_BYTES * (wanted.counts + wanted.firsts)

    @property
    def back_bytes(self) -> int:
        """Bytes that go back to a chunk for each of its distinct keys."""
        if self.strategy not in SPREADING or not self.columns.inverse:
            return 0
        return COUNT_BYTES + self._origin_bytes * self.columns.origins

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


def gang_of_distinct(
    order: Order, given: InputChunks, workers: Workers, asked: str, columns: Columns, equal_nan: bool
) -> Runs:
    """The chunks of each member of a gang that finds distinct keys; empty if other tasks should find them."""
    if order.dtype.kind in NO_GANG_KINDS or len(given.sizes) < 2 or asked not in ("auto", "gang"):
        return ()
    sources = gang_bundles(given, workers)
    # Distinct keys arrive with what is wanted of them, and a number goes back for each. All NaN are on one member.
    each = COUNT_BYTES * (columns.counts + columns.firsts) + (COUNT_BYTES + INVERSE_BYTES) * columns.inverse
    most = 1 if equal_nan or not may_be_nan(order.dtype) else len(sources)
    share = replace(given, sizes=[most * size for size in given.sizes], companion_bytes=each)
    return sources if asked == "gang" or fits_gang(order, share, workers) else ()


def make_distinct_plan(
    sizes: Sequence[Size],
    itemsize: int,
    columns: Columns,
    joins: bool,
    device_order: Order | None = None,
    sources: Runs = (),
) -> DistinctPlan:
    """Plan distinct keys, of which `columns` are wanted besides the values.

    `joins` if one GPU has memory for all; `sources` are the chunks of each member of a gang, if it finds them.
    """
    # Origins are kept only where several chunks are sorted by other tasks.
    several: DistinctStrategy = "join" if joins else "gang" if sources else "sort"
    strategy: DistinctStrategy = "blocks" if len(sizes) == 1 else several
    # Of several sizes of which one is unknown, the largest is unknown too.
    largest = sum(sizes)
    if not math.isnan(largest) and strategy in SPREADING:
        largest = max(sum(sizes[chunk] for chunk in own) for own in sources or zip(range(len(sizes))))
    wanted = columns if strategy == "sort" else replace(columns, origins=False)
    alone = wanted == Columns(origins=wanted.origins)
    on_host = host_bytes("values" if alone else "columns", itemsize)
    a_key = key_bytes(device_order, distinct_bytes(itemsize, wanted), on_host)
    return DistinctPlan(strategy, len(sizes), sum(sizes), largest, itemsize, wanted, a_key, sources)


def describe_distinct(plan: DistinctPlan, sort: Plan | None = None) -> Projection:
    """What the plan decides and takes."""
    strategies = {
        "blocks": "blocks: all keys are in one chunk, whose distinct keys are the result",
        "join": "join: the chunks share one memory, which holds a sort of them; they are made one",
        "gang": f"gang: {describe_gang(plan)}",
        "sort": "sort: keys are in several chunks; the distinct keys of each are sorted together, and numbered",
    }
    decisions = {
        "keys": f"{format_number(plan.keys)} in {format_chunks(plan.chunks)}",
        "strategy": strategies[plan.strategy],
        "sort": describe_sort(sort),
        "moves": describe_moves(plan),
    }
    return project_distinct(decisions, plan, sort)


def project_distinct(decisions: dict[str, str], plan: DistinctPlan, sort: Plan | None) -> Projection:
    """What finding distinct keys takes, with some decisions."""
    strategy = plan.strategy
    scope: Scope = "thread" if strategy in ("blocks", "sort") else "process"
    exchange = sort.exchange if sort is not None else None if strategy == "blocks" else strategy
    stages = ("distinct of chunks", plan.keys * plan.itemsize), ("sort, at most", plan.keys * plan.row_bytes)
    sorts = strategy == "sort"
    notes = ("unknown: how many elements are distinct, and so the bytes of their sort",) * sorts
    return Projection(decisions, plan.projected_bytes, scope, exchange, stages, whole=not sorts, notes=notes)


def describe_gang(plan: DistinctPlan | None) -> str:
    """The members of a gang, on one line; empty without one."""
    if plan is None or plan.strategy != "gang":
        return ""
    return f"{len(plan.sources):,} members find distinct keys, exchange and number them, in one task each"


def describe_sort(sort: Plan | None) -> str:
    """The sort of the distinct keys, on one line."""
    return "" if sort is None else f"exchange {sort.exchange}, {format_count(len(sort.groups), 'group')}, sizes unknown"


def describe_moves(plan: DistinctPlan) -> str:
    """What moves between chunks, on one line."""
    if plan.strategy not in SPREADING:
        return "nothing" if plan.strategy == "blocks" else "nothing: the chunks are in one memory"
    back = f"; {plan.back_bytes} bytes for each go back to its chunk" if plan.back_bytes else ""
    most = format_size(plan.keys * plan.row_bytes)
    return f"only distinct keys, {plan.row_bytes} bytes each: at most {most}, if all keys differ{back}"


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


def make_rank_plan(lanes: Lanes, flat: bool, joins: bool, device_order: Order | None = None) -> RankPlan:
    """Plan ranks; `joins` if one GPU has memory for all chunks and what a sort of them needs."""
    # Lanes of an unknown number cannot be ranked one by one, and no lanes need no ranks.
    together = math.isnan(lanes.count) or math.isnan(lanes.keys) or not lanes.count
    strategy: RankStrategy
    if lanes.chunks == 1:
        strategy = "blocks"
    elif joins:
        strategy = "join"
    elif flat:  # a chunk is never made of several ones
        strategy = "global"
    else:
        strategy = "rechunk" if together or lanes.keys * lanes.itemsize <= lanes.limit else "global"
    width = lanes.itemsize
    a_key = key_bytes(device_order, device_bytes(width, "ranks"), host_bytes("ranks", width))
    return RankPlan(strategy, lanes, flat, a_key)


def describe_rank(plan: RankPlan, distinct: DistinctPlan | None = None, sort: Plan | None = None) -> Projection:
    """What the plan decides and takes; "global" has plans of the distinct keys of a lane, and of their sort."""
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
        "lanes": lanes.text,
        "strategy": strategies[plan.strategy],
        "sort": describe_sort(sort),
        "gang": describe_gang(distinct),
        "moves": moves[plan.strategy] if distinct is None else each + describe_moves(distinct),
    }
    if distinct is not None:
        return project_distinct(decisions, distinct, sort)
    scope: Scope = "process" if plan.strategy == "join" else "thread"
    exchange = None if plan.strategy == "blocks" else plan.strategy
    return Projection(decisions, plan.projected_bytes, scope, exchange, (("rank rows", lanes.bytes),))
