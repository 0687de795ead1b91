"""Distinct keys as a program: unique values, inverses, ranks.

Each part finds its own distinct keys, so few distinct keys make small messages, whatever the number of keys is. Keys
that sampled ones divide into equal parts, the *splitters*, cut these into groups. Equal keys are so in one group: what
a group knows of its tie groups is final, but how many groups and keys are before them, which the notes tell::

    part        Distinct    its distinct keys, sorted; the place of each key among them stays
                    |                                                    notes: samples; decision: splitters
                Cut                                                      notes: exact cuts
                    |  out
    group       Merge       tie groups, and the results for each
                or
                Reply       tie groups, the results for each, which stay, and a reply for each distinct key that
                    |       arrived, as if the group were the first one
                    |  back                                      notes: numbers of tie groups, of keys and of NaN
    part        Spread      the reply of its distinct key for each key, behind what is before its group
    group       Results     those that stayed: the task that lists the replies would have them of all groups

Sets of two arrays merge in another way (see `sets`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..chunk import numpy_ops, ops_for
from ..chunk.distinct import Columns, find_distinct
from ..chunk.run import Run
from ..chunk.tie_groups import are_nan
from ..order import Order
from ..table import IntArray, RankSummary, exclusive_scan
from .numbered import Numbered, Offset
from .program import Ends, Given, Made, Superstep, ends_of_cuts


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
    count_dtype: np.dtype[Any]  # of the counts that travel, which are at most the keys of a part

    @property
    def copies(self) -> float:
        # Measured for 2^22 int32 and int64 with `tracemalloc`; of strings of 20 bytes 3.8.
        one = self.columns
        added = 16 + 4 * one.counts + 8 * (one.firsts + one.inverse) + 12 * one.repeats
        return 2 + added / self.order.dtype.itemsize if self.order.coded else 4

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
    equal_nan: bool = True  # whether all NaN are one tie group

    def arrived(self, given: Given) -> list[tuple[int, Run]]:
        """The distinct keys that each part has sent, with their first positions in the whole input."""
        if not self.columns.firsts:
            return list(given.pieces)
        starts = given.decision.starts
        return [
            (part, Run(run.keys, (*run.values[:-1], run.values[-1] + int(starts[part])))) for part, run in given.pieces
        ]

    def join(self, runs: Sequence[Run]) -> Run:
        """Merge runs in transit to the user's keys."""
        # A merge of several runs copies them; it may write to one alone, which another group may have, too.
        ops = ops_for(runs[0].keys)
        merged = ops.merge(runs if len(runs) > 1 else [runs[0].copy()], self.order)
        return Run(ops.decode(merged.keys, self.order), merged.values)

    def number(self, merged: Run) -> Numbered:
        """The tie groups of sorted keys."""
        groups = ops_for(merged.keys).tie_groups(merged.keys, self.equal_nan)
        column = dict(zip(sent(self.columns), merged.values, strict=False))
        return Numbered(groups, column.get("counts"), column.get("firsts"))


@dataclass(frozen=True)
class Merge(Superstep):
    """Make the results of a group's tie groups, which need nothing of other groups."""

    stage = "unique-merge"
    side = "group"

    merged: Merged
    makes: tuple[Callable[[Numbered], Any], ...]

    def work(self, given: Given) -> Made:
        merged = self.merged.join([run for _, run in self.merged.arrived(given)])
        numbered = self.merged.number(merged)
        return Made(arrays=tuple(make(numbered) for make in self.makes))


@dataclass(frozen=True)
class Number(Superstep):
    """Say how many tie groups a group has."""

    stage = "unique-merge"
    listing = "unique-totals"
    side = "group"
    keeps = True

    merged: Merged

    def work(self, given: Given) -> Made:
        merged = self.merged.join([run for _, run in self.merged.arrived(given)])
        return Made(self.merged.number(merged).header, stays=Run(merged.keys[:0].copy()))

    def decide(self, notes: Sequence[IntArray], decision: Any) -> IntArray:
        return np.stack(notes)


@dataclass(frozen=True)
class Reply(Number):
    """Keep the results of a group's tie groups, and make the replies for the keys that have arrived."""

    listing = "unique-replies"
    moves = "back"

    makes: tuple[Callable[[Numbered], Any], ...]
    reply: Callable[[Numbered], Any]
    reply_dtype: np.dtype[Any]

    @property
    def copies(self) -> float:
        # Measured as that of `Distinct`; of strings of 20 bytes 7.5.
        columns, order = self.merged.columns, self.merged.order
        return 1 + 36 / (order.dtype.itemsize + 4 * columns.counts + 8 * columns.firsts) if order.coded else 6

    def work(self, given: Given) -> Made:
        merged, positions = self._join_with_positions([run for _, run in self.merged.arrived(given)])
        numbered = self.merged.number(merged)
        replies = self.reply(numbered).astype(self.reply_dtype, copy=False)
        answered = Run(ops_for(positions).scatter(replies, positions))
        results = [make(numbered) for make in self.makes]
        return Made(numbered.header, answered, stays=Run(results[0], tuple(results[1:])) if results else None)

    def _join_with_positions(self, runs: Sequence[Run]) -> tuple[Run, Any]:
        """Merge runs, and give the positions of the keys as they arrived."""
        # Positions alone move with the keys: kernels move one companion.
        ends = list(pairwise(accumulate(map(len, runs), initial=0)))
        dtype = np.uint32 if ends[-1][1] <= np.iinfo(np.uint32).max else np.int64
        numbers = np.arange(ends[-1][1], dtype=dtype, like=runs[0].keys)
        merged = self.merged.join([Run(run.keys, (numbers[slice(*own)],)) for run, own in zip(runs, ends, strict=True)])
        (positions,) = merged.values
        columns = map(ops_for(positions).concatenate, zip(*(run.values for run in runs), strict=True))
        return Run(merged.keys, tuple(column[positions] for column in columns)), positions


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

    in_whole: Callable[[Any, Offset], Any]
    divided: bool = False  # whether replies are divided by the number of keys that are not NaN, at least 1

    @property
    def copies(self) -> float:
        # Replies of 4 bytes and their numbers become 8 bytes each, some of them twice.
        return 4

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        headers = given.decision
        before, nans = np.cumsum(headers, axis=0) - headers, int(headers[:, 2].sum())
        placed = [
            self.in_whole(run.keys, Offset(int(before[group, 0]), int(before[group, 1]), nans))
            for group, run in given.pieces
        ]
        known = ops_for(placed[0]).concatenate(placed)
        kept = given.stays()
        found = spread(known, kept.keys, *kept.values)
        if self.divided:
            _, keys, nans = given.decision.sum(axis=0).tolist()
            found = found / max(keys - nans, 1)
        ends = pairwise(accumulate(map(math.prod, given.memo), initial=0))
        # Chunks of one part are copied: a view would keep all of them.
        parts = [found] if len(given.memo) == 1 else [found[first:last].copy() for first, last in ends]
        return Made(arrays=([one.reshape(shape) for one, shape in zip(parts, given.memo, strict=True)],))


class Results(Superstep):
    """Give the results of a group that stayed."""

    stage = "unique-results"
    side = "group"

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        return Made(arrays=given.stays().arrays)


def spread(known: Any, inverse: Any, added: Any = None) -> Any:
    """Give each key what its distinct key knows, plus what is added."""
    found = known[inverse]
    if added is not None:
        found += added
    return found
