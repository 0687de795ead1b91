"""The join: all chunks of a sort in one task. Task ``sort-local``.

Equal keys keep the order of their chunks, so the result has the same bits as every exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tlz import partition

from ...chunk import complete, ops_for
from ..in_one_task import assemble, chunk_starts
from ..tasks import Chunks
from .finish import Finish
from .local import LocalSort, check_presorted, checked_block, chunk_origins
from .scatter import own_pieces


@dataclass(frozen=True)
class JoinedSort:
    """Sort chunks that are joined: a function that can be pickled."""

    local: LocalSort
    finish: Finish
    axis: int
    arrays: int  # of each chunk: the keys and the companions, or several arrays of keys
    presorted: tuple[tuple[int, int], ...] = ()  # as in `SortRecipe`

    def __call__(self, chunks: list[Any], sizes: Chunks) -> tuple[Any, ...]:
        """Task: concatenate all chunks and sort them, into whole arrays and the chunks' starts in each dimension."""
        ops, order = ops_for(chunks[0]), self.local.order
        blocks = [
            checked_block(block, order, self.local.packed, f"chunk {number} of the input", len(sizes))
            for number, block in enumerate(partition(self.arrays, chunks))
        ]
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

    def _merge(self, blocks: Sequence[Sequence[Any]], starts: np.ndarray) -> tuple[Any, ...]:
        sources = zip(blocks, chunk_origins(self.presorted), strict=True)
        runs = [check_presorted(*block, order=self.local.order, origin=origin) for block, origin in sources]
        return self.finish(own_pieces(list(zip(map(int, starts), runs, strict=False))), slice(0, int(starts[-1])))

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
