r"""The join: chunks that share one memory are concatenated and sorted once, in one task. Nothing is exchanged.

::

    chunk 0   chunk 1   ...   chunk P-1       of the keys and of each companion
        \\        |             /
               sort-local                     concatenated along every dimension, sorted by one call
        /        |             \
    output chunk 0, 1, ..., C-1               views

In one memory an exchange only makes work: every key would be sorted in its chunk, then again in its group, and each
step would wait for the host. Equal keys keep the order of their chunks, so the result has the same bits as every
exchange.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from dask.typing import Key
from tlz import concat, partition

from ..chunk import complete, ops_for
from ..order import Order
from ._dask import List, Task, TaskRef, slices_from_chunks
from .cut_runs import own_pieces
from .finish import Finish, cut_part
from .input_checks import wrong_size
from .local_sort import NOTHING, check_presorted, checked_block, chunk_origins
from .recipe import ArrayRecipe, Chunks


@dataclass(frozen=True)
class Join(ArrayRecipe):
    """Hold all that the tasks of one joined sort are made from."""

    order: Order
    with_keys: bool  # whether the outputs are, or begin with, the sorted keys
    with_positions: bool  # whether they are positions along the axis
    axis: int
    names: tuple[str, ...]  # of the input arrays, keys first, all with the same chunks
    chunks: Chunks  # sizes in each dimension of the keys, nan where unknown; without the dimension of words
    extra_dims: tuple[int, ...]  # further dimensions of each input, one chunk each
    presorted: tuple[tuple[int, int], ...] = ()  # as in `Recipe`
    #: Dtypes of several arrays of keys, most significant first, which are packed when they are whole; else empty.
    packed: tuple[np.dtype[Any], ...] = ()
    directions: tuple[bool, ...] = ()  # whether each of them descends

    @property
    def numblocks(self) -> tuple[int, ...]:
        """Chunks in each dimension."""
        return tuple(map(len, self.chunks))

    takes_held_chunks = True
    first_tasks = 1

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> dict[Key, Task]:
        """The one task that sorts; chunks in `held` become part of it."""
        keys = (
            (name, *index) + (0,) * extra
            for index in np.ndindex(self.numblocks)
            for name, extra in zip(self.names, self.extra_dims, strict=True)
        )
        chunks = [held[key] if key in held else TaskRef(key) for key in keys]
        task = Task(self._sorted, sort_joined, List(*chunks), self)
        return {task.key: task}

    def output(self, name: str, which: int, chunks: Chunks, *, all_wanted: bool = False) -> dict[Key, Task]:
        """Tasks from the sorted arrays to the chunks of one output array."""
        return output_parts(name, which, chunks, TaskRef(self._sorted), len(self.chunks))

    @property
    def _sorted(self) -> Key:
        return (f"sort-local-{self.token}", 0)


def output_parts(name: str, which: int, chunks: Chunks, joined: TaskRef, dims: int | None = None) -> dict[Key, Task]:
    """Make tasks that divide whole array number `which` of a task, or its first `dims` dimensions, into chunks.

    The task `joined` gives whole arrays, then the starts of the input's chunks.
    """
    behind = (0,) * (0 if dims is None else len(chunks) - dims)
    grid = chunks[:dims]
    indices = product(*(range(len(sizes)) for sizes in grid))
    if any(map(math.isnan, concat(grid))):
        tasks = [Task((name, *index, *behind), take_unknown, joined, which, index) for index in indices]
    else:
        parts = zip(indices, slices_from_chunks(grid), strict=True)
        tasks = [Task((name, *index, *behind), take, joined, which, part) for index, part in parts]
    return {task.key: task for task in tasks}


def sort_joined(chunks: list[Any], join: Join) -> tuple[Any, ...]:
    """Task: concatenate all chunks and sort them, into whole output arrays and the chunks' starts in each dimension.

    `chunks` has the keys and the companions of the first chunk, then of the next one, in C order.
    """
    ops = ops_for(chunks[0])
    blocks = [
        checked_block(block, join.order, join.packed, f"chunk {number} of the input", len(join.chunks))
        for number, block in enumerate(partition(len(join.names), chunks))
    ]
    starts = chunk_starts([block[0].shape for block in blocks], join.chunks)
    with ops.exclusive():
        if join.presorted:
            found = _merge(blocks, starts[0], join)
        elif len(join.chunks) == 1:
            found = _sort_array(list(zip(*blocks, strict=True)), join)
        else:
            found = _sort_rows(list(zip(*blocks, strict=True)), starts, join)
    complete(found[0])
    return (*found, starts)


def chunk_starts(shapes: Sequence[Sequence[int]], chunks: Chunks) -> list[np.ndarray]:
    """Find where the chunks of each dimension begin, and the end of the last, from the shapes of chunks in C order.

    Each must have the size that its array says, and that of the chunks beside it.
    """
    grid = np.array([shape[: len(chunks)] for shape in shapes], np.int64)
    grid = grid.reshape(*map(len, chunks), len(chunks))
    starts = []
    for dim, expected in enumerate(chunks):
        found = np.moveaxis(grid[..., dim], dim, 0).reshape(len(expected), -1)
        sizes = np.where(np.isnan(expected), found[:, 0], expected)
        wrong = np.argwhere(found != sizes[:, None])
        if len(wrong):
            number, other = wrong[0]
            what = f"chunk {number} of the input has {found[number, other]} keys"
            raise wrong_size(what if len(chunks) == 1 else f"{what} along axis {dim}", sizes[number])
        starts.append(np.concatenate([[0], np.cumsum(found[:, 0])]))
    return starts


def _merge(blocks: Sequence[Sequence[Any]], starts: np.ndarray, join: Join) -> tuple[Any, ...]:
    sources = zip(blocks, chunk_origins(join.presorted), strict=True)
    runs = [check_presorted(*block, order=join.order, origin=origin) for block, origin in sources]
    finish = Finish(join.order, join.with_keys, join.with_positions)
    return finish(own_pieces(list(zip(map(int, starts), runs, strict=False))), slice(0, int(starts[-1])))


def _sort_array(columns: Sequence[Sequence[Any]], join: Join) -> tuple[Any, ...]:
    ops = ops_for(columns[0][0])
    keys, *values = columns
    if join.packed:
        keys, values = [ops.pack(list(map(ops.concatenate, columns)), join.directions)], []
    if join.with_positions:
        return (ops.argsort_chunks(keys, join.order),)
    if not values:
        return (ops.sort_chunks(keys, join.order),)
    found: tuple[Any, ...] = ops.sort_chunks_by_key(keys, values, join.order, with_keys=join.with_keys)
    return found


def _sort_rows(columns: Sequence[Sequence[Any]], starts: Sequence[np.ndarray], join: Join) -> tuple[Any, ...]:
    ops = ops_for(columns[0][0])
    keys, *values = (assemble(column, starts, join.axis) for column in columns)
    if join.packed:
        keys, values = ops.pack([keys, *values], join.directions), []
    if join.with_keys and not values:
        return (ops.sort_rows(keys, join.order, join.axis, overwrite=len(columns[0]) > 1),)
    positions = ops.argsort_rows(keys, join.order, join.axis)
    if join.with_positions:
        return (positions,)
    arrays = (keys, *values) if join.with_keys else values
    return tuple(ops.take_rows(array, positions, join.axis) for array in arrays)


def assemble(blocks: Sequence[Any], starts: Sequence[np.ndarray], axis: int) -> Any:
    """The whole array of a grid of chunks in C order, with the elements of a row along `axis` next to each other."""
    if len(blocks) == 1:
        return blocks[0]
    ops, dims = ops_for(blocks[0]), len(starts)
    shape = (*(int(ends[-1]) for ends in starts), *blocks[0].shape[dims:])
    stored = [*(dim for dim in range(dims) if dim != axis), axis, *range(dims, len(shape))]
    dtypes = {block.dtype for block in blocks}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)
    whole = ops.empty(dtype, tuple(shape[dim] for dim in stored))
    whole = whole.transpose(np.argsort(stored).tolist())
    for index, block in zip(np.ndindex(*(len(ends) - 1 for ends in starts)), blocks, strict=True):
        ops.paste(block, whole[_part(starts, index)])
    return whole


def _part(starts: Sequence[np.ndarray], index: Sequence[int]) -> tuple[slice, ...]:
    """Where one chunk of a grid is in the whole array."""
    return tuple(slice(*ends[i : i + 2]) for ends, i in zip(starts, index, strict=True))


def take(joined: tuple[Any, ...], which: int, part: tuple[slice, ...]) -> Any:
    """Task: one output chunk."""
    return cut_part(joined[which], part)


def take_unknown(joined: tuple[Any, ...], which: int, index: tuple[int, ...]) -> Any:
    """Task: one output chunk of unknown size: it has the size of the input chunk of the same number."""
    return cut_part(joined[which], _part(joined[-1], index))
