r"""A function of a whole array whose chunks share one memory: one task has all of them. Task ``<prefix>-join``.

::

    chunk 0   chunk 1   ...   chunk P-1
        \        |             /
             prefix-join                     concatenated, then the function makes one or several arrays
        /        |             \
    output chunk 0, 1, ..., C-1              views, in the input's chunks; or the arrays, in one chunk
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from dask.typing import Key

from ..chunk import complete, ops_for
from ._dask import List, Task, TaskRef
from .collection import Output, new_arrays
from .input_checks import checked_chunk, chunk_name
from .join import assemble, chunk_starts, output_parts
from .local_sort import NOTHING
from .recipe import ArrayRecipe, Chunks

#: A picklable function of an array that gives a tuple of arrays.
OfWhole = Callable[[Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Whole(ArrayRecipe):
    """Hold all that the tasks of one function of a whole array are made from."""

    function: OfWhole
    prefix: str  # of the name of its task
    names: tuple[str, ...]  # of the input
    chunks: Chunks  # sizes of the input, nan where unknown
    dtype: np.dtype[Any]  # of the input
    #: Whether each array has the shape of the input, and is divided into its chunks; else it is one chunk.
    divided: tuple[bool, ...]

    takes_held_chunks = True
    first_tasks = 1

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> dict[Key, Task]:
        """The one task; chunks in `held` become part of it."""
        keys: list[Key] = [(*self.names, *index) for index in np.ndindex(*map(len, self.chunks))]
        chunks = List(*(held[key] if key in held else TaskRef(key) for key in keys))
        return {self._key: Task(self._key, call_with_whole, chunks, self)}

    def output(self, name: str, which: int, chunks: Chunks, *, all_wanted: bool = False) -> dict[Key, Task]:
        """Tasks from the arrays to the chunks of one output array."""
        if self.divided[which]:
            return output_parts(name, which, self.chunks, TaskRef(self._key))
        key: Key = (name, *(0 for _ in chunks))
        return {key: Task(key, getitem, TaskRef(self._key), which)}

    @property
    def _key(self) -> Key:
        return (f"{self.prefix}-join-{self.token}", 0)


def call_with_whole(chunks: list[Any], whole: Whole) -> tuple[Any, ...]:
    """Task: the arrays that the function makes of all chunks; then the starts of the chunks in each dimension."""
    for index, chunk in zip(np.ndindex(*map(len, whole.chunks)), chunks, strict=True):
        checked_chunk(chunk, whole.dtype, chunk_name(index), ndim=len(whole.chunks))
    starts = chunk_starts([chunk.shape for chunk in chunks], whole.chunks)
    ops = ops_for(chunks[0])
    with ops.exclusive():
        found = whole.function(_joined(chunks, starts))
    complete(found[0])
    return (*found, starts)


def _joined(chunks: Sequence[Any], starts: Sequence[np.ndarray]) -> Any:
    """The whole array."""
    if len(chunks) == 1 or len(starts) > 1:
        return assemble(chunks, starts, len(starts) - 1)
    return ops_for(chunks[0]).concatenate(chunks)


def of_whole(array: Any, function: OfWhole, outputs: Sequence[tuple[bool, Any]], prefix: str) -> tuple[Any, ...]:
    """Make the arrays that a picklable function makes of a whole array, in one task.

    Each output says whether it has the shape and the chunks of the input, else it is one chunk of unknown size, and its
    dtype.
    """
    divided = tuple(is_divided for is_divided, _ in outputs)
    recipe = Whole(function, prefix, (array.name,), array.chunks, array.dtype, divided)
    made = [
        Output(
            np.empty_like(array._meta, shape=(0,) * (array.ndim if is_divided else 1), dtype=dtype),
            array.chunks if is_divided else ((math.nan,),),
        )
        for is_divided, dtype in outputs
    ]
    return new_arrays(recipe, [array], made, prefix)


def make_whole(array: Any, prefix: str) -> Any:
    """An array in one chunk, made by one task."""
    recipe = Whole(as_tuple, prefix, (array.name,), array.chunks, array.dtype, (False,))
    output = Output(array._meta, tuple((sum(sizes),) for sizes in array.chunks))
    return new_arrays(recipe, [array], [output], f"{prefix}-whole")[0]


def as_tuple(array: Any) -> tuple[Any]:
    """The array, as the only one of a tuple."""
    return (array,)
