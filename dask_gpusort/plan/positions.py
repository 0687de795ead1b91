"""The plan of reads and writes at positions: how elements and the indices that name them come together.

A lane is the elements along the axis for one index of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .choose import MOST_LANES
from .division import chunk_ranges, count_groups
from .plan import Plan, StepBytes
from .terms import Exchange, Runs, Size, Workers, format_chunks, format_count, format_number, format_size

#: Lanes that are whole in a chunk; lanes that are joined in one memory; rechunked lanes that fit a chunk; indices that
#: go to groups of chunks, and elements that come back; few indices in memory, by which Dask slices chunks; a gang whose
#: members gather all elements.
PositionsStrategy = Literal["blocks", "gather", "rechunk", "exchange", "slices", "gang"]
#: Why: lanes are whole in a chunk; sizes are unknown; there is no element or index; the setting says so; all tasks
#: share one memory; lanes fit a chunk; they do not; few indices of a shared memory read single chunks; chunks are on
#: several GPUs that can hold all elements each, or a gang is asked for.
PositionsReason = Literal["whole", "unknown", "empty", "asked", "shared", "fit", "long", "few", "gang"]
#: Those for which no element moves from one chunk to another.
UNMOVED: tuple[PositionsReason, ...] = ("whole", "unknown", "empty")

#: A chunk of the elements is read by itself if there are so many times as many elements as indices: to join the chunks
#: would take longer than to find the elements.
FEW_INDICES = 8
#: Bytes that travel with an index, or are kept for it: the index, its offset in a group, its position in a bundle.
INDEX_BYTES = 24
#: Bytes of an offset in a group.
OFFSET_BYTES = 8
#: Most requests of a portion, which is read at once from kept runs: offsets, positions and replies take some 16 MiB
#: where elements have 8 bytes.
PORTION_REQUESTS = 1 << 19


@dataclass(frozen=True)
class Addressed:
    """Describe an array whose elements are read or written at positions along one axis; nan is unknown."""

    chunks: int  # along the axis
    size: Size  # elements along the axis
    lanes: Size
    itemsize: int  # bytes of an element
    indices: float  # how many
    limit: float  # most bytes of a chunk of whole lanes
    index_bytes: int = 0  # bytes of an index and its value, if values are written
    blocks: int = 1  # groups of lanes that are in the same chunks

    @property
    def lane_bytes(self) -> float:
        """Bytes that one task needs for one lane."""
        return self.bytes / self.lanes if self.lanes else 0.0

    @property
    def bytes(self) -> float:
        """Bytes of all lanes, and of what is written to them."""
        written = self.indices * self.index_bytes if self.index_bytes else 0
        return self.lanes * self.size * self.itemsize + written


def choose_addressing(
    array: Addressed, shared: bool, memory: float, asked: str = "auto"
) -> tuple[PositionsStrategy, PositionsReason]:
    """Choose the strategy for an array and say why; `memory` is what joined chunks may take if all tasks share it."""
    if math.isnan(array.size) or math.isnan(array.lanes):
        return "blocks", "unknown"  # which refuses several chunks along the axis
    if 0 in (array.size, array.lanes, array.indices):
        return "gather", "empty"
    if array.chunks == 1:
        return "blocks", "whole"
    fit = array.lane_bytes <= array.limit
    if asked in ("join", "gather"):
        return "gather", "asked"
    if asked != "auto" and not (fit and array.lanes > MOST_LANES):  # each would have tasks of its own
        return "exchange", "asked"
    few = array.lanes == 1 and array.indices * FEW_INDICES <= array.size and not array.index_bytes
    if shared and not few and array.bytes <= memory:
        return "gather", "shared"
    if shared and few:
        return "exchange", "few"
    return ("rechunk", "fit") if fit else ("exchange", "long")


def names_few_chunks(indices: int, size: Size, elements: Size, planning: bool) -> bool:
    """Tell whether Dask slices the chunks that indices in memory name."""
    # With query planning Dask does not take a list of positions.
    return 0 < indices * FEW_INDICES <= size and elements != 0 and not planning


def bundle_chunks(sizes: Sequence[Size], item_bytes: int, workers: Workers, wanted: int | None = None) -> Runs:
    """Bundle chunks that fit a share of the memory of a thread, about `wanted` or enough for all threads."""
    # Unknown sizes count as equal; `item_bytes` move with each element.
    weights = [1.0] * len(sizes) if any(map(math.isnan, sizes)) else list(map(float, sizes))
    wanted = wanted or count_groups("runs", sum(weights) * item_bytes, len(sizes), 0, workers)
    return tuple(chunk_ranges(range(len(sizes)), weights, max(sum(weights) / wanted, 1.0) * 1.001))


def largest_bytes(bundles: Runs, sizes: Sequence[Size], item_bytes: int) -> float:
    """Bytes of the largest bundle of chunks of these sizes, nan if any is unknown."""
    if math.isnan(sum(sizes)):
        return math.nan
    return max((sum(sizes[chunk] for chunk in chunks) for chunks in bundles), default=0) * item_bytes


@dataclass(frozen=True)
class PositionsExchange:
    """Say how indices go to the chunks of one lane, or of rows, and elements come back."""

    groups: Runs  # of the chunks that are read or written
    bundles: Runs  # of the chunks of indices
    by: Exchange  # how they move: of "runs", workers keep what moves, in memory or in files
    group_bytes: float  # of the largest group, nan if unknown
    bundle_bytes: float  # of what the largest bundle requests, nan if unknown
    row_bytes: int  # of an element, or a row

    @property
    def driver(self) -> str:
        """Whether workers keep what moves, or tasks have it."""
        return "runs" if self.by == "runs" else "tasks"


@dataclass(frozen=True)
class PositionsPlan:
    """Say how elements at positions are read, or written."""

    strategy: PositionsStrategy
    reason: PositionsReason
    array: Addressed
    memory: float  # bytes that joined chunks may take in one memory
    exchange: PositionsExchange | None = None  # for the strategy "exchange"
    sources: Runs = ()  # the chunks of each member of a gang, of the elements and then of the indices

    @property
    def stated(self) -> Plan:
        """What is decided, and what a task takes besides its indices and its result."""
        array, exchange = self.array, self.exchange
        fits = format_size(array.limit)
        whys = {
            "whole": "lanes are whole in their chunks",
            "unknown": "sizes are unknown",
            "empty": "nothing is read",
            "asked": "the setting gpusort.exchange says so",
            "shared": f"the chunks share one memory, of which they may take {format_size(self.memory)}",
            "fit": f"lanes are in several chunks, and fit one of {fits}",
            "long": f"lanes are in several chunks, and do not fit one of {fits}",
            "few": "indices are few, and most chunks need not be joined",
            "gang": f"{len(self.sources):,} members gather all elements, and read theirs, in one task each",
        }
        moves = {
            "rechunk": f"every element once, {format_size(array.bytes)}",
            "slices": "the elements that the indices name",
            "gang": f"every element to {len(self.sources):,} members, {format_size(array.bytes)} to each",
        }.get(self.strategy, "nothing" if array.chunks == 1 else "nothing: the chunks are in one memory")
        if exchange is not None:
            by = "runs that workers keep" if exchange.driver == "runs" else "tasks"
            groups, bundles = format_count(len(exchange.groups), "group"), format_count(len(exchange.bundles), "bundle")
            moves = f"indices to {groups} of chunks, from {bundles}, by {by}; elements back"
        return Plan(
            where=self.strategy,
            why=whys[self.reason],
            given={
                "lanes": f"{format_number(array.lanes)} of {format_number(array.size)} elements, "
                f"in {format_chunks(array.chunks)}",
                "indices": f"{format_number(array.indices)}",
            },
            more={"moves": moves},
            driver=exchange.driver if exchange else "",
            steps=tuple(StepBytes(name, size, 1, copies) for name, size, copies in self._steps()),
            scope="process" if self.strategy == "gang" or (self.strategy, array.blocks) == ("gather", 1) else "thread",
            stages=(("read at positions", array.bytes),),
        )

    def _steps(self) -> list[tuple[str, float, float]]:
        """Steps with their bytes, and copies of these."""
        array, exchange = self.array, self.exchange
        if exchange is not None:
            group, bundle = exchange.group_bytes, exchange.bundle_bytes
            if exchange.by != "runs":  # the figures are measured
                return [("source", group, 1.1), ("requests", bundle, 1.1), ("read", group + bundle, 0.85)]
            # What is kept is there twice for a moment. A portion of the offsets for a group is read at once, what is
            # found of it is kept. For writes the bytes of the groups are with those of the offsets and values.
            if array.index_bytes:
                return [("requests", bundle, 1.3), ("write", group, 1.05)]
            portion = min(array.indices, PORTION_REQUESTS) * (OFFSET_BYTES + 2 * exchange.row_bytes)
            filled = bundle * exchange.row_bytes / (exchange.row_bytes + INDEX_BYTES)
            filled += min(filled, PORTION_REQUESTS * exchange.row_bytes)
            return [("source", group, 2), ("requests", bundle, 1.1), ("read", group + portion, 1), ("fill", filled, 1)]
        if self.strategy == "gang":
            # All pieces and the whole; what others have not fetched of its own; and what it has read.
            own = (array.bytes + array.indices * array.lanes * array.itemsize) / len(self.sources)
            return [("take-gang", 2 * array.bytes + own, 1)]
        if self.strategy == "gather":  # one task joins the chunks of the same lanes
            copies = 1.55 if array.index_bytes and array.lanes > 1 else 1.01
            return [("take-join", array.lanes * array.size * array.itemsize / array.blocks, copies)]
        if self.strategy == "rechunk":
            return [("take", max(array.lane_bytes, min(array.limit, array.bytes)), 1)]
        return [("take", array.bytes / (array.blocks * array.chunks), 1)]
