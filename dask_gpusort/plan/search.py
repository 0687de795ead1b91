"""How needles are searched for among sorted keys: in all of them at once, or group by group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..order import Order, holds_objects
from .division import chunk_ranges, runs_of_threads
from .memory import BUNDLE_COPIES, JOIN_COPIES, host_bytes, is_small
from .terms import Exchange, InputChunks, Projection, Runs, Size, Workers, format_chunks, format_count, format_size

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
    def projected_bytes(self) -> float:
        """Peak bytes of a process whose keys are joined in one array; otherwise of one thread; nan if unknown."""
        looked_up = _largest(self.searched.needles, self.bundles)
        if not self.joined:
            return max(JOIN_COPIES * _largest(self.searched.keys, self.groups), BUNDLE_COPIES * looked_up)
        keys = sum(self.searched.keys)
        needles = looked_up / self.searched.needle_itemsize * host_bytes("needles", self.searched.needle_itemsize)
        threads = 1 if self.sources else self.workers.threads / max(self.workers.processes, 1)
        return max(JOIN_COPIES * keys, keys + threads * needles)


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


def describe_search(plan: SearchPlan) -> Projection:
    """What the plan decides and takes."""
    keys, needles = plan.searched.keys, plan.searched.needles
    limit = "memory of unknown size" if math.isinf(plan.limit) else f"the {format_size(plan.limit)} that they may take"
    reasons = {
        "fits": f"they fit {limit}",
        "unknown": "their size is unknown",
        "sorter": "a sorter gives their order",
        "few": "they are few",
        "objects": "NumPy compares objects",
        "large": f"they do not fit {limit}",
        "asked": "a number of groups is set",
    }
    if plan.sources:
        strategy = f"gang: {len(plan.sources):,} members gather all keys, and look needles up, in one task each"
    elif plan.joined:
        strategy = f"join: all keys are one array, because {reasons[plan.reason]}"
    else:
        strategy = f"groups: keys are {len(plan.groups):,} groups of chunks, because {reasons[plan.reason]}"
    bundles = f", in {format_count(len(plan.bundles), 'bundle')} of chunks" if plan.bundles else ""
    decisions = {
        "keys": f"{format_size(sum(keys))} in {format_chunks(len(keys))}" + (", sorted first" if plan.sorts else ""),
        "needles": f"{format_size(sum(needles))} in {format_chunks(len(needles))}{bundles}",
        "strategy": strategy,
        "moves": _moves(plan),
    }
    exchange = "gang" if plan.sources else "join" if plan.joined else plan.exchange
    stages = (("values moved", plan.moved_bytes), ("look up", sum(needles)))
    return Projection(decisions, plan.projected_bytes, "process" if plan.joined else "thread", exchange, stages)


def _moves(plan: SearchPlan) -> str:
    moved = format_size(plan.moved_bytes)
    if plan.joined:
        return f"the keys, to each process: {moved}; needles stay where they are"
    if plan.exchange == "gather":
        return "nothing: all groups are in one memory"
    by = ", by runs that workers keep" if plan.exchange == "runs" else ""
    return f"each key once, each needle once to the group that bounds it, and its result back{by}: {moved}"


def describe_no_search(elements: np.dtype[Any], test: np.dtype[Any]) -> Projection:
    """That elements of one dtype are equal to none of another one."""
    return Projection({"strategy": f"none: {elements} and {test} are never equal, so nothing is searched"})
