"""How needles are searched for among sorted keys: in all of them at once, or group by group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..order import Order, holds_objects
from .division import chunk_ranges, runs_of_threads
from .memory import BUNDLE_COPIES, JOIN_COPIES, host_bytes, is_small, tied_bytes
from .plan import Plan, StepBytes
from .terms import Exchange, InputChunks, Runs, Size, Workers, format_chunks, format_count, format_size

#: Share of the memory up to which the sorted keys are one array, which every task reads.
JOINED_SHARE = 1 / 4
#: Share of the memory of a thread up to which chunks of keys are one group, and chunks of needles one bundle. A bundle
#: is sorted with positions, which takes about five times its bytes.
GROUP_SHARE = 1 / 16
#: The same where workers keep what moves: beside it, the chunks of the next one are read, and runs take their share. Of
#: 512 MiB needles in 512 MiB of keys, two workers of 512 MiB spilled 850 MiB with 1 / 16.
KEPT_SHARE = 1 / 32
#: Share of a device's memory that the needles of one search may take. It holds the needles, sorted needles, their
#: positions, ranks, and (position, rank) pairs: about five times the needles, if these have 8 bytes.
DEVICE_SHARE = 1 / 16

#: Why keys are joined or grouped: they fit a share of the memory, or it is unknown whether they do; a sorter needs all
#: of them; they are few; NumPy compares objects; they do not fit; a number of groups is asked for; a gang gathers them.
SearchReason = Literal["fits", "unknown", "sorter", "few", "objects", "large", "asked", "gang"]


@dataclass(frozen=True)
class Searched:
    """Hold bytes of each chunk of the keys and of the needles of a search, nan where unknown."""

    keys: tuple[Size, ...]
    needles: tuple[Size, ...]
    needle_itemsize: int = 8  # bytes of a needle


@dataclass(frozen=True)
class SearchPlan:
    """Say how needles are searched for."""

    groups: Runs  # the chunks of the sorted keys that are joined
    #: The chunks of needles that are sorted together, numbered in C order; empty if each is looked up on its own.
    bundles: Runs
    reason: SearchReason
    searched: Searched
    workers: Workers
    limit: float  # bytes up to which keys are joined in one array
    sorts: bool = False  # whether the keys are sorted first
    exchange: Exchange = "tasks"  # between groups and bundles
    sources: Runs = ()  # the chunks of each member of a gang, of the keys and then of the needles

    @property
    def joined(self) -> bool:
        """Whether all keys are one array."""
        return len(self.groups) == 1

    @property
    def moved_bytes(self) -> float:
        """Bytes of keys for each process; or of keys and needles for the groups, and 8 bytes back for each needle."""
        keys, needles = sum(self.searched.keys), sum(self.searched.needles)
        if self.joined:
            return keys * (len(self.sources) or max(self.workers.processes, 1))
        if self.exchange == "gather":
            return 0
        return keys + needles + needles / self.searched.needle_itemsize * 8

    @property
    def stated(self) -> Plan:
        """What is decided, and what it takes: of a process whose keys are joined, otherwise of a thread."""
        keys, needles, moved = self.searched.keys, self.searched.needles, format_size(self.moved_bytes)
        limit = format_size(self.limit)
        own = "memory of unknown size" if math.isinf(self.limit) else f"the {limit} that they may take"
        reasons = {
            "fits": f"they fit {own}",
            "unknown": "their size is unknown",
            "sorter": "a sorter gives their order",
            "few": "they are few",
            "objects": "NumPy compares objects",
            "large": f"they do not fit {own}",
            "asked": "a number of groups is set",
        }
        if self.sources:
            where, why = "gang", f"{len(self.sources):,} members gather all keys, and look needles up, in one task each"
        elif self.joined:
            where, why = "join", f"all keys are one array, because {reasons[self.reason]}"
        else:
            where, why = "groups", f"keys are {len(self.groups):,} groups of chunks, because {reasons[self.reason]}"
        moves = f"each key once, each needle once to the group that bounds it, and its result back: {moved}"
        if self.joined:
            moves = f"the keys, to each process: {moved}; needles stay where they are"
        elif self.exchange == "gather":
            moves = "nothing: all groups are in one memory"
        bundles = f", in {format_count(len(self.bundles), 'bundle')} of chunks" if self.bundles else ""
        return Plan(
            where=where,
            why=why,
            given={
                "keys": f"{format_size(sum(keys))} in {format_chunks(len(keys))}" + ", sorted first" * self.sorts,
                "needles": f"{format_size(sum(needles))} in {format_chunks(len(needles))}{bundles}",
            },
            more={"moves": moves},
            driver="" if self.joined else self.exchange,
            steps=self._steps(),
            scope="process" if self.joined else "thread",
            stages=(("values moved", self.moved_bytes), ("look up", sum(needles))),
        )

    def _steps(self) -> tuple[StepBytes, StepBytes]:
        width = self.searched.needle_itemsize
        keys, needles = _largest(self.searched.keys, self.groups), _largest(self.searched.needles, self.bundles) / width
        join = StepBytes("search-join", keys, 1, JOIN_COPIES)
        if not self.joined:
            return join, StepBytes("search-sort", needles, width, BUNDLE_COPIES, stays=tied_bytes(needles, width))
        threads = 1 if self.sources else self.workers.threads / max(self.workers.processes, 1)
        return join, StepBytes("search-scatter", threads * needles, width, 0, host_bytes("needles", width), keys)


def _largest(sizes: Sequence[Size], groups: Runs) -> float:
    """Bytes of the largest group of chunks, nan if unknown; of the largest chunk where there is no group."""
    if math.isnan(sum(sizes)):
        return math.nan
    return max((sum(sizes[chunk] for chunk in group) for group in groups), default=max(sizes, default=0))


def make_search_plan(
    searched: Searched,
    workers: Workers,
    memory: int | None,
    groups: int | None,
    *,
    one_memory: bool = False,
    whole: SearchReason | None = None,
    sorts: bool = False,
    exchange: Exchange = "tasks",
) -> SearchPlan:
    """Plan a search; `groups` is the number asked for, and `whole` says why all keys are joined, however many."""
    # Keys of an unknown number are assumed to fit; `memory` is that of the process where workers have no limit. Each
    # bundle has a piece in each group: a slice of a run that workers keep, or else tasks. The numbers of both follow
    # from the bytes and not from the chunks. In one memory, neighbouring chunks of needles are looked up together:
    # needles that are closer together share more of the cache. 12.8M int64 in as many take 2.6 s of CPU time in chunks
    # of 200,000, 1.85 in chunks of 800,000 (EPYC).
    keys, needles = searched.keys, searched.needles
    own = workers.memory or (memory and memory // workers.threads) or math.inf
    limit = JOINED_SHARE * own * (1 if workers.memory else workers.threads)
    total, everything = sum(keys), (tuple(range(len(keys))),)
    reason: SearchReason
    near = _near(needles, workers, own) if one_memory and (workers.devices or whole is None) else ()
    if whole is not None:
        return SearchPlan(everything, near, whole, searched, workers, limit, sorts)
    if groups is None and not total > limit:
        reason = "unknown" if math.isnan(total) else "fits"
        # One device sorts the keys where it joins them.
        return SearchPlan(everything, near, reason, searched, workers, limit, sorts and not workers.devices)
    most = (KEPT_SHARE if exchange == "runs" else GROUP_SHARE) * own
    share = most if groups is None else total / groups
    found = tuple(chunk_ranges(range(len(keys)), keys, share))
    bundles = tuple(chunk_ranges(range(len(needles)), needles, most))
    reason = "large" if groups is None else "asked"
    return SearchPlan(found, bundles, reason, searched, workers, limit, sorts, exchange)


def choose_membership(test: Order, compared: np.dtype[Any], size: Size) -> SearchReason | None:
    """Say why all test elements are joined, unsorted; None if they are sorted first."""
    if holds_objects(compared):
        return "objects"
    return "few" if is_small(test, InputChunks((size,))) else None


def _near(needles: Sequence[Size], workers: Workers, memory: float) -> Runs:
    """Neighbouring chunks of needles that are looked up together; empty if each is alone."""
    if workers.devices:
        # One device does one search after the other, so a search of all of them takes the fewest steps.
        return tuple(chunk_ranges(range(len(needles)), needles, DEVICE_SHARE * memory))
    found = () if math.isnan(sum(needles)) else runs_of_threads(needles, 1, workers)
    return () if len(found) == len(needles) else found
