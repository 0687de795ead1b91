r"""The first keys of every row: each chunk selects its own, and a tree of merges selects among them.

::

    chunk 0   chunk 1   chunk 2   chunk 3        of the keys and of each companion
       |         |         |         |
    top-select, one a chunk along the axis       its first keys, unsorted, with their positions and companions
         \\     /             \\     /
        top-merge             top-merge          concatenated, and selected again; none for few chunks
               \\             /
                 top-sort                        the last merge, sorted
                /        |     \\
           keys   positions   companions         one chunk each

The first keys of all chunks are among the first keys of each. Merges keep the order of chunks, and selections that of
equal keys, so the result is the beginning of a stable sort.

The chunks of one row that share a GPU are one array in one task.

Candidates are the keys, their positions, the companions, and how many keys along the axis they were selected from.
Positions count from the first of these, so no chunk size need be known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import getitem
from typing import Any, TypeAlias

import dask
import numpy as np
from tlz import partition_all

from ..chunk import complete, ops_for
from ..chunk.checks import checked_chunk, wrong_size
from ..drivers.one import call_with_whole
from ..graph._dask import List, TaskRef
from ..graph.collection import Output, new_arrays
from ..graph.inputs import companion
from ..graph.tasks import NOTHING, ArrayRecipe, Chunks, Tasks
from ..order import Order
from ..plan import Size
from .global_sort import joins_rows
from .request import Options

#: Keys, positions and companions of candidates, and the number of keys that they were selected from (see the module).
Candidates: TypeAlias = tuple[Any, ...]

#: Most candidates that one task merges where they have few keys. The task waits for all of them.
MOST_MERGED = 32


@dataclass(frozen=True)
class Wanted:
    """Say what tasks select."""

    order: Order  # the first keys in this order are selected
    count: int  # how many of each row
    axis: int
    length: Size  # keys of a row, nan if unknown


@dataclass(frozen=True)
class Top(ArrayRecipe):
    """Hold all that the tasks of one selection are made from."""

    wanted: Wanted
    names: tuple[str, ...]  # of the input arrays, keys first, all with the same chunks
    chunks: Chunks  # sizes in each dimension of the keys, nan where unknown
    extra_dims: tuple[int, ...]  # further dimensions of each input, one chunk each
    fan_in: int  # most candidates of chunks that one task merges, at least 2

    @property
    def _lines(self) -> Iterator[tuple[int, ...]]:
        """Indices of the chunks of all rows, with 0 along the axis."""
        axis = self.wanted.axis
        return iter(np.ndindex(*(1 if dim == axis else len(sizes) for dim, sizes in enumerate(self.chunks))))

    def stages(self, held: Any = NOTHING) -> Tasks:
        """Tasks from the input chunks to the sorted first keys of each row."""
        tasks = Tasks(self.token)
        for line in self._lines:
            self._tree(tasks, line)
        return tasks

    def _tree(self, tasks: Tasks, line: tuple[int, ...]) -> None:
        wanted, waiting = self.wanted, []
        before, behind = line[: wanted.axis], line[wanted.axis + 1 :]
        for number in range(len(self.chunks[wanted.axis])):
            index = (*before, number, *behind)
            inputs = zip(self.names, self.extra_dims, strict=True)
            chunks = [TaskRef((name, *index) + (0,) * extra) for name, extra in inputs]
            waiting.append(tasks.add("top-select", index, select_candidates, List(*chunks), wanted))
        level = 0
        while len(waiting) > self.fan_in:
            waiting = [
                tasks.add("top-merge", (level, *before, number, *behind), merge_candidates, List(*some), wanted)
                for number, some in enumerate(partition_all(self.fan_in, waiting))
            ]
            level += 1
        tasks.add("top-sort", line, sort_candidates, List(*waiting), wanted)

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the sorted first keys to the chunks of one output: the keys, the positions, or a companion."""
        tasks, behind = Tasks(self.token), (0,) * (len(chunks) - len(self.chunks))
        for line in self._lines:
            tasks.put((name, *line, *behind), getitem, tasks.ref("top-sort", *line), which)
        return tasks


def select_candidates(arrays: list[Any], wanted: Wanted) -> Candidates:
    """Task: the candidates of one chunk, from its keys and its companions."""
    keys, *values = arrays
    checked_chunk(keys, wanted.order.dtype)
    for number, value in enumerate(values):
        checked_chunk(value, None, f"a chunk of values {number}")
    ops = ops_for(keys)
    ops.check_lengths(keys, values, keys.ndim)
    indices = ops.first_indices(keys, wanted.order, wanted.count, wanted.axis)
    first, *moved = _take([keys, *values], indices, wanted.axis)
    return complete(first), indices, *moved, keys.shape[wanted.axis]


def merge_candidates(parts: list[Candidates], wanted: Wanted) -> Candidates:
    """Task: the candidates of neighbours along the axis, as those of one chunk."""
    if len(parts) == 1:
        return parts[0]
    starts = list(accumulate((part[-1] for part in parts), initial=0))
    moved = [(part[0], part[1] + start, *part[2:-1]) for part, start in zip(parts, starts, strict=False)]
    arrays = [_concatenate(column, wanted.axis) for column in zip(*moved, strict=True)]
    indices = ops_for(arrays[0]).first_indices(arrays[0], wanted.order, wanted.count, wanted.axis)
    first, *rest = _take(arrays, indices, wanted.axis)
    return complete(first), *rest, starts[-1]


def sort_candidates(parts: list[Candidates], wanted: Wanted) -> tuple[Any, ...]:
    """Task: sort the first keys of the rows of all parts, then their positions and the companions."""
    *arrays, length = merge_candidates(parts, wanted)
    if length != wanted.length and not math.isnan(wanted.length):
        raise wrong_size(f"the chunks of the input have {length} keys along axis {wanted.axis}", wanted.length)
    indices = ops_for(arrays[0]).argsort_rows(arrays[0], wanted.order, wanted.axis)
    first, *rest = _take(arrays, indices, wanted.axis)
    return complete(first), *rest


@dataclass(frozen=True)
class TopOfWhole:
    """Select the first keys of each row of a whole array, sorted, and their positions."""

    wanted: Wanted

    def __call__(self, array: Any) -> tuple[Any, ...]:
        return sort_candidates([select_candidates([array], self.wanted)], self.wanted)


def _concatenate(arrays: Sequence[Any], axis: int) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    moved = [np.moveaxis(array, axis, 0) for array in arrays]  # CuPy's own, for CuPy arrays
    return np.moveaxis(ops_for(arrays[0]).concatenate(moved), 0, axis)


def _take(arrays: Sequence[Any], indices: Any, axis: int) -> list[Any]:
    """The elements at indices along an axis; of arrays with more dimensions whole rows."""
    ops = ops_for(indices)
    return [
        array.take(indices, axis=0) if array.ndim > indices.ndim else ops.take_rows(array, indices, axis)
        for array in arrays
    ]


def select_top(array: Any, values: Sequence[Any], k: int, axis: int, split_every: int | None) -> tuple[Any, ...]:
    """Select the first keys of each row, their positions, and the companions at these positions.

    A positive `k` selects in descending order, a negative one in ascending order; a task merges `split_every`
    candidates at most.
    """
    options = Options(descending=k > 0)
    keys = options.keys(array, "positions")
    Options().check(keys)
    inputs = [array, *(companion(array, value, number) for number, value in enumerate(values))]
    top = Top(
        wanted=Wanted(keys.order, abs(k), axis, length := sum(array.chunks[axis])),
        names=tuple(one.name for one in inputs),
        chunks=array.chunks,
        extra_dims=tuple(one.ndim - array.ndim for one in inputs),
        fan_in=split_every or _fan_in(array.chunks[axis], abs(k)),
    )
    size = length if math.isnan(length) else min(abs(k), length)
    chunks = (*array.chunks[:axis], (size,), *array.chunks[axis + 1 :])
    positions = Output(np.empty_like(array._meta, shape=(0,) * array.ndim, dtype=np.int64), chunks)
    first, *moved = (Output(one._meta, (*chunks, *one.chunks[array.ndim :])) for one in inputs)
    if array.ndim == 1 and not values and joins_rows(options.request("positions", keys), keys, ()):
        return call_with_whole(array, TopOfWhole(top.wanted), [first, positions], (False, False), "top", "top")
    return new_arrays(top, inputs, [first, positions, *moved], "top")


def _fan_in(sizes: Sequence[Size], count: int) -> int:
    """Candidates that one task merges: together no more keys than a chunk has, or Dask's number of them."""
    least = dask.config.get("split_every", 4)
    largest = max(sizes)
    return least if math.isnan(largest) else max(least, min(MOST_MERGED, int(largest) // max(1, count)))
