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

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from ..functions.program import Superstep
from ..graph._dask import List, TaskRef
from ..graph.tasks import Tasks
from .turns import Store, cut_shard, list_turns, take_note, take_turn


def add_turns(tasks: Tasks, steps: Sequence[Superstep], parts: Sequence[Any], groups: int) -> None:
    """Add the tasks of all supersteps, of parts and of some groups."""
    store, listed = Store(), None
    owners: dict[str, list[Any]] = {"part": [None] * len(parts), "group": [None] * groups}
    shards: list[list[TaskRef]] = [[] for _ in parts]  # of each receiver
    for at, step in enumerate(steps):
        given = enumerate(zip(owners[step.side], parts if at == 0 else repeat(None), shards, strict=False))
        turns = [
            tasks.add(step.stage, number, take_turn, step, number, store, part, own, listed, List(*sent))
            for number, (own, part, sent) in given
        ]
        if step.keeps:
            owners[step.side] = turns
        if at + 1 == len(steps):
            return
        notes = [tasks.add(f"{step.stage}-note", number, take_note, turn) for number, turn in enumerate(turns)]
        listed = tasks.add(step.listing, 0, list_turns, step, List(*notes), List(), store, listed)
        senders = {"out": owners[step.side], "back": turns, "": []}[step.moves]
        shards = [
            [
                tasks.add(f"{step.stage}-shard", (sender, receiver), cut_shard, step, sender, turn, listed, receiver)
                for sender, turn in enumerate(senders)
            ]
            for receiver in range(len(owners[steps[at + 1].side]))
        ]
