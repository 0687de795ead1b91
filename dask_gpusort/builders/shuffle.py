"""Random orders: the positions that sort random keys.

The key of a position is an output of a counter-based generator, so a block's keys need its start alone, and neither
chunks nor libraries change them. Each library makes and sorts its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.tokenize import tokenize

from ..chunk import complete, library_of, ops_for
from ..graph.inputs import output_chunks, rechunk
from .positions import build_take
from .request import Options
from .sort import build_sort


def build_permutation(size: int, chunks: Any, seed: int) -> Any:
    """A random order of positions, which depends on their number and the seed."""
    (sizes,) = output_chunks(da.empty(size, chunks=-1, dtype=np.int64), chunks)
    return _order(sizes, seed, np.empty(0))


def _order(sizes: Sequence[int], seed: int, like: Any) -> Any:
    """A random order of positions, in chunks of the library of `like`."""
    # Named here: Dask would make the name without the chunks.
    name = f"random-keys-{tokenize(sizes, seed, library_of(like))}"
    meta, draw = np.empty_like(like, shape=(0,), dtype=np.uint64), ops_for(like).random_keys
    keys = da.map_blocks(draw_keys, draw, seed, chunks=(sizes,), dtype=np.uint64, meta=meta, name=name)
    return build_sort(Options(), "positions", keys, axis=0)[0]


def draw_keys(draw: Callable[[int, int, int], Any], seed: int, block_info: Any) -> Any:
    """Task: the keys of a chunk of positions."""
    ((start, stop),) = block_info[None]["array-location"]
    return complete(draw(start, stop - start, seed))


def build_shuffle(arrays: list[Any], axes: list[int], seed: int) -> list[Any]:
    """Arrays of one size along their axes, in one random order, each in its chunks."""
    sizes = arrays[0].chunks[axes[0]]
    likes = {library_of(array._meta): array._meta for array in arrays}
    orders = {library: _order(sizes, seed, like) for library, like in likes.items()}
    return [
        build_take(array, rechunk(orders[library_of(array._meta)], (array.chunks[axis],)), axis, "raise")
        for array, axis in zip(arrays, axes, strict=True)
    ]
