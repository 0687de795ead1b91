"""The recipe of all programs: from the chunks of an array to those of the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from dask.typing import Key

from ..functions.program import Superstep
from ..graph._dask import List, Task
from ..graph.input_checks import DeclaredChunk, declared_chunks
from ..graph.tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunk_of
from ..plan import Exchange, Runs
from . import kept, turns
from . import tasks as by_tasks

Driver = Literal["threads", "kept", "tasks"]
#: The drivers of exchanges whose runs stay where they are made; others are by tasks.
DRIVERS: dict[Exchange, Driver] = {"gather": "threads", "runs": "kept"}


class Result(NamedTuple):
    """Say where an output array comes from."""

    step: int  # the superstep that makes it, for each group or for each chunk of a part
    which: int  # of its arrays


class Input(NamedTuple):
    """Describe an input array, whose chunks the parts or the groups of a program have."""

    side: Literal["part", "group"]
    what: str  # its name in error messages
    dtype: np.dtype[Any]
    chunks: Chunks  # sizes, nan where unknown
    owned: Runs  # the chunks of each part or group, by their numbers in C order


@dataclass(frozen=True)
class ProgramRecipe(ArrayRecipe):
    """Hold all that the tasks of a program are made from."""

    steps: tuple[Superstep, ...]
    results: tuple[Result, ...]
    names: tuple[str, ...]  # of the inputs
    dtype: np.dtype[Any]  # of the first of them, which parts have
    chunks: Chunks  # sizes, nan where unknown
    parts: Runs  # the chunks of each part, by their numbers in C order
    groups: int
    driver: Driver
    what: str = "the input"  # the name of the first input in error messages
    others: tuple[Input, ...] = ()

    @property
    def takes_held_chunks(self) -> bool:
        """Whether held chunks become part of the tasks: all run in one process."""
        return self.driver == "threads"

    @property
    def first_tasks(self) -> int:
        return len(self.parts)

    @cached_property
    def _owned(self) -> dict[str, list[list[tuple[str, DeclaredChunk]]]]:
        """The chunks of each part and each group: the names of their arrays, and what these say of them."""
        found: dict[str, list[list[tuple[str, DeclaredChunk]]]] = {
            "part": [[] for _ in self.parts],
            "group": [[] for _ in range(self.groups)],
        }
        first = Input("part", self.what, self.dtype, self.chunks, self.parts)
        for name, (side, what, dtype, chunks, owned) in zip(self.names, (first, *self.others), strict=True):
            declared = declared_chunks(what, dtype, chunks)
            for own, numbers in zip(found[side], owned, strict=True):
                own.extend((name, declared[number]) for number in numbers)
        return found

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the input chunks to the results; chunks in `held` become part of them."""
        tasks = Tasks(self.token)

        def blocks_of(own: list[tuple[str, DeclaredChunk]]) -> Any:
            chunks = List(*(chunk_of((name, *one.index), held) for name, one in own))
            return Task(None, turns.Blocks, chunks, [one for _, one in own]) if own else None

        blocks = {side: list(map(blocks_of, owned)) for side, owned in self._owned.items()}
        if self.driver == "tasks":
            by_tasks.add_turns(tasks, self.steps, blocks)
        else:
            kept.add_turns(tasks, self.steps, blocks, self.driver == "kept")
        return tasks

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the results to the chunks of one output array."""
        tasks, (at, array) = Tasks(self.token), self.results[which]
        step = self.steps[at]
        if not chunks and step.side == "group":  # one number, which each group has
            tasks.put((name,), turns.take_array, tasks.ref(step.stage, 0), array, None)
            return tasks
        for number, own in enumerate(self._owned[step.side]):
            if not own:  # a group without chunks of its own has one of each result
                tasks.put((name, number), turns.take_array, tasks.ref(step.stage, number), array, None)
            for position, one in enumerate(one for source, one in own if source == own[0][0]):
                behind = (0,) * (len(chunks) - len(one.index))
                tasks.put((name, *one.index, *behind), turns.take_array, tasks.ref(step.stage, number), array, position)
        return tasks
