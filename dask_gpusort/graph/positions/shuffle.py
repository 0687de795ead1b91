"""Random orders: the positions that sort random keys.

The key of a position is an output of a counter-based generator, so a block's keys need its start alone, and neither
chunks nor libraries change them. They are made and sorted on the host.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from ...chunk import library_of, ops_for
from ..inputs import output_chunks, rechunk
from ..sort.build import build_sort
from ..sort.request import Options
from .take_and_put import build_take

#: Keys of 64 bits that Philox makes for one value of its counter.
KEYS_PER_COUNT = 4


def build_permutation(size: int, chunks: Any, seed: int) -> Any:
    """A random order of positions, which depends on their number and the seed."""
    template = da.empty(size, chunks=-1, dtype=np.int64)
    positions = da.arange(size, chunks=output_chunks(template, chunks), dtype=np.int64)
    keys = positions.map_blocks(random_keys, seed=seed, dtype=np.uint64, meta=np.empty(0, np.uint64))
    return build_sort(Options(), "positions", keys, axis=0)[0]


def random_keys(positions: Any, seed: int) -> Any:
    """Task: the keys of consecutive positions."""
    count, offset = divmod(int(positions[0]) if len(positions) else 0, KEYS_PER_COUNT)
    generator = np.random.Philox(np.random.SeedSequence(seed)).advance(count)
    return generator.random_raw(offset + len(positions))[offset:]


def build_shuffle(arrays: list[Any], axes: list[int], seed: int) -> list[Any]:
    """Arrays of one size along their axes, in one random order, each in its chunks."""
    first = arrays[0]
    order = build_permutation(first.shape[axes[0]], (first.chunks[axes[0]],), seed)
    return [_taken(array, order, axis) for array, axis in zip(arrays, axes, strict=True)]


def _taken(array: Any, order: Any, axis: int) -> Any:
    indices = rechunk(order, (array.chunks[axis],))
    if library_of(array._meta) != "numpy":
        like = np.empty_like(array._meta, shape=(0,), dtype=np.int64)
        indices = indices.map_blocks(ops_for(array._meta).from_host, dtype=np.int64, meta=like)
    return build_take(array, indices, axis, "raise")
