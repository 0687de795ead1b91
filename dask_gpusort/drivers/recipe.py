"""The recipe of all programs: from the chunks of an array to those of the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from dask.typing import Key

from ..functions.program import Superstep
from ..graph._dask import List, Task
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


@dataclass(frozen=True)
class ProgramRecipe(ArrayRecipe):
    """Hold all that the tasks of a program are made from."""

    steps: tuple[Superstep, ...]
    results: tuple[Result, ...]
    names: tuple[str, ...]  # of the input
    dtype: np.dtype[Any]
    chunks: Chunks  # sizes of the input, nan where unknown
    parts: Runs  # the chunks of each part, by their numbers in C order
    groups: int
    driver: Driver

    @property
    def takes_held_chunks(self) -> bool:
        """Whether held chunks become part of the tasks: all run in one process."""
        return self.driver == "threads"

    @property
    def first_tasks(self) -> int:
        return len(self.parts)

    @cached_property
    def _indices(self) -> list[tuple[int, ...]]:
        return list(np.ndindex(*map(len, self.chunks)))

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the input chunks to the results; chunks in `held` become part of them."""
        tasks, shapes = Tasks(self.token), list(product(*self.chunks))
        parts = [
            Task(
                None,
                turns.Part,
                List(*(chunk_of((self.names[0], *self._indices[chunk]), held) for chunk in part)),
                part,
                [shapes[chunk] for chunk in part],
                self.dtype,
            )
            for part in self.parts
        ]
        if self.driver == "tasks":
            by_tasks.add_turns(tasks, self.steps, parts, self.groups)
        else:
            kept.add_turns(tasks, self.steps, parts, self.groups, self.driver == "kept")
        return tasks

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the results to the chunks of one output array."""
        tasks, (at, array) = Tasks(self.token), self.results[which]
        step = self.steps[at]
        if not chunks:  # one number, which each group has
            tasks.put((name,), turns.take_array, tasks.ref(step.stage, 0), array, None)
            return tasks
        if step.side == "group":
            for group in range(self.groups):
                tasks.put((name, group), turns.take_array, tasks.ref(step.stage, group), array, None)
            return tasks
        for number, part in enumerate(self.parts):
            for position, chunk in enumerate(part):
                key: Key = (name, *self._indices[chunk])
                tasks.put(key, turns.take_array, tasks.ref(step.stage, number), array, position)
        return tasks
