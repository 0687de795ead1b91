"""The chunks of an array of any dimensions, as a grid: where they begin, all as one array, and parts of this."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from . import library_of, ops_for
from .checks import wrong_size


def chunk_starts(shapes: Sequence[Sequence[int]], chunks: Sequence[Sequence[float]]) -> list[np.ndarray]:
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


def assemble(blocks: Sequence[Any], starts: Sequence[np.ndarray], axis: int) -> Any:
    """The whole array of a grid of chunks in C order, with the elements of a row along `axis` next to each other."""
    if len(blocks) == 1:
        return blocks[0]
    ops, dims = ops_for(blocks[0]), len(starts)
    shape = (*(int(ends[-1]) for ends in starts), *blocks[0].shape[dims:])
    stored = [*(dim for dim in range(dims) if dim != axis), axis, *range(dims, len(shape))]
    dtypes = {block.dtype for block in blocks}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.result_type(*dtypes)
    whole = np.empty_like(blocks[0], shape=tuple(shape[dim] for dim in stored), dtype=dtype, order="C")
    whole = whole.transpose(np.argsort(stored).tolist())
    for index, block in zip(np.ndindex(*(len(ends) - 1 for ends in starts)), blocks, strict=True):
        ops.paste(block, whole[part_of(starts, index)])
    return whole


def join_chunks(blocks: Sequence[Any], starts: Sequence[np.ndarray]) -> Any:
    """The whole array of a grid of chunks in C order, in C order."""
    alone = len(blocks) == 1 or len(starts) > 1
    return assemble(blocks, starts, len(starts) - 1) if alone else ops_for(blocks[0]).concatenate(blocks)


def part_of(starts: Sequence[np.ndarray], index: Sequence[int]) -> tuple[slice, ...]:
    """Where one chunk of a grid is in the whole array."""
    return tuple(slice(*ends[i : i + 2]) for ends, i in zip(starts, index, strict=True))


def cut_part(array: Any, part: Any) -> Any:
    """A part of an array; less than half of it is copied, as a view would keep the whole in memory."""
    cut = array[part]
    return cut.copy() if library_of(array) == "numpy" and array.nbytes > 2 * cut.nbytes else cut


def in_shapes(rows: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Parts of some rows, one for each shape, without copies."""
    ends = pairwise(accumulate(map(math.prod, shapes), initial=0))
    return [rows[slice(*end)].reshape((*shape, *rows.shape[1:])) for end, shape in zip(ends, shapes, strict=True)]
