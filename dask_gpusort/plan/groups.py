"""The plan of what is found of groups of the keys along an axis: where it is found, and what that takes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

from ..chunk.memory import GATHERED_BYTES, GATHERED_WIDTH
from .choose import Lanes, Where, choose, most_lanes_bytes, plan_lanes
from .memory import HOST_BYTES
from .plan import Plan, StepBytes
from .terms import Workers, format_number

#: "sort" sorts each lane by its groups.
GROUP_STRATEGIES: tuple[Where, ...] = ("blocks", "rechunk", "sort")
#: What of groups must be whole in a chunk.
Whole = Literal["nothing", "groups", "lanes"]
#: Bytes of a result, and of the arrays that a task has for each result of the groups that it gathers.
RESULT_BYTES, GATHERED_RESULT_BYTES = 8, 36


class GroupSizes(NamedTuple):
    """Describe the groups of a lane; nan where a number is unknown."""

    number: float
    largest: float  # elements of the largest group
    window: int  # groups that an element is in


class Found(NamedTuple):
    """Describe what is found of groups."""

    step: str  # of `HOST_BYTES`
    results: int  # of each group; 0 if each element has one
    needed: Whole


def plan_groups(
    lanes: Lanes, groups: GroupSizes, found: Found, workers: Workers, asked: Where | None = None
) -> tuple[Plan, Where, bool]:
    """Plan how something is found of groups; refuse lanes for which there is no way.

    Behind the strategy, whether chunks of the sorted keys have whole groups; else the keys of a group are sorted, too.
    """
    whole = groups.largest * lanes.itemsize <= lanes.limit and not workers.devices
    sorts = found.needed == "nothing" or (found.needed == "groups" and whole and lanes.chunks > 1)
    chosen = asked or choose(lanes, "groups", exchanges=lanes.searchable and sorts)[0]
    long = lanes.searchable and lanes.keys * lanes.itemsize > lanes.limit
    if found.needed != "nothing" and chosen == "rechunk" and long:
        other = ", or by in memory, if its groups fit" * (found.needed == "groups")
        raise ValueError(
            f"lanes of {format_number(lanes.keys)} elements do not fit a chunk: give larger chunks, with "
            f"dask.config.set({{'array.chunk-size': ...}}){other}"
        )
    by = "parts of whole groups" if whole else "their groups and keys"
    whys = {
        "blocks": "lanes are whole in their chunks, each is reduced group by group",
        "rechunk": "so that lanes are whole, once for all groups; each chunk is reduced group by group",
        "sort": "the keys of each lane are sorted by " + by,
    }
    copies = f", {groups.window} times" if groups.window > 1 and chosen == "sort" else ""
    neighbours = f", of {groups.window} neighbours" if groups.window > 1 else ""
    given, most = {"groups": format_number(groups.number) + neighbours}, most_lanes_bytes(lanes, workers)
    plan = plan_lanes(lanes, chosen, whys[chosen] + copies, "reduce-groups", most=most, given=given)
    if plan.steps:
        of_labels = StepBytes("make-groups", lanes.keys, 0, 0, HOST_BYTES["labels"][0])
        library = "cupy" if workers.devices else "numpy"
        plan = replace(plan, steps=(_reduction(lanes, groups, found, library, chosen, most), of_labels))
    return plan, chosen, whole


def _reduction(lanes: Lanes, groups: GroupSizes, found: Found, library: str, where: Where, most: float) -> StepBytes:
    """Bytes of a task that reduces the groups of whole lanes: its results, and some groups that it has gathered."""
    keys, window = lanes.whole_bytes(where, most) / lanes.itemsize, groups.window
    # Each key may be a group of its own if the groups are unknown, and all keys of a lane may be in one.
    count, largest = (lanes.keys if math.isnan(one) else one for one in (groups.number, groups.largest))
    gathered = max(GATHERED_BYTES[library] / max(lanes.itemsize, GATHERED_WIDTH), largest)
    each = count * found.results / max(lanes.keys, 1) if found.results else 1.0  # results of each key
    stays = keys * each * RESULT_BYTES + keys * lanes.itemsize * (where == "rechunk")
    fixed, copies = HOST_BYTES[found.step]
    fixed += GATHERED_RESULT_BYTES * each / window if found.results else 0
    return StepBytes("reduce-groups", min(keys * window, gathered), lanes.itemsize, copies, fixed, stays)
