"""Distinct keys as a program: unique values, sets of two arrays, inverses, ranks.

Each part finds its own distinct keys, so few distinct keys make small messages, whatever the number of keys is. Keys
that sampled ones divide into equal parts, the *splitters*, cut these into groups. Equal keys are so in one group: what
a group knows of its tie groups is final, but how many groups and keys are before them, which the notes tell::

    part        Distinct    its distinct keys, sorted; the place of each key among them stays
                    |                                                    notes: samples; decision: splitters
                Cut                                                      notes: exact cuts
                    |  out
    group       Merge       tie groups, and the results for each
                    or
                Number      tie groups, which stay                       notes: their numbers, keys and NaN
                Reply      the results; for inverses and ranks, an reply for each distinct key that arrived
                    |  back
    part        Spread      the reply of its distinct key for each key

The most common key is one of those that are most common in a part of the distinct keys (`MostCommon`).
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from ..chunk import complete, numpy_ops, ops_for
from ..chunk.distinct import Columns, find_distinct
from ..chunk.reducers import leave_out_nan
from ..chunk.run import Run
from ..chunk.tie_groups import Ranking, TieGroups, are_nan, may_be_nan, ranks_of_groups
from ..order import Order
from ..table import IntArray, RankSummary, exclusive_scan
from .program import Ends, Given, Made, Superstep, ends_of_cuts

#: Which tie groups of two sides are kept: all, those of both sides, of the first side alone, or of one side alone.
Keep = Literal["all", "both", "first", "one"]


class Offset(NamedTuple):
    """Say where a group's tie groups are in the whole."""

    number: int = 0  # of the first tie group
    before: int = 0  # keys of the input in earlier groups
    nans: int = 0  # keys of the whole input that are NaN


NO_OFFSET = Offset()


@dataclass(frozen=True)
class Numbered:
    """Hold the tie groups of the distinct keys of all parts in one group of keys."""

    groups: TieGroups
    amounts: Any = None  # shape (n,): keys of the input for which each distinct key of a part stands; None if unknown
    firsts: Any = None  # shape (n,): their first positions; None if not wanted
    second: Any = None  # shape (n,): whether the part is of the second side, whose keys follow equal ones of the first
    offset: Offset = NO_OFFSET

    @property
    def numbers(self) -> Any:
        """The number of each key's tie group in the whole."""
        return self.groups.numbers + self.offset.number

    @cached_property
    def ends(self) -> Any:
        """Keys of the input before each tie group, and behind all: shape (groups + 1,)."""
        return self.groups.sums_before(self.amounts, self.offset.before)

    @property
    def counts(self) -> Any:
        """Keys of the input in each tie group."""
        return self.amounts.astype(np.int64) if self.groups.all_differ else np.diff(self.ends)

    @property
    def sides(self) -> tuple[Any, Any]:
        """Whether each tie group has keys of the first side, and of the second."""
        groups, second = self.groups, self.second
        first, last = ~groups.of_firsts(second), groups.of_lasts(second)
        if groups.count and may_be_nan(groups.keys.dtype):  # the order of NaN is no order of the sides
            others = second[int(groups.bounds[-2]) :]
            first[-1:], last[-1:] = ~others.all(), others.any()
        return first, last

    def first_positions(self, side: int) -> Any:
        """The first position of each tie group on a side, -1 if there is none."""
        if self.second is None:
            return self.groups.of_firsts(self.firsts)
        return self.groups.first_where(self.second if side else ~self.second, self.firsts)

    @property
    def nans(self) -> Any:
        """Whether each key is NaN."""
        return are_nan(self.groups.keys)

    @property
    def passed(self) -> Any:
        """Keys of the input that precede those that each key stands for."""
        found = np.cumsum(self.amounts, dtype=np.int64)
        found -= self.amounts
        found += self.offset.before
        return found

    @property
    def header(self) -> IntArray:
        """What others must know: how many tie groups there are, and, if counted, their keys, and how many are NaN."""
        if self.amounts is None:
            return np.array([self.groups.count, 0, 0])
        nans = self.amounts[self.nans] if may_be_nan(self.groups.keys.dtype) else self.amounts[:0]
        return np.array([self.groups.count, int(self.amounts.sum()), int(nans.sum())])

    def placed(self, headers: IntArray, number: int) -> Numbered:
        """Put these tie groups behind those of earlier groups of keys."""
        first, before, _ = headers[:number].sum(axis=0).tolist()
        return replace(self, offset=Offset(first, before, int(headers[:, 2].sum())))


@dataclass(frozen=True)
class Tally:
    """Say when keys are one tie group, and which parts are of the second side."""

    equal_nan: bool = True  # whether all NaN are one tie group
    second: int | None = None  # the first chunk, or the first part, of the second side; None if there is one side

    def number(self, column: dict[str, Any]) -> Numbered:
        """Find the tie groups of sorted keys; `column` has "values", and "counts", "firsts" and "second" if known."""
        groups = ops_for(column["values"]).tie_groups(column["values"], self.equal_nan)
        return Numbered(groups, column.get("counts"), column.get("firsts"), column.get("second"))


# ------------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class OfGroups:
    """Make an array of one element for each tie group that is kept."""

    what: Literal["values", "counts", "firsts"]
    keep: Keep = "all"
    side: int = 0  # of counts and firsts

    def __call__(self, numbered: Numbered) -> Any:
        if self.what == "counts":
            return numbered.counts
        if self.what == "firsts":
            return numbered.first_positions(self.side)[self._kept(numbered)]
        groups = numbered.groups
        return groups.values if self.keep == "all" else groups.keys[groups.bounds[self._kept(numbered)]]

    def _kept(self, numbered: Numbered) -> Any:
        """The numbers of the tie groups that are kept."""
        if self.keep == "all":
            return slice(None)
        first, second = numbered.sides
        # A tie group of NaN counts as one for each side, which the other side lacks.
        nans = numbered.groups.of_firsts(numbered.nans)
        if self.keep == "both":
            found = first & second & ~nans
        else:
            found = first & (~second | nans) if self.keep == "first" else (first ^ second) | nans
        kept = numbered.groups.numbers_where(found)
        # NaN of both sides differ, so that each side has one.
        twice = self.keep == "one" and len(first) and bool((first & second & nans)[-1])
        return np.concatenate([kept, kept[-1:]]) if twice else kept


def numbers(numbered: Numbered) -> Any:
    """The number of each key's tie group."""
    return numbered.numbers


@dataclass(frozen=True)
class RankOf:
    """Make the rank of each sorted distinct key; of "ordinal" ranks that of the first of its keys."""

    ranking: Ranking

    def __call__(self, numbered: Numbered) -> Any:
        ranking, groups, nans = self.ranking, numbered.groups, numbered.offset.nans
        ranking.refuse_nan(nans)
        if ranking.method == "ordinal":
            ranks = numbered.passed + 1
        elif ranking.method == "dense":
            ranks = numbered.numbers + 1
        else:
            ranks = groups.spread(ranks_of_groups(ranking.method, None, numbered.ends[:-1], numbered.ends[1:]))
        ranks = ranks.astype(ranking.dtype_of(groups.keys.dtype), copy=False)
        if nans and ranking.nan_policy == "propagate":
            ranks[:] = np.nan
        elif nans:
            ranks[numbered.nans] = np.nan
        return ranks


# ---------------------------------------------------------------------------------------------------------- supersteps


class Splitters(NamedTuple):
    """Divide keys into groups."""

    keys: np.ndarray  # in transit, shape (groups - 1,); none if all keys are NaN
    sizes: IntArray  # shape (parts,): keys of the input in each part


@dataclass(frozen=True)
class Distinct(Superstep):
    """Find the distinct keys of a part."""

    stage = "unique-local"
    listing = "unique-scan"
    keeps = True

    order: Order  # stable
    columns: Columns
    equal_nan: bool
    groups: int
    samples: int  # of each part
    count_dtype: np.dtype[Any]

    def work(self, given: Given) -> Made:
        blocks = given.blocks
        ops, flat = ops_for(blocks[0]), [block.reshape(-1) for block in blocks]
        keys = flat[0] if len(flat) == 1 else ops.concatenate(flat)
        found = find_distinct(keys, self.order, self.columns, self.equal_nan)
        if self.columns.counts:
            found = replace(found, counts=found.counts.astype(self.count_dtype, copy=False))
        run = Run(ops.encode(found.values, self.order), tuple(getattr(found, name) for name in sent(self.columns)))
        summary = ops.summarize_run(run, self.order, samples=self.samples)
        of_keys = tuple(one for one in (found.inverse, found.repeats) if one is not None)
        stays = Run(of_keys[0], of_keys[1:]) if of_keys else None
        return Made((summary, len(keys)), run, [block.shape for block in blocks], stays)

    def decide(self, notes: Sequence[tuple[RankSummary, int]], decision: Any) -> Splitters:
        summaries, sizes = zip(*notes, strict=True)
        return Splitters(find_splitters(summaries, self.groups, self.order), np.array(sizes, np.int64))

    def mark(self, note: tuple[RankSummary, int]) -> int:
        summary, size = note
        return zlib.crc32(repr((summary.checksum, size)).encode())


def sent(columns: Columns) -> list[str]:
    """Names of the columns that travel with distinct keys."""
    return [name for name in ("counts", "firsts") if getattr(columns, name)]


def find_splitters(summaries: Sequence[RankSummary], groups: int, order: Order) -> np.ndarray:
    """Keys in transit, shape (groups - 1,), that divide sampled keys into equal parts; none if all of them are NaN.

    No splitter is NaN, so that all NaN, which differ in their order but may be one tie group, are in one group.
    """
    keys = numpy_ops.concatenate([summary.keys for summary in summaries])
    weights = np.concatenate([np.full(len(one.keys), one.size / max(len(one.keys), 1)) for one in summaries])
    kept = ~are_nan(numpy_ops.decode(keys.copy(), order))
    keys, weights = keys[kept], weights[kept]
    if not len(keys):
        return keys
    sorts = numpy_ops.key_order(order).argsort(keys)
    before = np.cumsum(weights[sorts])
    wanted = before[-1] * np.arange(1, groups) / groups
    splitters: np.ndarray = keys[sorts][np.searchsorted(before, wanted)]
    return splitters


def cuts_at(run: Run, splitters: np.ndarray, groups: int, order: Order) -> IntArray:
    """Where the keys of each group begin in a run, and its end: shape (groups + 1,)."""
    cuts = np.full(groups + 1, len(run), np.int64)
    cuts[0] = 0
    if len(splitters):
        cuts[1:-1] = ops_for(run.keys).sorted_keys(run, order).search(splitters, "left") if len(run) else 0
    return cuts


class Cuts(NamedTuple):
    """Say how the parts are cut."""

    ends: Ends
    starts: IntArray  # shape (parts + 1,): the position of each part's first key in the input


@dataclass(frozen=True)
class Cut(Superstep):
    """Cut the distinct keys of a part at the splitters."""

    stage = "unique-cut"
    listing = "unique-list"
    moves = "out"

    order: Order
    groups: int

    def work(self, given: Given) -> Made:
        assert given.run is not None
        splitters: Splitters = given.decision
        cuts = cuts_at(given.run(), splitters.keys, self.groups, self.order)
        return Made(np.append(cuts, splitters.sizes[given.number]))

    def decide(self, notes: Sequence[IntArray], decision: Any) -> Cuts:
        found = np.stack(notes)
        return Cuts(ends_of_cuts(found[:, :-1]), exclusive_scan(found[:, -1]))


@dataclass(frozen=True)
class Merged:
    """Merge the distinct keys of a group, which all parts have sent."""

    order: Order
    columns: Columns
    tally: Tally

    def names(self, replies: bool) -> list[str]:
        """Names of the columns beside the sorted keys."""
        return [*sent(self.columns), *["second"] * (self.tally.second is not None), *["positions"] * replies]

    def merge(self, given: Given, replies: bool) -> Run:
        """Merge what has arrived, as the user's keys; with `replies`, with their positions as they arrived."""
        pieces = [run for _, run in given.pieces]
        if self.columns.firsts:  # the last column
            pieces = [
                Run(run.keys, (*run.values[:-1], run.values[-1] + int(given.decision.starts[part])))
                for part, run in given.pieces
            ]
        ops, second = ops_for(pieces[0].keys), self.tally.second
        if not replies and second is None:
            return self._merge(pieces)
        # Positions alone move with the keys: kernels move one companion.
        rows = list(accumulate(map(len, pieces), initial=0))
        dtype = np.uint32 if rows[-1] <= np.iinfo(np.uint32).max else np.int64
        ends = zip(pieces, pairwise(rows), strict=True)
        merged = self._merge([Run(run.keys, (np.arange(*end, dtype=dtype, like=run.keys),)) for run, end in ends])
        (positions,) = merged.values
        values = [ops.concatenate(own)[positions] for own in zip(*(run.values for run in pieces), strict=True)]
        if second is not None:
            parts = [part for part, _ in given.pieces]
            values.append(positions >= rows[bisect_left(parts, second)])
        return Run(merged.keys, (*values, *[positions] * replies))

    def _merge(self, pieces: Sequence[Run]) -> Run:
        # A merge of several pieces copies them; it may write to one alone, which another group may have, too.
        ops = ops_for(pieces[0].keys)
        merged = ops.merge(pieces if len(pieces) > 1 else [pieces[0].copy()], self.order)
        return Run(ops.decode(merged.keys, self.order), merged.values)

    def number(self, merged: Run, replies: bool) -> tuple[Numbered, Any]:
        """The tie groups of sorted keys, and the positions of the keys, if they are replied."""
        column = dict(zip(self.names(replies), merged.values, strict=True))
        column["values"] = merged.keys
        return self.tally.number(column), column.get("positions")


@dataclass(frozen=True)
class Merge(Superstep):
    """Make the results of a group's tie groups, which need nothing of other groups."""

    stage = "unique-merge"
    side = "group"

    merged: Merged
    makes: tuple[Callable[[Numbered], Any], ...]

    def work(self, given: Given) -> Made:
        numbered, _ = self.merged.number(self.merged.merge(given, False), False)
        return Made(arrays=tuple(make(numbered) for make in self.makes))


@dataclass(frozen=True)
class Number(Superstep):
    """Find the tie groups of a group, and say how many there are."""

    stage = "unique-merge"
    listing = "unique-totals"
    side = "group"
    keeps = True

    merged: Merged

    def work(self, given: Given) -> Made:
        merged = self.merged.merge(given, True)
        numbered, _ = self.merged.number(merged, True)
        return Made(numbered.header, stays=merged)

    def decide(self, notes: Sequence[IntArray], decision: Any) -> IntArray:
        return np.stack(notes)


@dataclass(frozen=True)
class Reply(Superstep):
    """Make the results of a group's tie groups, and the replies for the keys that have arrived."""

    stage = "unique-number"
    listing = "unique-replies"
    side = "group"
    moves = "back"

    merged: Merged
    makes: tuple[Callable[[Numbered], Any], ...]
    reply: Callable[[Numbered], Any]

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        numbered, positions = self.merged.number(given.stays(), True)
        numbered = numbered.placed(given.decision, given.number)
        replies = ops_for(positions).scatter(self.reply(numbered), positions)
        return Made(run=Run(replies), arrays=tuple(make(numbered) for make in self.makes))


class Total(Superstep):
    """Count the tie groups of all groups, in each."""

    stage = "unique-number"
    side = "group"

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        total = np.asarray(given.decision[:, 0].sum(), dtype=np.int64, like=given.stays().keys)
        return Made(arrays=(total[()],))


@dataclass(frozen=True)
class Spread(Superstep):
    """Give each key of a part the reply of its distinct key."""

    stage = "unique-spread"

    divided: bool = False  # whether replies are divided by the number of keys that are not NaN, at least 1

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        known = ops_for(given.pieces[0][1].keys).concatenate([run.keys for _, run in given.pieces])
        kept = given.stays()
        found = spread(known, kept.keys, *kept.values)
        if self.divided:
            _, keys, nans = given.decision.sum(axis=0).tolist()
            found = found / max(keys - nans, 1)
        ends = pairwise(accumulate(map(math.prod, given.memo), initial=0))
        # Chunks of one part are copied: a view would keep all of them.
        parts = [found] if len(given.memo) == 1 else [found[first:last].copy() for first, last in ends]
        return Made(arrays=([one.reshape(shape) for one, shape in zip(parts, given.memo, strict=True)],))


def spread(known: Any, inverse: Any, added: Any = None) -> Any:
    """Give each key what its distinct key knows, plus what is added."""
    found = known[inverse]
    if added is not None:
        found += added
    return found


@dataclass(frozen=True)
class MostCommon(Superstep):
    """Find the most common of the distinct keys of a part, which ascend, and its count; of equal counts the first."""

    stage = "most-common"
    concludes = True

    dtype: np.dtype[Any]
    nan_policy: Any

    def work(self, given: Given) -> Made:
        values, counts = given.blocks[0], given.blocks[1].copy()
        leave_out_nan(values, counts, self.nan_policy)
        first = int(counts.argmax()) if len(counts) else 0
        return Made([column[first : first + 1].copy() for column in (values, counts)])

    def decide(self, notes: Sequence[Any], decision: Any) -> tuple[Any, ...]:
        values, counts = map(np.concatenate, zip(*notes, strict=True))
        first = int(counts.argmax())
        return complete(values[first : first + 1].astype(self.dtype)), counts[first : first + 1]
