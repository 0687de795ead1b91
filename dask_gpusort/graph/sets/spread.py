"""Send results of distinct keys back to their chunk, and expand them by the inverse. Tasks are named by the output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...chunk import complete
from ...order import Order
from .._dask import TaskRef
from ..collection import Output, new_arrays
from ..composite_keys import Keys
from ..global_sort import Request, global_sort
from ..input_checks import changed_source
from ..runtime import Runtime
from ..tasks import ArrayRecipe, Chunks, Tasks


@dataclass(frozen=True)
class Spread(ArrayRecipe):
    """Hold all that the tasks of this stage are made from."""

    #: Of what the distinct keys know, one-dimensional; of the inverse; and of what is added, if there is any.
    names: tuple[str, ...]
    numblocks: tuple[int, ...]  # chunks of the output in each dimension
    kept: bool = False  # whether workers keep the inverse and what is added

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """One task for each chunk."""
        known, *of_keys = self.names
        function: Callable[..., Any] = spread
        if self.kept:
            # Imported here, because it imports distributed.
            from .kept_chunks import spread_kept as function
        tasks = Tasks(self.token)
        for number, index in enumerate(np.ndindex(*self.numblocks)):
            own = (TaskRef((array, *index)) for array in of_keys)
            tasks.put((name, *index), function, TaskRef((known, number)), *own)
        return tasks


def spread(known: Any, inverse: Any, added: Any = None) -> Any:
    """Task: give each key of a chunk what its distinct key knows, plus what is added."""
    distinct = int(inverse.max()) + 1 if inverse.size else 0
    if distinct != len(known):
        raise changed_source(f"a chunk has {distinct} distinct keys, where {len(known)} were sorted")
    found = known[inverse]
    if added is not None:
        found += added
    return complete(found)


def scatter_to_chunks(known: Any, chunks: Any, most_keys: float, runtime: Runtime) -> Any:
    """Give what the sorted distinct keys know, in the chunks and in the order in which the keys were before their sort.

    `chunks` has the number of the chunk from which each comes, in the chunks of `known`.
    """
    if known.numblocks[0] == 1:
        return known
    request = Request(Order(chunks.dtype, stable=True), "values", "auto", runtime, most_keys=most_keys)
    return global_sort(request, Keys(chunks, request.order), [known], known.chunks[0])[0]


def spread_back(known: Any, chunks: Any, of_keys: Sequence[Any], kept: bool, runtime: Runtime) -> Any:
    """Give each key of the input what its distinct key knows, in the input's chunks.

    `of_keys` are the inverse, and perhaps what is added.
    """
    inverse = of_keys[0]
    inputs = [scatter_to_chunks(known, chunks, inverse.size, runtime), *of_keys]
    recipe = Spread(tuple(array.name for array in inputs), inverse.numblocks, kept)
    meta = np.empty_like(known._meta, shape=(0,) * inverse.ndim)
    return new_arrays(recipe, inputs, [Output(meta, inverse.chunks)], "unique-spread")[0]
