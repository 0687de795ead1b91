"""Order statistics by samples as a program: brackets around the wanted ranks, and the keys inside them.

::

    part    Draw            a random key of each stratum                     notes: samples, so brackets
    part    Extract         its chunk again: counts up to the ends of the brackets, and the keys inside, which stay
    part    DrawAgain       random keys of those, if they are too many       notes: samples, so narrower brackets
    part    ExtractAgain    counts and keys inside again                     notes: counts
                |  out
    group   Finish          the statistic of each lane

A lane is the elements along the reduced axes. Only samples and keys inside the last brackets move. Chunks are sorted
when they are read again, or both times, if many quantiles are wanted, else compared with the brackets.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from ..chunk import ops_for
from ..chunk.checks import changed_source
from ..chunk.run import Run
from ..order import Order
from ..table import IntArray, Ranks, Statistic, selection
from .program import Ends, Given, Made, Shared, Superstep

#: Counts of what is taken of a lane: the fields of `Taken`, with the number of keys, and of brackets; then of `ENDS`.
COUNTS, ENDS = 5, 4


class Taken(NamedTuple):
    """Hold what a part gives of one lane: a sample of its keys, or its keys inside the brackets."""

    keys: Any
    ends: IntArray  # shape (4, brackets): counts up to the ends of the brackets that the keys, or all of them, are in
    size: int = 0  # all keys that a sample was drawn from
    nans: int = 0  # those that are NaN or NaT
    strata: int = 0  # those whose key may be on the wrong side of a rank: of sorted keys one, else all


class Brackets(NamedTuple):
    """Say which keys of each lane are searched."""

    searches: list[selection.Search]
    shape: tuple[int, ...]  # of the first chunk


class Inside(NamedTuple):
    """Say which of the keys inside the last brackets are wanted."""

    ends: Ends
    searches: list[selection.Search]
    shape: tuple[int, ...]  # of the first chunk
    lengths: IntArray  # shape (parts, lanes): the keys inside


def lanes_of(chunk: Any, axes: Sequence[int]) -> list[Any]:
    """The keys of each lane of a chunk, shape (n,) each."""
    if len(axes) == chunk.ndim:
        # The order of keys has no effect; that of the memory saves a copy.
        return [(chunk.T if chunk.flags.f_contiguous else chunk).ravel()]
    kept = [dim for dim in range(chunk.ndim) if dim not in axes]
    lanes = chunk.transpose([*kept, *axes])
    # A chunk without lanes gives an empty one, which tells the dtype and the library.
    return [lanes[index].ravel() for index in np.ndindex(*lanes.shape[: len(kept)])] or [chunk.ravel()]


def _sorted(lanes: Sequence[Any]) -> list[Any]:
    return [ops_for(keys).sort_rows(keys, Order(keys.dtype), 0) for keys in lanes]


def pack(taken: Sequence[Taken]) -> tuple[IntArray, Any]:
    """The counts and the keys of what is taken of some lanes."""
    counts = [[len(keys), *numbers, ends.shape[1], *ends.flat] for keys, ends, *numbers in taken]
    keys = [one.keys for one in taken]
    joined = ops_for(keys[0]).concatenate(keys) if len(keys) > 1 else keys[0]
    return np.array([count for own in counts for count in own], np.int64), joined


def unpack(counts: IntArray, keys: Any) -> list[Taken]:
    """What is taken of some lanes, from its counts and its keys."""
    taken, first = [], 0
    while len(counts):
        length, *numbers, brackets = counts[:COUNTS].tolist()
        stop = COUNTS + ENDS * brackets
        ends = counts[COUNTS:stop].reshape(ENDS, brackets)
        taken.append(Taken(keys[first : first + length], ends, *numbers))
        counts, first = counts[stop:], first + length
    return taken


def _kept(given: Given) -> list[Taken]:
    """What a part has taken inside the last brackets."""
    assert given.run is not None
    return unpack(given.memo, given.run().keys)


# ---------------------------------------------------------------------------------------------------------- supersteps


@dataclass(frozen=True)
class Draw(Superstep):
    """Draw a sample of each lane of a part."""

    keeps = True

    stage: str
    statistic: Statistic | Ranks | None  # None if the step is lean
    axes: tuple[int, ...]  # the reduced dimensions
    dtype: np.dtype[Any]  # of the source
    keys_per_stratum: float
    sorts: bool  # whether lanes are sorted before
    listing: str = ""

    @property
    def lean(self) -> Draw:
        return replace(self, statistic=None)

    def lanes(self, chunk: Any) -> list[Any]:
        """The keys of each lane of a chunk that samples are drawn from."""
        lanes = lanes_of(chunk, self.axes)
        return _sorted(lanes) if self.sorts else lanes

    def sample(self, keys: Any, number: int) -> Any:
        """A sample of a lane of a part: a random key of each stratum."""
        random = ops_for(keys).random_keys(0, self._strata(keys), number)
        return keys[selection.draw_positions(len(keys), self.keys_per_stratum, random)]

    def _strata(self, keys: Any) -> int:
        return selection.strata(len(keys), self.keys_per_stratum)

    def _take(self, keys: Any, number: int, nans: int, ends: IntArray) -> Taken:
        return Taken(self.sample(keys, number), ends, len(keys), nans, 1 if self.sorts else self._strata(keys))

    def work(self, given: Given) -> Made:
        (chunk,) = given.blocks
        none = np.empty((ENDS, 0), np.int64)
        counts, keys = pack(
            [self._take(keys, given.number, ops_for(keys).count_nans(keys), none) for keys in self.lanes(chunk)]
        )
        return Made(Shared(np.array([chunk.ndim, *chunk.shape, *counts]), keys))

    def decide(self, notes: Sequence[Shared], decision: Any) -> Brackets:
        assert self.statistic is not None
        searches = []
        for lane in zip(*map(drawn_of, notes), strict=True):
            nans = sum(one.nans for one in lane)
            size = sum(one.size for one in lane) - nans
            # With NaN among the keys, the result is NaN.
            wanted = size > 0 and (self.statistic.skip_nan or not nans)
            ranks = np.unique(self.statistic.ranks(np.array(size))) if wanted else np.empty(0, np.int64)
            searches.append(self._enclose(selection.begin(size, nans, ranks, self.dtype), lane))
        counts = notes[0].counts
        return Brackets(searches, tuple(counts[1 : 1 + counts[0]].tolist()))

    def _enclose(self, search: selection.Search, lane: Sequence[Taken]) -> selection.Search:
        """Brackets around the ranks that are still searched, from samples of the keys that are left."""
        wanted = selection.sampled_ranks(search, sum(one.strata for one in lane), self.keys_per_stratum)
        return enclose(search, [one.keys for one in lane], wanted)

    def mark(self, note: Shared) -> int:
        return zlib.crc32(note.counts.tobytes())


class DrawAgain(Draw):
    """Draw a sample of what is left of each lane of a part."""

    keeps = False

    def work(self, given: Given) -> Made:
        # What is left has no NaN.
        return Made(Shared(*pack([self._take(one.keys, given.number, 0, one.ends) for one in _kept(given)])))

    def decide(self, notes: Sequence[Shared], decision: Brackets) -> Brackets:
        lanes = list(zip(*(unpack(note.counts, note.rows) for note in notes), strict=True))
        found = zip(_resolve(decision.searches, lanes), lanes, strict=True)
        return decision._replace(searches=[self._enclose(search, lane) for search, lane in found])


@dataclass(frozen=True)
class Extract(Superstep):
    """Count the keys of each lane of a part up to the ends of the brackets, and take those inside."""

    keeps = True
    rereads = True

    stage: str
    draw: Draw
    sorts: bool  # whether lanes are sorted
    groups: int  # of which the first gets the keys
    moves: Literal["", "out"] = ""  # "out" of the last round

    def work(self, given: Given) -> Made:
        lanes = self.draw.lanes(given.blocks[0])
        if given.note is not None:
            for keys, one in zip(lanes, drawn_of(given.note), strict=True):
                if len(keys) != one.size or not _same(self.draw.sample(keys, given.number), one.keys):
                    raise changed_source(f"chunk {given.number} is not what it was when samples of it were taken")
        return self._extract(_sorted(lanes) if self.sorts and not self.draw.sorts else lanes, given.decision)

    def _extract(self, lanes: Sequence[Any], brackets: Brackets) -> Made:
        ops = ops_for(lanes[0])
        extract = ops.extract_sorted if self.sorts else ops.extract
        pairs = zip(lanes, brackets.searches, strict=True)
        found = (extract(keys, search.low, search.high) for keys, search in pairs)
        counts, inside = pack([Taken(keys, ends) for ends, keys in found])
        return Made(counts if self.moves else None, Run(inside), counts)

    def decide(self, notes: Sequence[IntArray], decision: Brackets) -> Inside:
        lanes = list(zip(*(unpack(counts, range(sys.maxsize)) for counts in notes), strict=True))
        lengths = np.array([[len(one.keys) for one in lane] for lane in lanes], np.int64).T
        last = np.zeros((len(notes), self.groups), np.int64)
        last[:, 0] = lengths.sum(axis=1)
        return Inside(Ends(np.zeros_like(last), last), _resolve(decision.searches, lanes), decision.shape, lengths)


class ExtractAgain(Extract):
    """The same of what is left of each lane of a part."""

    rereads = False

    def work(self, given: Given) -> Made:
        return self._extract([one.keys for one in _kept(given)], given.decision)


@dataclass(frozen=True)
class Finish(Superstep):
    """Find the statistic of all lanes, shape `statistic.shape` and then that of the dimensions that are left."""

    stage = ""
    side = "group"

    statistic: Statistic | Ranks
    axes: tuple[int, ...]  # the reduced dimensions
    keepdims: bool  # whether they are kept, with size 1

    def work(self, given: Given) -> Made:
        if given.number:  # of a gang, whose other groups make nothing
            return Made()
        inside, ops = given.decision, ops_for(given.pieces[0][1].keys)
        sizes = [1 if dim in self.axes else size for dim, size in enumerate(inside.shape)]
        kept = [size for dim, size in enumerate(sizes) if self.keepdims or dim not in self.axes]
        if 0 in kept:
            dtype = self.statistic.dtype_of(inside.searches[0].found.dtype)
            return Made(arrays=(ops.moved_here(np.empty((*self.statistic.shape, *kept), dtype)),))
        parts = []
        for part, run in given.pieces:
            ends = accumulate(inside.lengths[part].tolist(), initial=0)
            parts.append([run.keys[first:last] for first, last in pairwise(ends)])
        found = [
            replace(search, found=selection.finish(search, ops.keys_at(lane, search.left)))
            for search, lane in zip(inside.searches, zip(*parts, strict=True), strict=True)
        ]
        return Made(arrays=(ops.moved_here(result_of(found, self.statistic).reshape((*self.statistic.shape, *kept))),))


def selection_steps(
    statistic: Statistic | Ranks,
    axes: tuple[int, ...],
    dtype: np.dtype[Any],
    keepdims: bool,
    keys_per_stratum: Sequence[float],
    sorts: tuple[bool, bool],
    groups: int = 1,
) -> tuple[Superstep, ...]:
    """The program of a selection in some rounds; `sorts` says of both passes over the source whether they sort it."""
    steps: list[Superstep] = []
    for level, stratum in enumerate(keys_per_stratum):
        of_draw = f"select-draw-{level}", statistic, axes, dtype, stratum, sorts[bool(level)], f"select-scan-{level}"
        draw = (DrawAgain if level else Draw)(*of_draw)
        moves: Literal["", "out"] = "out" if level + 1 == len(keys_per_stratum) else ""
        of_extract = f"select-extract-{level}", draw.lean, sorts[1], groups, moves
        steps += [draw, (ExtractAgain if level else Extract)(*of_extract)]
    return (*steps, Finish(statistic, axes, keepdims))


# ----------------------------------------------------------------------------------------------------------- decisions


def drawn_of(note: Shared) -> list[Taken]:
    """The samples of each lane of a part, from its first note."""
    return unpack(note.counts[1 + note.counts[0] :], note.rows)


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


def _resolve(searches: Sequence[selection.Search], lanes: Sequence[Sequence[Taken]]) -> list[selection.Search]:
    """Find the ranks on ends of brackets, from the counts of all parts."""
    try:
        return [
            selection.resolve(search, np.sum([one.ends for one in lane], axis=0))
            for search, lane in zip(searches, lanes, strict=True)
        ]
    except LookupError as error:
        raise changed_source("the counts of the keys do not fit their samples") from error


def _same(keys: Any, others: Any) -> bool:
    """Whether all keys of two arrays of the same shape are equal, NaN too."""
    return bool(((keys == others) | (keys != keys) & (others != others)).all())


def result_of(searches: Sequence[selection.Search], statistic: Statistic | Ranks) -> np.ndarray:
    """The statistic of each lane, from searches that have found the keys at all ranks."""
    count, nans = (np.array([getattr(one, name) for one in searches], np.int64) for name in ("size", "nans"))
    ranks = statistic.ranks(count)
    keys = np.zeros(ranks.shape, searches[0].found.dtype)
    for lane, search in enumerate(searches):
        if len(search.found):
            keys[..., lane] = search.found[np.searchsorted(search.ranks, ranks[..., lane])]
    return statistic.result(keys, count, nans)
