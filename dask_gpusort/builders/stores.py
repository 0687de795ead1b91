r"""Arrays of unknown chunk sizes, stored to Zarr in one pass; `chunk.zarr_chunks` draws what tasks write.

::

    chunks         0        1         2        3
    store-count    0        1         2        3         lengths, which alone say where rows are written
    store-start        ------------->     -------------> ...
    store-write    0        1         2        3         whole Zarr chunks
    store-seam     '--- 0 ------------' 2 ------------   those that chunks share
    store-join          0 ------------> 2 -------------> ... what is left, and in the end the true length

Offsets do not wait for data, so that no worker runs ahead while another one writes. The joins let Dask order writes
right behind their chunks, which are freed then: with one task behind all writes it would make all chunks first.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..chunk.checks import DeclaredChunk, declared_chunks
from ..chunk.zarr_chunks import (
    NOTHING_LEFT,
    ZarrTarget,
    add_lengths,
    count_rows,
    finish_array,
    join_spans,
    write_chunk,
    write_shared,
)
from ..graph._dask import List, TaskRef, normalize_chunks, slices_from_chunks
from ..graph.collection import Output, new_arrays
from ..graph.inputs import rechunk
from ..graph.runtime import Runtime
from ..graph.tasks import ArrayRecipe, Chunks, Tasks

#: Bytes of a Zarr chunk where sizes are unknown: a smaller one has more overhead, and of a larger one more moves.
CHUNK_BYTES = 8 << 20
#: Most chunks of a bundle: what they share waits in memory, and each refers to the lengths of those before.
MOST_BUNDLED = 8


@dataclass(frozen=True)
class StoreRecipe(ArrayRecipe):
    """Say how an array is stored; its only result is its length."""

    names: tuple[str, ...]
    chunks: Chunks
    dtype: np.dtype[Any]
    target: ZarrTarget = field(compare=False)
    bundle: int  # chunks whose lengths are added together, and bundles whose seams may wait
    #: Tells calls apart: on a cluster, tasks of the names of earlier ones would not run.
    call: str = field(default_factory=lambda: uuid.uuid4().hex)

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        tasks, axis = Tasks(self.token), self.target.axis
        declared = declared_chunks("the array", self.dtype, self.chunks, exact=True)
        others = self.chunks[:axis] + self.chunks[axis + 1 :]
        regions = slices_from_chunks(others) if others else [()]
        grid = np.array(declared, object).reshape(tuple(map(len, self.chunks)))
        columns = np.moveaxis(grid, axis, -1).reshape(len(regions), -1).tolist()
        ends = [self._store(tasks, *one) for one in zip(columns, regions, strict=True)]
        tasks.put((name,), finish_array, List(*ends), regions, self.target)
        return tasks

    def _store(self, tasks: Tasks, column: Sequence[DeclaredChunk], region: Sequence[slice]) -> List:
        """Add the tasks of the chunks along the axis; the last ones give what is left, and nothing."""
        start: Any = 0
        end: Any = NOTHING_LEFT
        seams: list[TaskRef] = []
        for first in range(0, len(column), self.bundle):
            lengths: list[TaskRef] = []
            spans, index = [], column[first].index
            for says in column[first : first + self.bundle]:
                of_chunk = TaskRef((self.names[0], *says.index)), says, self.target
                behind = start, List(*lengths)
                spans.append(tasks.add("store-write", says.index, write_chunk, *of_chunk, region, *behind))
                lengths.append(tasks.add("store-count", says.index, count_rows, *of_chunk))
            joined = List(end, *spans), self.target
            # Behind an earlier seam, so that seams, and what they write, are not put off.
            end = tasks.add("store-join", index, join_spans, *joined, None, *seams[: -self.bundle][-1:])
            seams.append(tasks.add("store-seam", index, write_shared, *joined, region))
            if first + self.bundle < len(column):
                start = tasks.add("store-start", index, add_lengths, start, List(*lengths))
        return List(end, *seams[-self.bundle - 1 :])


def zarr_chunks(array: Any, axis: int, given: Mapping[int, int]) -> tuple[int, ...]:
    """The shape of Zarr chunks: sizes that are given along axes, or those of the array's chunks."""
    found = [given.get(dim, max(sizes) or 1) for dim, sizes in enumerate(array.chunks)]
    if math.isnan(found[axis]):
        row = math.prod(size for dim, size in enumerate(found) if dim != axis) * array.dtype.itemsize
        found[axis] = max(1, CHUNK_BYTES // max(row, 1))
    return tuple(found)


def build_store(array: Any, target: ZarrTarget) -> Any:
    """Store an array, lazily; the result is the length of its axis of unknown size."""
    array = rechunk(array, {dim: _aligned(array, dim, target) for dim in range(array.ndim) if dim != target.axis})
    bundle = min(max(2, Runtime.of(array).workers.threads), MOST_BUNDLED)
    recipe = StoreRecipe((array.name,), array.chunks, array.dtype, target, bundle)
    return new_arrays(recipe, [array], [Output(np.empty((), np.int64), ())], "to_zarr")[0]


def _aligned(array: Any, dim: int, target: ZarrTarget) -> tuple[int, ...]:
    """Chunks along another axis of which no two share a Zarr chunk: the array's, or about as large ones."""
    unit, own = target.units[dim], array.chunks[dim]
    if not np.any(np.cumsum(own[:-1]) % unit):
        return own
    return normalize_chunks((unit * max(1, max(own) // unit),), (array.shape[dim],))[0]
