"""The recipe of all programs: from the chunks of arrays to those of the results."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from operator import getitem
from typing import Any, Literal, NamedTuple

import numpy as np
from dask.typing import Key

from ..chunk.checks import Blocks, DeclaredChunk, declared_chunks
from ..functions.program import Superstep
from ..graph._dask import List, Task
from ..graph.tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunk_of
from ..plan import Exchange, Runs
from . import turns
from .kept import KeptRuns
from .notes import conclude
from .tasks import Pace, PlainTasks

Driver = Literal["threads", "kept", "tasks"]
#: The drivers of exchanges whose runs stay where they are made; others are by tasks.
DRIVERS: dict[Exchange, Driver] = {"gather": "threads", "runs": "kept"}
#: (first output chunk, last + 1, part, parts) of each group: some output chunks, or one of several parts of one.
Contents = tuple[tuple[int, int, int, int], ...]
#: The chunks of a part or a group: their keys, and what their arrays say of them.
Owned = list[tuple[tuple[Any, ...], DeclaredChunk]]


class Result(NamedTuple):
    """Say where an output array comes from."""

    step: int  # the superstep that makes it, for each group or for each chunk of a part
    which: int  # of its arrays


class Input(NamedTuple):
    """Describe an input array, whose chunks the parts or the groups of a program have."""

    what: str  # its name in error messages
    dtype: np.dtype[Any] | None  # None accepts any
    chunks: Chunks  # sizes, nan where unknown
    owned: Runs  # the chunks of each part or group, by their numbers in C order in a line
    side: Literal["part", "group"] = "part"
    exact: bool = False  # whether strings must have the length of the dtype
    #: Names in error messages of arrays that lie end to end, and how many chunks each has; else empty.
    joined: tuple[tuple[str, int], ...] = ()

    @property
    def declared(self) -> list[DeclaredChunk]:
        """What the array says of its chunks, in C order."""
        found = declared_chunks(self.what, self.dtype, self.chunks, self.exact)
        names = [(what, (chunk,)) for what, count in self.joined for chunk in range(count)]
        if not names:
            return found
        return [replace(one, array=what, index=index) for one, (what, index) in zip(found, names, strict=True)]


@dataclass(frozen=True)
class ProgramRecipe(ArrayRecipe):
    """Hold all that the tasks of a program are made from."""

    steps: tuple[Superstep, ...]
    results: tuple[Result, ...]
    names: tuple[str, ...]  # of the inputs
    inputs: tuple[Input, ...]  # the first is one that parts have
    groups: int
    driver: Driver
    contents: Contents = ()  # of the groups, if the outputs are divided into chunks by them
    pace: Pace | None = None  # of the driver by tasks; None if each part has a task
    #: Dimensions of the inputs whose chunks are in different lines: the program runs for each line.
    lanes: tuple[int, ...] = ()
    output_dims: tuple[int, ...] = ()  # the dimension of the inputs that each of an output is, else -1; () if the same
    #: Whether the input stays in memory until it is read again. Else it is read from another array then, and the
    #: supersteps before are in another layer. One task that has what all parts make would keep much of it in memory.
    held: bool = True
    again: str = field(default="", compare=False)  # the name of that array

    @property
    def takes_held_chunks(self) -> bool:
        """Whether held chunks become part of the tasks: all run in one process."""
        return self.driver == "threads"

    @property
    def first_tasks(self) -> int:
        return 0 if self.lanes else len(self.inputs[0].owned)

    @cached_property
    def _driver(self) -> KeptRuns | PlainTasks:
        if self.driver == "tasks":
            pace = self.pace or Pace(tuple((part,) for part in range(len(self.inputs[0].owned))))
            return PlainTasks(self.steps, self.groups, pace)
        counts = {"part": len(self.inputs[0].owned), "group": self.groups}
        turns = range(0 if self.held else self._first, len(self.steps))
        return KeptRuns(self.steps, self.driver == "kept", counts, turns, not self.held)

    @cached_property
    def _lines(self) -> dict[tuple[int, ...], dict[str, list[Owned]]]:
        """The chunks of each part and each group of each line."""
        found: dict[tuple[int, ...], dict[str, list[Owned]]] = {}
        counts = {"part": len(self.inputs[0].owned), "group": self.groups}
        for name, one in zip(self.names, self.inputs, strict=True):
            lines = defaultdict(list)
            for index, declared in zip(np.ndindex(*map(len, one.chunks)), one.declared, strict=True):
                lines[tuple(index[dim] for dim in self.lanes)].append(((name, *index), declared))
            for line, chunks in lines.items():
                owned = found.setdefault(line, {side: [[] for _ in range(count)] for side, count in counts.items()})
                for own, numbers in zip(owned[one.side], one.owned, strict=True):
                    own.extend(chunks[number] for number in numbers)
        return found

    @cached_property
    def _alone(self) -> set[int]:
        """Groups whose last superstep makes one chunk, of the only output."""
        if len(self.results) > 1 or self.driver == "threads":
            return set()
        return {group for group, (first, last, _, parts) in enumerate(self.contents) if last - first == parts == 1}

    @cached_property
    def _first(self) -> int:
        """How many supersteps are before the one that reads the inputs again."""
        return next((at for at, step in enumerate(self.steps) if step.rereads), 0)

    @property
    def first_decisions(self) -> tuple[str, Chunks]:
        """Name and chunks of an array of the decisions of each line before the inputs are read again."""
        lines = (len(self.inputs[0].chunks[dim]) for dim in self.lanes)
        return f"{self.steps[self._first - 1].listing}-{self.token}", (*((1,) * count for count in lines), (1,))

    def first_stages(self) -> Tasks:
        """Tasks from the input chunks to these decisions."""
        assert isinstance(self._driver, KeptRuns)
        return self._stages(replace(self._driver, turns=range(self._first)), NOTHING)

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the input chunks to the results; chunks in `held` become part of them."""
        return self._stages(self._driver, held)

    def _stages(self, driver: KeptRuns | PlainTasks, held: Mapping[Key, Any]) -> Tasks:
        tasks = Tasks(self.token)

        def blocks_of(own: Owned) -> Any:
            chunks = List(*(chunk_of((self.again or key[0], *key[1:]), held) for key, _ in own))
            return Task(None, Blocks, chunks, [one for _, one in own]) if own else None

        for tasks.line, owned in self._lines.items():
            blocks = {side: list(map(blocks_of, own)) for side, own in owned.items()}
            driver.add(tasks, blocks, self._alone)
        return tasks

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the results to the chunks of one output array."""
        tasks = Tasks(self.token)
        for tasks.line, owned in self._lines.items():
            self._output(tasks, owned, name, which, chunks)
        return tasks

    def _output(
        self, tasks: Tasks, owned: Mapping[str, Sequence[Owned]], name: str, which: int, chunks: Chunks
    ) -> None:
        """Add the chunks of one output array that a line makes."""
        at, array = self.results[which]
        step, line = self.steps[at], dict(zip(self.lanes, tasks.line, strict=True))
        if step.concludes:
            notes = tasks.refs(step.stage, range(len(self.inputs[0].owned)))
            found = tasks.ref(step.listing, 0) if step.listing else Task(None, conclude, step, notes)
            tasks.put(self._key(name, line, chunks), getitem, found, array)
        elif self.contents:
            self._divided(tasks, name, step.stage, array, chunks)
        elif own := next((one for one in self.inputs if one.side == step.side), None):
            for number, (numbers, given) in enumerate(zip(own.owned, owned[step.side], strict=True)):
                made = self._driver.made_by(tasks, step, number)
                for position, ((_, *index), _) in enumerate(given[: len(numbers)]):
                    key = self._key(name, dict(enumerate(index)), chunks)
                    tasks.put(key, turns.take_array, made, array, position)
        else:  # a group without chunks of its own has one of each result; a number is that of any group
            for number in range(self.groups if chunks else 1):
                key = self._key(name, {0: number, **line}, chunks)
                if step.stage:
                    tasks.put(key, turns.take_array, tasks.ref(step.stage, number), array, None)
                else:
                    self._driver.put_last(tasks, key, number, array)

    def _key(self, name: str, index: Mapping[int, int], chunks: Chunks) -> Key:
        """The key of an output chunk, from numbers of input chunks along some dimensions."""
        return (name, *(index.get(dim, 0) for dim in self.output_dims or range(len(chunks))))

    def _divided(self, tasks: Tasks, name: str, stage: str, array: int, chunks: Chunks) -> None:
        """Add the chunks of an array that are some of a group's rows, or the rows of some groups."""
        sizes, behind = chunks[0], (0,) * (len(chunks) - 1)
        unknown = any(map(math.isnan, sizes))
        for group, (first, last, part, parts) in enumerate(self.contents):
            made = tasks.ref(stage, group)
            if group in self._alone:
                self._driver.put_last(tasks, (name, first, *behind), group, array)
            elif parts > 1:
                if part == 0:
                    groups = tasks.refs(stage, range(group, group + parts))
                    tasks.put((name, first, *behind), turns.join_parts, groups, array)
            elif unknown:
                for chunk in range(first, last):
                    tasks.put((name, chunk, *behind), turns.take_unknown_part, made, array, first, chunk)
            else:
                ends = pairwise(accumulate(map(int, sizes[first:last]), initial=0))
                for chunk, end in zip(range(first, last), ends, strict=True):
                    tasks.put((name, chunk, *behind), turns.take_part, made, array, *end)


def recipe_of_lines(
    steps: tuple[Superstep, ...],
    results: int,
    arrays: Sequence[Any],
    lanes: tuple[int, ...] = (),
    output_dims: tuple[int, ...] = (),
) -> ProgramRecipe:
    """The recipe of a program without groups, whose last superstep makes some results of arrays: keys, then values.

    Each chunk of a line is a part.
    """
    keys = arrays[0]
    count = math.prod(blocks for dim, blocks in enumerate(keys.numblocks) if dim not in lanes)
    parts = tuple((part,) for part in range(count))
    inputs = [Input("the input", keys.dtype, keys.chunks, parts)]
    inputs += [Input(f"values {number}", None, value.chunks, parts) for number, value in enumerate(arrays[1:])]
    found = tuple(Result(len(steps) - 1, which) for which in range(results))
    names = tuple(array.name for array in arrays)
    return ProgramRecipe(steps, found, names, tuple(inputs), 0, "tasks", lanes=lanes, output_dims=output_dims)
