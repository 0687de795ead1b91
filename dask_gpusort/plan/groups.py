"""The plan of order statistics of groups along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .memory import LANE_COPIES
from .plan import Plan
from .select import Lanes, choose_strategy, most_lanes_bytes
from .terms import Projection, Workers, format_count, format_number

#: As of order statistics; "sort" sorts each lane by its groups.
GroupStrategy = Literal["blocks", "rechunk", "sort"]
#: What must be whole in a chunk.
Whole = Literal["nothing", "groups", "lanes"]
GROUP_STRATEGIES: tuple[GroupStrategy, ...] = ("blocks", "rechunk", "sort")


@dataclass(frozen=True)
class GroupPlan:
    """Say how statistics of groups are found."""

    strategy: GroupStrategy
    lanes: Lanes
    groups: float  # nan if unknown
    window: int
    #: Whether chunks of the sorted keys have whole groups; else the keys of a group are sorted, too.
    whole_groups: bool
    threads: int
    lanes_bytes: float  # most bytes of a chunk of whole lanes made of several chunks, unless a lane is larger

    @property
    def projected_bytes(self) -> float:
        """Bytes in use at the peak of "blocks" and "rechunk"; nan if unknown."""
        chunk = self.lanes.bytes / (self.lanes.chunks * self.lanes.blocks)
        whole = max(chunk, min(self.lanes_bytes, self.lanes.bytes)) if self.strategy == "rechunk" else chunk
        return self.threads * LANE_COPIES * whole


def make_group_plan(
    lanes: Lanes,
    groups: float,
    largest: float,
    window: int,
    workers: Workers,
    asked: GroupStrategy | None,
    needed: Whole = "nothing",
) -> GroupPlan:
    """Plan what is found of groups, of which the largest has so many elements, nan if unknown."""
    whole = largest * lanes.itemsize <= lanes.limit and not workers.devices
    if asked is not None:
        strategy = asked
    elif choose_strategy(lanes) == "samples" and (
        needed == "nothing" or (needed == "groups" and whole and lanes.chunks > 1)
    ):
        strategy = "sort"
    else:
        strategy = "blocks" if lanes.chunks == 1 else "rechunk"
    return GroupPlan(strategy, lanes, groups, window, whole, workers.threads, most_lanes_bytes(lanes, workers))


def describe_groups(plan: GroupPlan, sort: Plan | None) -> Projection:
    """What the plan decides and takes."""
    lanes = plan.lanes
    by = "parts of whole groups" if plan.whole_groups else "their groups and keys"
    copies = f", {plan.window} times" if plan.window > 1 else ""
    strategies = {
        "blocks": "blocks: lanes are whole in their chunks, each is reduced group by group",
        "rechunk": "rechunk: so that lanes are whole, once for all groups; each chunk is reduced group by group",
        "sort": f"sort: the keys of each lane are sorted by {by}{copies}",
    }
    decisions = {
        "lanes": lanes.text,
        "groups": format_number(plan.groups) + (f", of {plan.window} neighbours" if plan.window > 1 else ""),
        "strategy": strategies[plan.strategy],
        "sort": ""
        if sort is None
        else f"exchange {sort.exchange}, {format_count(len(sort.groups), 'group')}, sizes unknown",
    }
    peak = plan.projected_bytes if sort is None else sort.projected_bytes
    exchange = sort.exchange if sort is not None else None if plan.strategy == "blocks" else plan.strategy
    return Projection(decisions, peak, "all" if sort is None else "thread", exchange, ((plan.strategy, lanes.bytes),))
