r"""The first keys of every row, as a program: each part selects its own, and they are merged some at a time.

::

    part        Select      its first keys, unsorted, with their positions and companions: the note
                    |
    notes       combined    concatenated, and selected again
                    |
    decision                the last merge, sorted: the results

The first keys of all chunks are among the first keys of each. Merges keep the order of chunks, and selections that of
equal keys, so the result is the beginning of a stable sort.

Positions count from the first of the keys that candidates were selected from, so no chunk size need be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..chunk import complete, ops_for
from ..order import Order
from .program import Given, Made, Superstep

#: Keys, positions and companions of candidates, and how many keys along the axis they were selected from, shape (1,).
Candidates: TypeAlias = list[Any]


@dataclass(frozen=True)
class Select(Superstep):
    """Select the candidates of a part."""

    stage = "top-select"
    combining = "top-merge"
    listing = "top-sort"
    concludes = True

    order: Order  # the first keys in this order are selected
    count: int  # how many of each row
    axis: int
    fan_in: int

    def work(self, given: Given) -> Made:
        keys, *values = given.blocks
        ops = ops_for(keys)
        ops.check_lengths(keys, values, keys.ndim)
        indices = ops.first_indices(keys, self.order, self.count, self.axis)
        first, *moved = _take([keys, *values], indices, self.axis)
        return Made([first, indices, *moved, np.full_like(indices, keys.shape[self.axis], shape=(1,))])

    def combine(self, notes: Sequence[Candidates]) -> Candidates:
        if len(notes) == 1:
            return notes[0]
        sizes = np.concatenate([note[-1] for note in notes])
        starts = np.cumsum(sizes) - sizes
        parts = [(note[0], note[1] + start, *note[2:-1]) for note, start in zip(notes, starts, strict=True)]
        arrays = [_concatenate(column, self.axis) for column in zip(*parts, strict=True)]
        indices = ops_for(sizes).first_indices(arrays[0], self.order, self.count, self.axis)
        first, *rest = _take(arrays, indices, self.axis)
        return [complete(first), *rest, sizes.sum(keepdims=True)]

    def decide(self, notes: Sequence[Candidates], decision: Any) -> tuple[Any, ...]:
        *arrays, _ = self.combine(notes)
        indices = ops_for(arrays[0]).argsort_rows(arrays[0], self.order, self.axis)
        first, *rest = _take(arrays, indices, self.axis)
        return complete(first), *rest

    def of_whole(self, array: Any) -> tuple[Any, ...]:
        """The first keys of each row of a whole array, and their positions."""
        return self.decide([self.work(Given(0, None, [array])).note], None)


def _concatenate(arrays: Sequence[Any], axis: int) -> Any:
    moved = [np.moveaxis(array, axis, 0) for array in arrays]  # CuPy's own, for CuPy arrays
    return np.moveaxis(ops_for(arrays[0]).concatenate(moved), 0, axis)


def _take(arrays: Sequence[Any], indices: Any, axis: int) -> list[Any]:
    """The elements at indices along an axis; of arrays with more dimensions whole rows."""
    ops = ops_for(indices)
    return [
        array.take(indices, axis=0) if array.ndim > indices.ndim else ops.take_rows(array, indices, axis)
        for array in arrays
    ]
