"""Selection by samples. Tasks ``select-draw``, ``select-scan``, ``select-extract`` and ``select-finish``.

::

    chunk c --- select-draw ----> sample --------> select-scan ----- brackets --.     the first pass
             (every chunk)     (random keys)          (one)                     |
                                                                                |
    chunk c --- select-extract -> keys inside <---------------------------------'     the second pass
             (every chunk)        and counts --.
                                               '--> select-finish --> the statistic   (one)

For each group of lanes that are in the same chunks. Only samples and keys inside brackets move. Chunks are sorted in
the second pass, or in both, if many quantiles are wanted, else compared with the brackets. If the keys inside are too
many for one task they are drawn from, bracketed and extracted again, without another pass over the source. Where the
source does not stay in memory, its tasks are repeated for the second pass. The chunks of both passes have different
keys, so no chunk waits in memory for the other pass; and all tasks of the second source depend on the first brackets,
so that none runs early.
What the chunks give is then gathered a few at a time, by ``select-gather``. If one task needed all of it, and chunks
shared what they are made of (overlaps, a rechunk), Dask would order the tasks so that much of the source is in memory
at once.

Chunks that share one memory are in one task, ``select-join``: steps from task to task, and from the host to the device
for each chunk, would take longer than the reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from dask.tokenize import tokenize
from dask.typing import Key
from tlz import concat, partition_all

from ...chunk import complete, ops_for
from ...chunk.checks import changed_source, checked_chunk, checked_shape
from ...chunk.grid import assemble, chunk_starts
from ...order import Order
from ...plan.select import BOTH_PASSES, SelectPlan
from ...table import selection
from ...table.quantiles import Ranks, Statistic
from .._dask import List, Task, TaskRef
from ..tasks import NOTHING, ArrayRecipe, Chunks, Tasks, chunk_of

#: Lists that one task gathers. With 16 or 32 Dask keeps more chunks in memory.
GATHERED = 8


class Extracted(NamedTuple):
    """What a chunk gives of one lane: its counts up to the ends of the brackets, and its keys inside them."""

    ends: np.ndarray
    keys: Any


class Drawn(NamedTuple):
    """Hold a sample of a chunk, or of what is left of it, in one lane."""

    size: int  # all keys
    nans: int  # those that are NaN or NaT
    strata: int  # whose key may be on the wrong side of a rank: all that keys were drawn from, or one of sorted keys
    keys: Any
    ends: np.ndarray | None = None  # in later rounds, the counts of the round before


def lanes_of(part: Any, axes: Sequence[int], sorts: bool = False) -> list[Any]:
    """The keys of each lane of a chunk, which are sorted if asked for, or what is left of them, shape (n,) each."""
    if isinstance(part, list):
        return [one.keys for one in part]
    lanes = _lanes_of_chunk(part, axes)
    return _sorted(lanes) if sorts else lanes


def _sorted(lanes: Sequence[Any]) -> list[Any]:
    return [ops_for(keys).sort_rows(keys, Order(keys.dtype), 0) for keys in lanes]


def _lanes_of_chunk(chunk: Any, axes: Sequence[int]) -> list[Any]:
    if len(axes) == chunk.ndim:
        # The order of keys has no effect; that of the memory saves a copy.
        return [(chunk.T if chunk.flags.f_contiguous else chunk).ravel()]
    kept = [dim for dim in range(chunk.ndim) if dim not in axes]
    lanes = chunk.transpose([*kept, *axes])
    # A chunk without lanes gives an empty one, which tells the dtype and the library.
    return [lanes[index].ravel() for index in np.ndindex(*lanes.shape[: len(kept)])] or [chunk.ravel()]


def draw(part: Any, number: int, axes: Sequence[int], keys_per_stratum: float, sorts: bool = False) -> list[Drawn]:
    """Task: a sample of each lane of a chunk, or of what is left of it."""
    ends = [one.ends for one in part] if isinstance(part, list) else None
    found = []
    for lane, keys in enumerate(lanes_of(part, axes, sorts)):
        sample = _sample(keys, number, keys_per_stratum)
        # What is left has no NaN.
        nans = 0 if ends else ops_for(keys).count_nans(keys)
        strata = 1 if sorts else selection.strata(len(keys), keys_per_stratum)
        found.append(Drawn(len(keys), nans, strata, sample, ends[lane] if ends else None))
    return found


def _sample(keys: Any, number: int, keys_per_stratum: float) -> Any:
    random = ops_for(keys).random_keys(0, selection.strata(len(keys), keys_per_stratum), number)
    return keys[selection.draw_positions(len(keys), keys_per_stratum, random)]


def draw_chunk(
    chunk: Any,
    number: int,
    axes: Sequence[int],
    keys_per_stratum: float,
    sorts: int,
    dtype: np.dtype[Any],
    shape: Sequence[float],
) -> list[Drawn]:
    """Task: a sample of each lane of a chunk."""
    return draw(checked_shape(chunk, number, dtype, shape), number, axes, keys_per_stratum, sorts == BOTH_PASSES)


def gather(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Task: one list of what several lists of chunks give."""
    return list(concat(lists))


def scan(
    drawn: Sequence[Sequence[Drawn]], keys_per_stratum: float, statistic: Statistic | Ranks, dtype: np.dtype[Any]
) -> list[selection.Search]:
    """Task: brackets around the wanted ranks of each lane."""
    searches = []
    for lane in zip(*drawn, strict=True):
        nans = sum(one.nans for one in lane)
        size = sum(one.size for one in lane) - nans
        # With NaN among the keys, the result is NaN.
        wanted = size > 0 and (statistic.skip_nan or not nans)
        ranks = np.unique(statistic.ranks(np.array(size))) if wanted else np.empty(0, np.int64)
        searches.append(_enclose(selection.begin(size, nans, ranks, dtype), lane, keys_per_stratum))
    return searches


def scan_again(
    drawn: Sequence[Sequence[Drawn]], keys_per_stratum: float, searches: Sequence[selection.Search]
) -> list[selection.Search]:
    """Task: narrower brackets, from what is left of the chunks."""
    resolved = _resolve(searches, [[one.ends for one in chunk] for chunk in drawn])
    lanes = zip(*drawn, strict=True)
    return [_enclose(search, lane, keys_per_stratum) for search, lane in zip(resolved, lanes, strict=True)]


def _enclose(search: selection.Search, lane: Sequence[Drawn], keys_per_stratum: float) -> selection.Search:
    """Brackets around the ranks that are still searched, from samples of the keys that are left."""
    wanted = selection.sampled_ranks(search, sum(one.strata for one in lane), keys_per_stratum)
    return enclose(search, [one.keys for one in lane], wanted)


def enclose(search: selection.Search, samples: Sequence[Any], wanted: np.ndarray) -> selection.Search:
    """Brackets whose ends have given ranks among some samples; without such a sample, they are open."""
    known = (wanted >= 0) & (wanted < sum(map(len, samples)))
    ends = np.empty(wanted.shape, search.found.dtype)
    ends[0], ends[1] = selection.least_and_most(ends.dtype)
    found = ops_for(samples[0]).keys_at(samples, wanted[known])
    # NaN are the last samples.
    known[known] = found == found
    ends[known] = found[found == found]
    return selection.enclose(search, *ends)


def _resolve(searches: Sequence[selection.Search], ends: Sequence[Sequence[Any]]) -> list[selection.Search]:
    try:
        return [
            selection.resolve(search, np.sum(lane, axis=0))
            for search, lane in zip(searches, zip(*ends, strict=True), strict=True)
        ]
    except LookupError as error:
        raise changed_source("the counts of the keys do not fit their samples") from error


def extract(part: Any, searches: Sequence[selection.Search], axes: Sequence[int], sorts: int = 0) -> list[Extracted]:
    """Task: count the keys of a chunk, or of what is left of it, and take those inside the brackets."""
    return _extract(lanes_of(part, axes, bool(sorts)), searches, sorts)


def _extract(lanes: Sequence[Any], searches: Sequence[selection.Search], sorts: int) -> list[Extracted]:
    ops = ops_for(lanes[0])
    function = ops.extract_sorted if sorts else ops.extract
    pairs = zip(lanes, searches, strict=True)
    return [Extracted(*function(keys, search.low, search.high)) for keys, search in pairs]


def extract_chunk(
    chunk: Any,
    searches: Sequence[selection.Search],
    drawn: Sequence[Drawn],
    number: int,
    axes: Sequence[int],
    keys_per_stratum: float,
    sorts: int = 0,
) -> list[Extracted]:
    """Task: the same of a chunk, which must still be the one that the samples are of."""
    lanes = lanes_of(chunk, axes, sorts == BOTH_PASSES)
    for keys, one in zip(lanes, drawn, strict=True):
        if len(keys) != one.size or not _same(_sample(keys, number, keys_per_stratum), one.keys):
            raise changed_source(f"chunk {number} is not what it was when samples of it were taken")
    return _extract(_sorted(lanes) if sorts == 1 else lanes, searches, sorts)


def _same(keys: Any, others: Any) -> bool:
    """Whether all keys of two arrays of the same shape are equal, NaN too."""
    return bool(((keys == others) | (keys != keys) & (others != others)).all())


def finish(
    extracted: Sequence[Sequence[Extracted]],
    searches: Sequence[selection.Search],
    statistic: Statistic | Ranks,
    shape: Sequence[int],
) -> Any:
    """Task: the statistic of the lanes of one output chunk, shape `statistic.shape` and then `shape`."""
    resolved = _resolve(searches, [[one.ends for one in chunk] for chunk in extracted])
    ops = ops_for(extracted[0][0].keys)
    if 0 in shape:
        return ops.from_host(np.empty((*statistic.shape, *shape), statistic.dtype_of(searches[0].found.dtype)))
    lanes = zip(resolved, zip(*extracted, strict=True), strict=True)
    found = [
        replace(search, found=selection.finish(search, ops.keys_at([part.keys for part in parts], search.left)))
        for search, parts in lanes
    ]
    return ops.from_host(result_of(found, statistic).reshape((*statistic.shape, *shape)))


def result_of(searches: Sequence[selection.Search], statistic: Statistic | Ranks) -> np.ndarray:
    """The statistic of each lane, from searches that have found the keys at all ranks."""
    count, nans = (np.array([getattr(one, name) for one in searches], np.int64) for name in ("size", "nans"))
    ranks = statistic.ranks(count)
    keys = np.zeros(ranks.shape, searches[0].found.dtype)
    for lane, search in enumerate(searches):
        if len(search.found):
            keys[..., lane] = search.found[np.searchsorted(search.ranks, ranks[..., lane])]
    return statistic.result(keys, count, nans)


@dataclass(frozen=True)
class Selection(ArrayRecipe):
    """Hold all that the tasks of one selection by samples are made from."""

    plan: SelectPlan
    statistic: Statistic | Ranks
    #: Of the source, and of the source of the second pass where it is another one. Then the tasks of the first pass are
    #: not part of these tasks.
    names: tuple[str, ...]
    axes: tuple[int, ...]  # the reduced dimensions
    chunks: Chunks  # sizes of the source, nan where unknown
    dtype: np.dtype[Any]  # of the source
    keepdims: bool  # whether the reduced dimensions are kept, with size 1

    @cached_property
    def token(self) -> str:
        fields = vars(self).copy()
        return tokenize(fields.pop("names")[0], *fields.values())

    takes_held_chunks = True

    @property
    def first_tasks(self) -> int:
        return math.prod(map(len, self.chunks))

    @property
    def _kept(self) -> list[int]:
        return [dim for dim in range(len(self.chunks)) if dim not in self.axes]

    @property
    def _groups(self) -> Iterator[tuple[int, ...]]:
        """Index of each group of lanes among the kept dimensions."""
        return np.ndindex(*(len(self.chunks[dim]) for dim in self._kept))

    def stages(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the source to the keys inside the last brackets; chunks in `held` become part of them."""
        tasks = self.first_pass(held) if len(self.names) == 1 else Tasks(self.token)
        for group in self._groups:
            self._second_pass(tasks, group, held)
        return tasks

    def first_pass(self, held: Mapping[Key, Any] = NOTHING) -> Tasks:
        """Tasks from the source to the first brackets."""
        tasks = Tasks(self.token)
        for group in self._groups:
            drawn = []
            for number, (index, shape) in enumerate(self._members(group)):
                chunk = chunk_of((self.names[0], *index), held)
                about = chunk, number, *self._about, self.dtype, shape
                drawn.append(tasks.add("select-draw-0", (*group, number), draw_chunk, *about))
            self._scan(tasks, 0, group, drawn, scan, self.statistic, self.dtype)
        return tasks

    def first_scans(self) -> tuple[str, Chunks]:
        """Name and chunks of an array whose chunks are the first brackets of each group of lanes."""
        return f"select-scan-0-{self.token}", tuple((1,) * len(self.chunks[dim]) for dim in self._kept)

    def output(self, name: str, which: int, chunks: Chunks) -> Tasks:
        """Tasks from the keys inside the last brackets to the chunks of the result."""
        tasks, last = Tasks(self.token), len(self.plan.keys_per_stratum) - 1
        for group in self._groups:
            members = range(len(self._members(group)))
            parts = [tasks.ref(f"select-extract-{last}", *group, number) for number in members]
            extracted = self._gather(tasks, "extracted", group, parts)
            index, shape = self._output_index(group)
            key: Key = (name, *(0 for _ in self.statistic.shape), *index)
            searches = tasks.ref(f"select-scan-{last}", *group)
            tasks.put(key, finish, extracted, searches, self.statistic, tuple(map(int, shape)))
        return tasks

    def _output_index(self, group: Sequence[int]) -> tuple[list[int], list[float]]:
        """Index of an output chunk without the dimensions of quantiles, and its shape."""
        own = dict(zip(self._kept, group, strict=True))
        dims = range(len(self.chunks)) if self.keepdims else self._kept
        return [own.get(dim, 0) for dim in dims], [self.chunks[dim][own[dim]] if dim in own else 1 for dim in dims]

    def _members(self, group: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
        """Index and shape of each source chunk that a group of lanes is in."""
        own = dict(zip(self._kept, group, strict=True))
        ranges = [[own[dim]] if dim in own else range(len(sizes)) for dim, sizes in enumerate(self.chunks)]
        return [
            (index, tuple(sizes[at] for sizes, at in zip(self.chunks, index, strict=True)))
            for index in product(*ranges)
        ]

    @property
    def _about(self) -> tuple[tuple[int, ...], float, int]:
        return self.axes, self.plan.keys_per_stratum[0], self.plan.sorts

    def _scan(
        self,
        tasks: Tasks,
        level: int,
        group: tuple[int, ...],
        drawn: Sequence[TaskRef],
        function: Any,
        *arguments: Any,
    ) -> TaskRef:
        """Add the tasks from samples to brackets, which the last one makes."""
        samples = self._gather(tasks, f"drawn-{level}", group, drawn)
        return tasks.add(
            f"select-scan-{level}", group, function, samples, self.plan.keys_per_stratum[level], *arguments
        )

    def _gather(self, tasks: Tasks, what: str, group: tuple[int, ...], parts: Sequence[TaskRef]) -> Any:
        """Add the tasks that gather what the chunks of a group of lanes give; gives the list of it."""
        lists: Sequence[Any] = [List(part) for part in parts]
        if self.plan.held or len(lists) <= GATHERED:
            return List(*parts)
        first = 0
        while len(lists) > GATHERED:
            some = enumerate(partition_all(GATHERED, lists), first)
            stage = f"select-gather-{what}"
            lists = [tasks.add(stage, (*group, number), gather, List(*own)) for number, own in some]
            first += len(lists)
        return Task(None, gather, List(*lists))

    def _second_pass(self, tasks: Tasks, group: tuple[int, ...], held: Mapping[Key, Any]) -> None:
        """Add the tasks from the first brackets of a group of lanes to the keys inside the last ones."""
        searches, sorts = tasks.ref("select-scan-0", *group), self.plan.sorts
        parts = []
        for number, (index, _) in enumerate(self._members(group)):
            chunk, drawn = chunk_of((self.names[-1], *index), held), tasks.ref("select-draw-0", *group, number)
            first = chunk, searches, drawn, number, *self._about
            parts.append(tasks.add("select-extract-0", (*group, number), extract_chunk, *first))
        for level, keys_per_stratum in enumerate(self.plan.keys_per_stratum[1:], 1):
            about = self.axes, keys_per_stratum, bool(sorts)
            drawn_again = [
                tasks.add(f"select-draw-{level}", (*group, number), draw, part, number, *about)
                for number, part in enumerate(parts)
            ]
            searches = self._scan(tasks, level, group, drawn_again, scan_again, searches)
            parts = [
                tasks.add(f"select-extract-{level}", (*group, number), extract, part, searches, self.axes, sorts)
                for number, part in enumerate(parts)
            ]


@dataclass(frozen=True)
class JoinedLanes:
    """Find a statistic of lanes whose chunks are joined: a function that can be pickled."""

    statistic: Statistic
    axes: tuple[int, ...]  # the reduced dimensions
    dtype: np.dtype[Any]  # of the source
    keepdims: bool  # whether the reduced dimensions are kept, with size 1
    searches: bool  # whether lanes are searched one by one
    sorts: int  # whether they are sorted then, in place of a search by samples

    def __call__(self, chunks: list[Any], sizes: Chunks) -> tuple[Any]:
        """Task: find the statistic of each lane of some chunks, with the dimensions of `q`, then those that are kept.

        `chunks` are in C order, one along the kept dimensions; `sizes` are theirs in each dimension, nan where unknown.
        """
        for number, chunk in enumerate(chunks):
            checked_chunk(chunk, self.dtype, f"chunk {number} of the input", ndim=len(sizes))
        starts, ops = chunk_starts([chunk.shape for chunk in chunks], sizes), ops_for(chunks[0])
        shape = [1 if dim in self.axes else int(ends[-1]) for dim, ends in enumerate(starts)]
        kept = [size for dim, size in enumerate(shape) if self.keepdims or dim not in self.axes]
        if not self.searches or 0 in kept:
            # Lanes along the first dimensions are columns, along other ones rows.
            fastest = len(sizes) - 1 if self.axes[0] == 0 else self.axes[-1]
            whole = assemble(chunks, starts, fastest)
            return (complete(ops.reduce_lanes(whole, self.statistic, self.axes, self.keepdims)),)
        lanes = zip(*(lanes_of(chunk, self.axes) for chunk in chunks), strict=True)
        found = result_of([search(parts, self.statistic, self.sorts) for parts in lanes], self.statistic)
        found = found.astype(self.statistic.dtype_of(self.dtype), copy=False)  # from the native byte order
        return (complete(ops.from_host(found.reshape((*self.statistic.shape, *kept)))),)


def search(parts: Sequence[Any], statistic: Statistic, sorts: int = 0) -> selection.Search:
    """Find the keys at the ranks that a statistic wants of one lane, from parts in any order, shape (n,) each."""
    # All ranks are found, or none is left if NaN make them needless.
    ops, size = ops_for(parts[0]), sum(map(len, parts))
    skipped = ops.count_nans(*parts) if statistic.skip_nan else 0
    # Of no keys, no rank is wanted.
    ranks = np.unique(statistic.ranks(np.array(size - skipped)))[: size - skipped]
    wanted = selection.begin(size - skipped, skipped, ranks, parts[0].dtype)
    stratum = 1 if sorts else selection.stratum_of(size, math.prod(statistic.shape))
    while stratum > 1:
        found = _search_brackets(parts, wanted, statistic.skip_nan, stratum)
        if found is not None:
            return found
        stratum //= 8  # a bracket missed its rank
    last = np.array([size - 1][:size], np.int64)  # which is NaN if any key is
    keys, end = np.split(ops.keys_at(parts, np.append(ranks, last)), [len(ranks)])
    missing = not statistic.skip_nan and bool((end != end).any())
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
