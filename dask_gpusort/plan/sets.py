"""The plans of distinct keys, and of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from tlz import concat

from ..chunk.distinct import Columns
from ..chunk.tie_groups import may_be_nan
from ..order import Order
from . import counting
from .division import bundle_chunks, fits_gang, gang_bundles, join_small_chunks
from .make import choose_groups
from .memory import device_bytes, distinct_bytes, host_bytes, key_bytes
from .select import LANES_BYTES, Lanes
from .terms import (
    BY_TASKS,
    Exchange,
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
#: Bytes of a count, if it may be large, of a first position, and of the number of a tie group.
COUNT_BYTES = 8
#: Bytes of a key's place among the distinct keys of its chunk.
INVERSE_BYTES = 4
#: Most pairs of a part and a group: one task lists where the rows of each begin and end, in 16 bytes.
MOST_PAIRS = 1 << 24
#: Samples of each part of a gang. A member's share differs by one in so many parts of all keys.
MEMBER_SAMPLES = 512
#: Kinds of dtypes whose equal keys have equal bits, so that each may stand for the others.
SAME_BITS_KINDS = "biumMSU"
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
    division: Division | None = None  # of "sort" and "gang", and of sets of two arrays in one chunk

    @property
    def count_dtype(self) -> np.dtype[Any]:
        """The dtype of the counts that move: the narrowest one that holds the keys of a part."""
        return np.dtype(np.uint32 if self.largest <= np.iinfo(np.uint32).max else np.int64)

    @property
    def row_bytes(self) -> int:
        """Bytes of a distinct key and of what is sorted with it."""
        return self.itemsize + self.count_dtype.itemsize * self.columns.counts + COUNT_BYTES * self.columns.firsts

    @property
    def back_bytes(self) -> int:
        """Bytes that go back to a chunk for each of its distinct keys."""
        return COUNT_BYTES if self.strategy in SPREADING and self.columns.inverse else 0

    @property
    def projected_bytes(self) -> float:
        """Peak bytes of a task that finds the distinct keys of a chunk; nan if unknown."""
        return self.largest * self.key_bytes


@dataclass(frozen=True)
class Division:
    """Say how chunks are divided into parts, and their distinct keys into groups."""

    exchange: Exchange
    parts: Runs  # the chunks of each part
    groups: int
    samples: int  # of each part
    members: Runs = ()  # the parts of each member of a gang
    instead_of: str = ""  # as in `Plan`


def divide_distinct(
    order: Order,
    given: InputChunks,
    columns: Columns,
    exchange: Exchange,
    workers: Workers,
    groups: int | None,
    second: int | None,
) -> Division:
    """Divide chunks and their distinct keys, into `groups` if asked; `second` is the first chunk of another side."""
    # Positions take as many bytes as answers do.
    of_rows = columns.counts + columns.firsts + columns.inverse
    row_bytes = order.transit_dtype.itemsize + COUNT_BYTES * of_rows
    joined = (
        bundle_chunks(given, row_bytes, workers)
        if exchange in BY_TASKS
        else join_small_chunks(given, row_bytes, workers)
    )
    ordered = keeps_order(order, columns)
    parts = tuple(sorted(part for bundle in joined for part in parts_of(bundle, second, ordered)))
    if groups is None:
        groups = choose_groups(order, exchange, row_bytes, given, len(parts), given.sizes, workers)
    groups = max(1, min(groups, MOST_PAIRS // len(parts)))
    return Division(exchange, parts, groups, counting.choose_samples(len(parts), groups))


def divide_members(order: Order, sources: Runs, columns: Columns, second: int | None) -> Division:
    """Divide the chunks of each member of a gang, as `divide_distinct`: each member has a group."""
    ordered = keeps_order(order, columns)
    own = [parts_of(chunks, second, ordered) for chunks in sources]
    parts = tuple(sorted(concat(own)))
    members = tuple(tuple(map(parts.index, one)) for one in own)
    return Division("gang", parts, len(members), MEMBER_SAMPLES, members)


def keeps_order(order: Order, columns: Columns) -> bool:
    """Whether it matters which of equal keys is the first."""
    return columns.firsts or columns.repeats or order.dtype.kind not in SAME_BITS_KINDS


def parts_of(chunks: Sequence[int], second: int | None, ordered: bool) -> Runs:
    """The parts of some chunks: of both sides, and if the order of equal keys matters, of neighbours."""
    parts: list[list[int]] = []
    for chunk in chunks:
        last = parts[-1][-1] if parts else None
        sides = second is not None and last is not None and last < second <= chunk
        if last is None or sides or (ordered and chunk > last + 1):
            parts.append([chunk])
        else:
            parts[-1].append(chunk)
    return tuple(map(tuple, parts))


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
    division: Division | None = None,
) -> DistinctPlan:
    """Plan distinct keys, of which `columns` are wanted besides the values.

    `joins` if one GPU has memory for all; `sources` are the chunks of each member of a gang, if it finds them, and the
    division is that of other tasks.
    """
    several: DistinctStrategy = "join" if joins else "gang" if sources else "sort"
    strategy: DistinctStrategy = "blocks" if len(sizes) == 1 else several
    # Of several sizes of which one is unknown, the largest is unknown too.
    largest = sum(sizes)
    if not math.isnan(largest) and strategy in SPREADING:
        parts = sources or (division.parts if division else zip(range(len(sizes))))
        largest = max(sum(sizes[chunk] for chunk in own) for own in parts)
    on_host = host_bytes("values" if columns == Columns() else "columns", itemsize)
    a_key = key_bytes(device_order, distinct_bytes(itemsize, columns), on_host)
    return DistinctPlan(strategy, len(sizes), sum(sizes), largest, itemsize, columns, a_key, sources, division)


def describe_distinct(plan: DistinctPlan) -> Projection:
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
        "sort": describe_division(plan),
        "moves": describe_moves(plan),
    }
    return project_distinct(decisions, plan)


def project_distinct(decisions: dict[str, str], plan: DistinctPlan) -> Projection:
    """What finding distinct keys takes, with some decisions."""
    strategy = plan.strategy
    scope: Scope = "thread" if strategy in ("blocks", "sort") else "process"
    sorts = strategy == "sort"
    exchange = plan.division.exchange if sorts and plan.division else None if strategy == "blocks" else strategy
    stages = ("distinct of chunks", plan.keys * plan.itemsize), ("sort, at most", plan.keys * plan.row_bytes)
    notes = ("unknown: how many elements are distinct, and so the bytes of their sort",) * sorts
    if plan.division is not None and plan.division.instead_of:
        notes += (f"exchange {exchange} in place of {plan.division.instead_of}",)
    return Projection(decisions, plan.projected_bytes, scope, exchange, stages, whole=not sorts, notes=notes)


def describe_gang(plan: DistinctPlan | None) -> str:
    """The members of a gang, on one line; empty without one."""
    if plan is None or plan.strategy != "gang":
        return ""
    return f"{len(plan.sources):,} members find distinct keys, exchange and number them, in one task each"


def describe_division(plan: DistinctPlan | None) -> str:
    """How the distinct keys are sorted, on one line."""
    if plan is None or plan.division is None or plan.strategy != "sort":
        return ""
    division = plan.division
    counts = format_count(len(division.parts), "part"), format_count(division.groups, "group")
    return f"exchange {division.exchange}, {counts[0]}, {counts[1]}, sizes unknown"


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


def describe_rank(plan: RankPlan, distinct: DistinctPlan | None = None) -> Projection:
    """What the plan decides and takes; "global" has a plan of the distinct keys of a lane."""
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
        "sort": describe_division(distinct),
        "gang": describe_gang(distinct),
        "moves": moves[plan.strategy] if distinct is None else each + describe_moves(distinct),
    }
    if distinct is not None:
        return project_distinct(decisions, distinct)
    scope: Scope = "process" if plan.strategy == "join" else "thread"
    exchange = None if plan.strategy == "blocks" else plan.strategy
    return Projection(decisions, plan.projected_bytes, scope, exchange, (("rank rows", lanes.bytes),))
