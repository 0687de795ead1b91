"""The distinct keys of each chunk, and their results back at each of its keys.

Tasks ``unique-local``, one a chunk, and at the end those that are named by the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from operator import getitem
from typing import Any, ClassVar

import numpy as np
from dask.typing import Key

from ...chunk import complete
from ...chunk.distinct import Columns, find_distinct
from ...order import Order
from ...plan import Size
from ...plan.sets import origin_dtype
from .._dask import List, Task, TaskRef
from ..collection import Output, new_arrays
from ..exchanges import recipe_class
from ..input_checks import changed_source, checked_shape
from ..runtime import Runtime
from ..sort.global_sort import global_sort
from ..sort.request import Keys, Request
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks

#: Arrays of one chunk in the tuple that its task returns; the size of the chunk is behind them.
OUTPUTS = ("values", "chunks", "counts", "firsts", "inverse", "repeats")
#: Those of one element for each key of the chunk.
OF_KEYS = OUTPUTS[4:]


@dataclass(frozen=True)
class LocalDistinct(ArrayRecipe):
    """Hold all that the tasks of this stage are made from."""

    order: Order  # stable
    columns: Columns  # what is wanted besides the values; first positions need an array of one dimension
    equal_nan: bool  # whether all NaN are one key
    names: tuple[str, ...]  # of the input
    chunks: Chunks  # sizes of the input, nan where unknown
    outputs: tuple[str, ...]  # names of the output arrays, of `OUTPUTS`

    @property
    def indices(self) -> Iterator[tuple[int, ...]]:
        """Indices of the chunks, in C order."""
        return iter(np.ndindex(*map(len, self.chunks)))

    @property
    def _starts(self) -> list[Size]:
        """Position of each chunk's first key, nan if unknown."""
        return list(accumulate(self.chunks[0], initial=0))

    def stages(self, held: Any = NOTHING) -> Tasks:
        """One task for each chunk; one more for the starts of the chunks, if these are wanted and unknown."""
        how = self.order, self.columns, self.equal_nan, _origin_dtype(self.chunks)
        tasks, found = Tasks(self.token), []
        for number, (index, shape) in enumerate(zip(self.indices, product(*self.chunks), strict=True)):
            chunk = TaskRef((self.names[0], *index))
            found.append(tasks.add("unique-local", number, distinct_of, chunk, number, shape, *how))
        if self.columns.firsts and math.isnan(self._starts[-1]):
            tasks.add("unique-starts", 0, starts_of, List(*found))
        return tasks

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the distinct keys to the chunks of one output array."""
        wanted = self.outputs[which]
        position = OUTPUTS.index(wanted)
        known, tasks = self._starts, Tasks(self.token)
        for number, index in enumerate(self.indices):
            key: Key = (name, *(index if len(chunks) == len(self.chunks) else (number,)))
            found = tasks.ref("unique-local", number)
            if wanted == "firsts":
                start: Any = known[number]
                if math.isnan(known[-1]):
                    start = Task(None, getitem, tasks.ref("unique-starts", 0), number)
                tasks.put(key, shifted, found, position, start)
            else:
                tasks.put(key, getitem, found, position)
        return tasks


def distinct_of(
    block: Any,
    number: int,
    shape: Sequence[Size],
    order: Order,
    columns: Columns,
    equal_nan: bool,
    origins: np.dtype[Any],
) -> tuple[Any, ...]:
    """Task: find the distinct keys of one chunk, in the order of `OUTPUTS`, None if not wanted; then its size."""
    found = find_distinct(checked_shape(block, number, order.dtype, shape), order, columns, equal_nan)
    chunks = np.full_like(found.values, number, dtype=origins) if columns.origins else None
    complete(found.values)
    return found.values, chunks, found.counts, found.firsts, found.inverse, found.repeats, block.size


def _origin_dtype(chunks: Chunks) -> np.dtype[Any]:
    return origin_dtype(math.prod(map(len, chunks)))


def starts_of(found: Sequence[tuple[Any, ...]]) -> list[int]:
    """Task: the position of each chunk's first key."""
    return list(accumulate((parts[-1] for parts in found), initial=0))


def shifted(found: tuple[Any, ...], position: int, start: int) -> Any:
    """Task: positions in the whole array."""
    return found[position] + int(start)


def local_distinct(array: Any, order: Order, columns: Columns, equal_nan: bool, kept: bool = False) -> dict[str, Any]:
    """Find the distinct keys of each chunk of an array, and what is wanted of them, by the names in `OUTPUTS`.

    The arrays have a chunk of unknown size for each of the input; "inverse" and "repeats" have the input's chunks, for
    `spread_back` alone.
    """
    wanted = {"chunks": columns.origins, **{name: getattr(columns, name) for name in OUTPUTS[2:]}}
    names = ("values", *(name for name in OUTPUTS[1:] if wanted[name]))
    recipe = recipe_class(LocalDistinct, kept)(order, columns, equal_nan, (array.name,), array.chunks, names)
    unknown = ((math.nan,) * math.prod(array.numblocks),)
    dtypes = {
        "values": array.dtype,
        "chunks": _origin_dtype(array.chunks),
        "inverse": np.uint32,
        "repeats": np.uint32,
    }
    outputs = [
        Output(
            np.empty_like(
                array._meta,
                shape=(0,) * (array.ndim if name in OF_KEYS else 1),
                dtype=dtypes.get(name, np.int64),
            ),
            array.chunks if name in OF_KEYS else unknown,
        )
        for name in names
    ]
    return dict(zip(names, new_arrays(recipe, [array], outputs, "unique-part"), strict=True))


def spread(known: Any, inverse: Any, added: Any = None) -> Any:
    """Task: give each key of a chunk what its distinct key knows, plus what is added."""
    distinct = int(inverse.max()) + 1 if inverse.size else 0
    if distinct != len(known):
        raise changed_source(f"a chunk has {distinct} distinct keys, where {len(known)} were sorted")
    found = known[inverse]
    if added is not None:
        found += added
    return complete(found)


@dataclass(frozen=True)
class Spread(ArrayRecipe):
    """Hold all that the tasks of this stage are made from."""

    #: Of what the distinct keys know, one-dimensional; of the inverse; and of what is added, if there is any.
    names: tuple[str, ...]
    numblocks: tuple[int, ...]  # chunks of the output in each dimension

    function: ClassVar[Callable[..., Any]] = staticmethod(spread)

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """One task for each chunk."""
        known, *of_keys = self.names
        tasks = Tasks(self.token)
        for number, index in enumerate(np.ndindex(*self.numblocks)):
            own = (TaskRef((array, *index)) for array in of_keys)
            tasks.put((name, *index), self.function, TaskRef((known, number)), *own)
        return tasks


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
    recipe = recipe_class(Spread, kept)(tuple(array.name for array in inputs), inverse.numblocks)
    meta = np.empty_like(known._meta, shape=(0,) * inverse.ndim)
    return new_arrays(recipe, inputs, [Output(meta, inverse.chunks)], "unique-spread")[0]
