r"""The driver of chunks that share one memory: one task has all of them, or all of some lanes. Nothing is exchanged.

::

    chunk 0   chunk 1   ...   chunk P-1
        \        |             /
              one task                       concatenated along every dimension, for one call
        /        |             \
    output chunk 0, 1, ..., C-1              views

In one memory an exchange only makes work: every key would be sorted in its chunk, then again in its group, and each
step would wait for the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import getitem
from typing import Any, TypeAlias

import numpy as np
from dask.typing import Key
from tlz import concat

from ..chunk import complete, ops_for
from ..chunk.checks import Blocks, declared_chunks
from ..chunk.grid import chunk_starts, cut_part, join_chunks, part_of
from ..graph._dask import List, TaskRef, slices_from_chunks
from ..graph.collection import Output, new_arrays
from ..graph.tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunk_of, take_chunk

#: A picklable function of chunks in C order, each array's of the first one, then of the next one, and of their sizes in
#: each dimension. Gives arrays; behind those that are divided, the starts of the chunks in each dimension.
OfChunks: TypeAlias = Callable[[list[Any], Chunks], tuple[Any, ...]]
#: A picklable function of an array that gives a tuple of arrays.
OfWhole: TypeAlias = Callable[[Any], tuple[Any, ...]]


@dataclass(frozen=True)
class InOneTask(ArrayRecipe):
    """Hold all that the tasks are made from that have all chunks each, or all chunks of some lanes."""

    function: OfChunks
    stage: str  # the name of the tasks
    names: tuple[str, ...]  # of the input arrays, all with the same chunks, and of the `others`
    chunks: Chunks  # sizes in each dimension of the inputs, nan where unknown
    extra_dims: tuple[int, ...] = (0,)  # further dimensions of each input, one chunk each
    #: Whether each array has the shape of the input, and is divided into chunks; others are one chunk of each task.
    divided: tuple[bool, ...] = (False,)
    lanes: tuple[int, ...] = ()  # dimensions whose chunks have different lanes, and tasks
    output_dims: tuple[int, ...] = ()  # for lanes, the dimension of the input that each of an output is; else -1
    #: Numbers of chunks of the last inputs, all of which follow the others. Each makes one chunk of each output.
    others: tuple[tuple[int, ...], ...] = ()

    takes_held_chunks = True

    @property
    def first_tasks(self) -> int:
        return math.prod(len(self.chunks[dim]) for dim in self.lanes)

    @property
    def _groups(self) -> Iterator[dict[int, int]]:
        """The chunks that each task has, by number along the dimensions of lanes."""
        for index in np.ndindex(*(len(self.chunks[dim]) for dim in self.lanes)):
            yield dict(zip(self.lanes, index, strict=True))

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """The tasks; chunks in `held` become part of them."""
        tasks = Tasks(self.token)
        for own in self._groups:
            ranges = [[own[dim]] if dim in own else range(len(sizes)) for dim, sizes in enumerate(self.chunks)]
            arrays = list(zip(self.names, self.extra_dims, strict=False))
            behind = zip(self.names[len(arrays) :], self.others, strict=True)
            keys: list[Any] = [
                *((name, *index, *(0,) * extra) for index in product(*ranges) for name, extra in arrays),
                *((name, *index) for name, blocks in behind for index in np.ndindex(blocks)),
            ]
            sizes = tuple((sizes[own[dim]],) if dim in own else sizes for dim, sizes in enumerate(self.chunks))
            tasks.add(self.stage, self._index(own), self.function, List(*(chunk_of(key, held) for key in keys)), sizes)
        return tasks

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the arrays to the chunks of one output array."""
        tasks = Tasks(self.token)
        if self.others:
            for number, at in enumerate(np.ndindex(*map(len, chunks))):
                tasks.put((name, *at), take_chunk, tasks.ref(self.stage, 0), which, number)
            return tasks
        if self.divided[which]:
            _divide(tasks, name, which, chunks, tasks.ref(self.stage, 0), len(self.chunks))
            return tasks
        for own in self._groups:
            index = (own.get(dim, 0) for dim in self.output_dims or range(len(chunks)))
            tasks.put((name, *index), getitem, tasks.ref(self.stage, *self._index(own)), which)
        return tasks

    @staticmethod
    def _index(own: dict[int, int]) -> tuple[int, ...]:
        return tuple(own.values()) or (0,)


def _divide(tasks: Tasks, name: str, which: int, chunks: Chunks, made: TaskRef, dims: int) -> None:
    """Add the chunks of whole array number `which` of a task, divided along its first `dims` dimensions."""
    behind, grid = (0,) * (len(chunks) - dims), chunks[:dims]
    indices = list(np.ndindex(*map(len, grid)))
    if any(map(math.isnan, concat(grid))):
        for index in indices:
            tasks.put((name, *index, *behind), take_unknown, made, which, index)
    else:
        for index, part in zip(indices, slices_from_chunks(grid), strict=True):
            tasks.put((name, *index, *behind), take_part, made, which, part)


def take_part(made: tuple[Any, ...], which: int, part: Any) -> Any:
    """Task: one output chunk out of a whole array."""
    return cut_part(made[which], part)


def take_unknown(joined: tuple[Any, ...], which: int, index: tuple[int, ...]) -> Any:
    """Task: one output chunk of unknown size: it has the size of the input chunk of the same number."""
    return take_part(joined, which, part_of(joined[-1], index))


@dataclass(frozen=True)
class CallWithWhole:
    """Call a function with the whole array."""

    function: OfWhole
    dtype: np.dtype[Any]

    def __call__(self, chunks: list[Any], sizes: Chunks) -> tuple[Any, ...]:
        """Task: the arrays that the function makes; then the starts of the chunks in each dimension."""
        chunks = Blocks(chunks, declared_chunks("the input", self.dtype, sizes)).checked()
        starts = chunk_starts([chunk.shape for chunk in chunks], sizes)
        with ops_for(chunks[0]).exclusive():
            found = self.function(join_chunks(chunks, starts))
        complete(found[0])
        return (*found, starts)


def of_whole(array: Any, function: OfWhole, outputs: Sequence[tuple[bool, Any]], prefix: str) -> tuple[Any, ...]:
    """Make the arrays that a picklable function makes of a whole array, in one task.

    Each output says whether it has the shape and the chunks of the input, else it is one chunk of unknown size, and its
    dtype.
    """
    made = [
        Output(
            np.empty_like(array._meta, shape=(0,) * (array.ndim if is_divided else 1), dtype=dtype),
            array.chunks if is_divided else ((math.nan,),),
        )
        for is_divided, dtype in outputs
    ]
    return call_with_whole(array, function, made, tuple(is_divided for is_divided, _ in outputs), prefix, prefix)


def make_whole(array: Any, prefix: str) -> Any:
    """An array in one chunk, made by one task."""
    output = Output(array._meta, tuple((sum(sizes),) for sizes in array.chunks))
    return call_with_whole(array, as_tuple, [output], (False,), prefix, f"{prefix}-whole")[0]


def call_with_whole(
    array: Any, function: OfWhole, outputs: Sequence[Output], divided: tuple[bool, ...], prefix: str, name: str
) -> tuple[Any, ...]:
    """Make arrays as `of_whole`, of which those that are not divided have the sizes that they say."""
    call = CallWithWhole(function, array.dtype)
    recipe = InOneTask(call, f"{prefix}-join", (array.name,), array.chunks, divided=divided)
    return new_arrays(recipe, [array], outputs, name)


def as_tuple(array: Any) -> tuple[Any]:
    """The array, as the only one of a tuple."""
    return (array,)
