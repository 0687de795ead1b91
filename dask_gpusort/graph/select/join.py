r"""Order statistics of lanes whose chunks share one memory: a lane is one task's work. Task ``select-join``.

::

    chunk 0   chunk 1   ...   chunk P-1      of some lanes
        \        |            /
              select-join                    long lanes: samples, brackets, keys inside them; nothing is copied
                   |                         short lanes: concatenated, then a row kernel
             output chunk

Steps from task to task, and from the host to the device for each chunk, would take longer than the reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from dask.typing import Key
from tlz import identity

from ...chunk import complete, ops_for
from ...table import selection
from ...table.quantiles import Statistic
from .._dask import List, Task, TaskRef
from ..input_checks import checked_chunk
from ..join import assemble, chunk_starts
from ..local_sort import NOTHING
from ..recipe import ArrayRecipe, Chunks
from .samples import enclose, lanes_of, result_of


@dataclass(frozen=True)
class LanesJoin(ArrayRecipe):
    """Hold all that the tasks of one joined order statistic are made from."""

    statistic: Statistic
    names: tuple[str, ...]  # of the source
    axes: tuple[int, ...]  # the reduced dimensions
    chunks: Chunks  # sizes of the source, nan where unknown
    dtype: np.dtype[Any]  # of the source
    keepdims: bool  # whether the reduced dimensions are kept, with size 1
    searches: bool  # whether lanes are searched one by one, by samples

    takes_held_chunks = True

    @property
    def first_tasks(self) -> int:
        return math.prod(len(self.chunks[dim]) for dim in self._kept)

    @property
    def _kept(self) -> list[int]:
        return [dim for dim in range(len(self.chunks)) if dim not in self.axes]

    def _groups(self) -> Iterator[tuple[tuple[Any, ...], dict[int, int]]]:
        """For each group of lanes that are in the same chunks, its index, and that by dimension."""
        for group in np.ndindex(*(len(self.chunks[dim]) for dim in self._kept)):
            yield group, dict(zip(self._kept, group, strict=True))

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> dict[Key, Task]:
        """A task for each group of lanes; chunks in `held` become part of them."""
        tasks = {}
        for group, own in self._groups():
            ranges = [[own[dim]] if dim in own else range(len(sizes)) for dim, sizes in enumerate(self.chunks)]
            keys: list[Key] = [(*self.names, *index) for index in product(*ranges)]
            sizes = tuple((sizes[own[dim]],) if dim in own else sizes for dim, sizes in enumerate(self.chunks))
            chunks = List(*(held[key] if key in held else TaskRef(key) for key in keys))
            tasks[self._key(group)] = Task(self._key(group), reduce_joined, chunks, sizes, self)
        return tasks

    def output(self, name: str, which: int, chunks: Chunks, *, all_wanted: bool = False) -> dict[Key, Any]:
        """The output chunks: the results of the tasks."""
        dims = range(len(self.chunks)) if self.keepdims else self._kept
        first = (0,) * len(self.statistic.shape)
        tasks: dict[Key, Any] = {}
        for group, own in self._groups():
            key: Key = (name, *first, *(own.get(dim, 0) for dim in dims))
            tasks[key] = Task(key, identity, TaskRef(self._key(group)))
        return tasks

    def _key(self, group: Sequence[int]) -> Key:
        return (f"select-join-{self.token}", *group)


def reduce_joined(chunks: Sequence[Any], sizes: Chunks, join: LanesJoin) -> Any:
    """Task: find the statistic of each lane of some chunks, with the dimensions of `q`, then those that are kept.

    `chunks` are in C order, one along the kept dimensions; `sizes` are theirs in each dimension, nan where unknown.
    """
    for number, chunk in enumerate(chunks):
        checked_chunk(chunk, join.dtype, f"chunk {number} of the input", ndim=len(sizes))
    starts = chunk_starts([chunk.shape for chunk in chunks], sizes)
    ops = ops_for(chunks[0])
    if not join.searches:
        # Lanes along the first dimensions are columns, along other ones rows.
        fastest = len(sizes) - 1 if join.axes[0] == 0 else join.axes[-1]
        whole = assemble(chunks, starts, fastest)
        return complete(ops.reduce_lanes(whole, join.statistic, join.axes, join.keepdims))
    lanes = zip(*(lanes_of(chunk, join.axes) for chunk in chunks), strict=True)
    found = result_of([search(parts, join.statistic) for parts in lanes], join.statistic)
    shape = [1 if dim in join.axes else int(ends[-1]) for dim, ends in enumerate(starts)]
    kept = [size for dim, size in enumerate(shape) if join.keepdims or dim not in join.axes]
    return complete(ops.from_host(found.reshape((*join.statistic.shape, *kept))))


def search(parts: Sequence[Any], statistic: Statistic) -> selection.Search:
    """Find the keys at the ranks that a statistic wants of one lane, from parts in any order, shape (n,) each."""
    # All ranks are found, or none is left if NaN make them needless.
    ops, size = ops_for(parts[0]), sum(map(len, parts))
    skipped = sum(map(ops.count_nans, parts)) if statistic.skip_nan else 0
    # Of no keys, no rank is wanted.
    ranks = np.unique(statistic.ranks(np.array(size - skipped)))[: size - skipped]
    wanted = selection.begin(size - skipped, skipped, ranks, parts[0].dtype)
    stratum = selection.stratum_of(size, math.prod(statistic.shape))
    while stratum > 1:
        found = _search_brackets(parts, wanted, statistic.skip_nan, stratum)
        if found is not None:
            return found
        stratum //= 8  # a bracket missed its rank
    keys = ops.keys_at(parts, ranks)
    missing = 0 if statistic.skip_nan else sum(map(ops.count_nans, parts))
    return replace(wanted, found=keys, nans=skipped + missing)


def _search_brackets(
    parts: Sequence[Any], wanted: selection.Search, skip_nan: bool, stratum: int
) -> selection.Search | None:
    """The same by brackets from one sample of each stratum; None if a bracket misses its rank."""
    ops = ops_for(parts[0])
    sample = ops.draw(parts, stratum)
    ends = selection.sampled_ranks(wanted, len(sample), stratum, selection.REPAIRED_MISSES)
    # The keys behind the last whole stratum are not drawn: they move a rank by one sample at most.
    searched = enclose(wanted, [sample], ends + np.array([[-1], [1]]))
    counts, inside, nans = ops.extract_all(parts, searched.low, searched.high)
    if nans and not skip_nan:
        return selection.begin(wanted.size, nans, wanted.ranks[:0], wanted.found.dtype)
    try:
        resolved = selection.resolve(searched, counts)
    except LookupError:
        return None
    return replace(resolved, found=selection.finish(resolved, ops.keys_at([inside], resolved.left)))
