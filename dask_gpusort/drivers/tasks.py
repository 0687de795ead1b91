r"""The driver by plain tasks: each sender cuts a shard for each receiver, which Dask moves.

It is the driver of CuPy chunks, and of NumPy chunks where workers cannot keep runs::

    unique-local b           part b
       |       \
       |    unique-local-note b      small: sent to the one task that decides
       |        |
       |    unique-scan
       |        |
    unique-shard (b, g)      rows of part b for group g, copied
                |
          unique-merge g
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from ..functions.program import Superstep
from ..graph._dask import List, TaskRef
from ..graph.tasks import Tasks
from .turns import Store, cut_shard, list_turns, take_note, take_turn


def add_turns(tasks: Tasks, steps: Sequence[Superstep], blocks: Mapping[str, Sequence[Any]]) -> None:
    """Add the tasks of all supersteps; `blocks` are those of each part and of each group."""
    store, listed = Store(), None
    owners: dict[str, list[Any]] = {side: [None] * len(own) for side, own in blocks.items()}
    shards: list[list[TaskRef]] = []  # of each receiver
    for at, step in enumerate(steps):
        given = enumerate(zip(owners[step.side], blocks[step.side], shards or repeat([]), strict=False))
        if step.portions and step.moves == "back":
            # Each piece has a reply of its own, so no task holds more, whatever arrives at a group.
            replies = [
                [
                    tasks.add(
                        step.stage, (sender, number), take_turn, step, number, store, None, own, listed, List(one)
                    )
                    for sender, one in enumerate(sent)
                ]
                for number, (own, _, sent) in given
            ]
            shards = list(map(list, zip(*replies, strict=True)))
            continue
        turns = [
            tasks.add(step.stage, number, take_turn, step, number, store, part, own, listed, List(*sent))
            for number, (own, part, sent) in given
        ]
        blocks = {**blocks, step.side: [None] * len(turns)}
        if step.keeps:
            owners[step.side] = turns
        if not step.listing:
            continue
        notes = [tasks.add(f"{step.stage}-note", number, take_note, turn) for number, turn in enumerate(turns)]
        listed = tasks.add(step.listing, 0, list_turns, step, List(*notes), List(), store, listed)
        senders = {"out": owners[step.side], "back": turns, "": []}[step.moves]
        name = step.shards or f"{step.stage}-shard"
        shards = [
            [
                tasks.add(name, (sender, receiver), cut_shard, step, sender, turn, listed, receiver)
                for sender, turn in enumerate(senders)
            ]
            for receiver in range(len(owners[steps[at + 1].side]))
        ]
