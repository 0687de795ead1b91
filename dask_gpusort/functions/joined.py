"""All chunks of one memory in one task, the join.

A join keeps equal keys in the order of their chunks, so the result has the same bits as every exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tlz import partition

from ..chunk import complete, ops_for
from ..chunk.checks import DeclaredChunk, checked_chunk, declared_chunks
from ..chunk.grid import assemble, chunk_starts
from ..chunk.steps import check_key_shapes
from .sort import Finish, LocalSort, check_presorted


@dataclass(frozen=True)
class JoinedSort:
    """Sort chunks that are joined: a function that can be pickled."""

    local: LocalSort
    finish: Finish
    axis: int
    #: For presorted chunks, the name of each user's array, and how many chunks it has; else empty.
    presorted: tuple[tuple[str, int], ...] = ()

    def __call__(self, chunks: list[Any], sizes: Sequence[Sequence[float]]) -> tuple[Any, ...]:
        """Task: concatenate all chunks and sort them, into whole arrays and the chunks' starts in each dimension."""
        ops = ops_for(chunks[0])
        columns = zip(partition(self.local.arrays, chunks), declared_chunks("the input", None, sizes), strict=True)
        blocks = [self._checked(block, declared) for block, declared in columns]
        starts = chunk_starts([block[0].shape for block in blocks], sizes)
        with ops.exclusive():
            if self.presorted:
                found = self._merge(blocks, starts[0])
            elif len(sizes) == 1:
                found = self._sort_array(list(zip(*blocks, strict=True)))
            else:
                found = self._sort_rows(list(zip(*blocks, strict=True)), starts)
        complete(found[0])
        return (*found, starts)

    def _checked(self, block: Sequence[Any], declared: DeclaredChunk) -> Sequence[Any]:
        """Refuse masked keys and companions, keys whose dtype is not that of their array, and sizes that differ.

        A block has the keys and the companions of one chunk, or several arrays of keys, given as they are packed.
        """
        packed, order = self.local.packed, self.local.order
        if packed:
            parts = zip(block, packed, strict=True)
            block = [replace(declared, dtype=dtype, exact=True).check(part) for part, dtype in parts]
            check_key_shapes(block)
            return block
        # The words of a key are one more dimension.
        words = (order.words,) if order.words else ()
        replace(declared, dtype=order.dtype.base, shape=(*declared.shape, *words)).check(block[0])
        for number, value in enumerate(block[1:]):
            checked_chunk(value, None, f"a chunk of values {number}")
        ops_for(block[0]).check_lengths(block[0], block[1:], len(declared.shape))
        return block

    def _merge(self, blocks: Sequence[Sequence[Any]], starts: np.ndarray) -> tuple[Any, ...]:
        names = [f"chunk {chunk} of {array}" for array, chunks in self.presorted for chunk in range(chunks)]
        pairs = zip(blocks, names, strict=True)
        runs = [check_presorted(*block, order=self.local.order, name=name) for block, name in pairs]
        pieces = [(int(start), run) for start, run in zip(starts, runs, strict=False) if len(run)] or [(0, runs[0])]
        # The finish may write to a piece; several are copied anyway.
        pieces = pieces if len(pieces) > 1 else [(start, run.copy()) for start, run in pieces]
        return self.finish(pieces, slice(0, int(starts[-1])))

    def _sort_array(self, columns: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        ops, order = ops_for(columns[0][0]), self.local.order
        keys, *values = columns
        if self.local.packed:
            keys, values = [ops.pack(list(map(ops.concatenate, columns)), self.local.directions)], []
        if self.local.positions:
            return (ops.argsort_chunks(keys, order),)
        if not values:
            return (ops.sort_chunks(keys, order),)
        found: tuple[Any, ...] = ops.sort_chunks_by_key(keys, values, order, with_keys=self.finish.with_keys)
        return found

    def _sort_rows(self, columns: Sequence[Sequence[Any]], starts: Sequence[np.ndarray]) -> tuple[Any, ...]:
        ops, order, axis = ops_for(columns[0][0]), self.local.order, self.axis
        keys, *values = (assemble(column, starts, axis) for column in columns)
        if self.local.packed:
            keys, values = ops.pack([keys, *values], self.local.directions), []
        if self.finish.with_keys and not values:
            return (ops.sort_rows(keys, order, axis, overwrite=len(columns[0]) > 1),)
        positions = ops.argsort_rows(keys, order, axis)
        if self.local.positions:
            return (positions,)
        arrays = (keys, *values) if self.finish.with_keys else values
        return tuple(ops.take_rows(array, positions, axis) for array in arrays)
