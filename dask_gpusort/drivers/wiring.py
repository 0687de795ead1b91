"""What each superstep of a program gets of earlier ones: the same for all drivers that run it by tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..functions.program import Superstep


class Wired(NamedTuple):
    """Say where a superstep gets what it needs."""

    step: Superstep
    owner: str  # the stage that has made what its part or group has kept; "" if nothing is
    decided: str  # the task of the last decision; "" if there is none
    arrives: str  # the stage of the tasks that cut what arrives at it; "" if nothing does
    sender: str  # the stage whose runs move behind it; "" if nothing does


def wire(steps: Sequence[Superstep], list_replies: bool = True) -> list[Wired]:
    """Wire the supersteps of a program; if replies to portions are not listed, each is sent by a task of its own."""
    wired, owners, decided, arrives = [], {"part": "", "group": ""}, "", ""
    for step in steps:
        owner = owners[step.side]
        if step.keeps:
            owners[step.side] = step.stage
        sender = {"out": owners[step.side], "back": step.stage, "": ""}[step.moves]
        wired.append(Wired(step, owner, decided, arrives, sender))
        if list_replies or not replies_alone(step):
            decided = step.listing or decided
        arrives = sender and shards_of(step)
    return wired


def shards_of(step: Superstep) -> str:
    """The stage of the tasks that cut what moves behind a superstep."""
    return step.shards or f"{step.stage}-shard"


def replies_alone(step: Superstep) -> bool:
    """Whether each piece that arrives has a reply of its own."""
    return step.portions and step.moves == "back"


def decides_alone(step: Superstep) -> bool:
    """Whether the task of the only group decides where the rows are that it gets."""
    return bool(step.moves) and not step.listing
