r"""Searches as a program: needles are looked up among sorted keys that are too many for one array.

Groups have the keys, which are sorted, and parts the needles::

    part        Needles     sorted, and their positions, which stay
    group       Keys        its chunks, joined                               notes: how many, and the first
                    |
    part        Cut         where the needles for each group begin           notes: exact cuts
                    |  out
    group       LookUp      what is wanted of them
                    |  back
    part        Scatter     what was found, at the positions that stayed

An interpolation joins the values at the keys with these, and its notes have the first value of each group too: needles
behind the last key of a group are between this key and the first one of the next group.

Keys that are one array, or groups in one memory, go to all needles without a program: `look_up`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..chunk import complete, ops_for
from ..chunk.numpy_search import make_value_set, occur
from ..chunk.run import Run, concatenate
from ..chunk.steps import check_lengths
from ..order import Order, holds_objects, of_floors
from ..table import IntArray, Side
from .positions import Fill
from .program import Ends, Given, Made, Superstep, ends_of_cuts

#: Sorted keys in transit and None; a set of values and the least of them (see `chunk.numpy_search`); or keys and the
#: values at them, for an interpolation.
SortedKeys: TypeAlias = tuple[Any, Any]

#: Needles of the checksum of a part, to recognise them if they are sorted again.
SAMPLES = 64


@dataclass(frozen=True)
class Interpolation:
    """Say what is interpolated between keys."""

    dtype: np.dtype[Any]  # of the values at the keys, as their array says
    left: complex | None  # for needles before all keys; None is the first value
    right: complex | None  # for needles behind all keys; None is the last value

    def at(self, needles: Any, keys: Any, values: Any) -> Any:
        """The values at needles, shape (n,)."""
        return ops_for(needles).interpolate(needles, keys, values, (self.left, self.right))


@dataclass(frozen=True)
class Question:
    """Say what is asked of each needle."""

    order: Order  # of keys and needles, in their common dtype
    #: The rank of the needle from one side; whether it is, or is not, among the keys; or the value at it.
    want: Literal["left", "right", "in", "not in", "value"]
    most_values: float = 0  # largest range of integers for which a set of values is made
    presorted: bool = True  # whether the keys are sorted
    joined: bool = True  # whether all keys are one array
    interpolation: Interpolation | None = None  # if values are wanted

    @property
    def is_rank(self) -> bool:
        """Whether a rank is wanted."""
        return self.want in ("left", "right")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        if self.interpolation is not None:
            return np.dtype(np.complex128 if self.interpolation.dtype.kind == "c" else np.float64)
        return np.dtype(np.int64 if self.is_rank else bool)

    @property
    def side(self) -> Side:
        """The side of the search. A key that is equal to a needle is before the needle's rank from the right."""
        return "left" if self.want == "left" else "right"

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of the needles, of the keys, and of what is beside these, in error messages."""
        if self.interpolation is not None:
            return "x", "xp", "fp"
        keys = ("the needles", "the sorted keys") if self.is_rank else ("the elements", "test_elements")
        return *keys, "the sorter"

    @property
    def transit(self) -> Order:
        """The order of keys and needles in transit."""
        return of_floors(self.order)

    def in_transit(self, array: Any) -> Any:
        """Keys or needles in transit, the least of their tie class, shape (n,)."""
        ops = ops_for(array)
        return ops.floor(ops.encode(self._converted(array), self.order), self.order)

    def searched(self, array: Any) -> Any:
        """Keys or needles, shape (n,): in transit, as `ops.rank` takes them in one array, or as the user has them."""
        if self.interpolation is not None:
            return self._converted(array)
        if not (self.is_rank and self.joined):
            return self.in_transit(array)
        return ops_for(array).ranked_keys(self._converted(array), self.order)

    def _converted(self, array: Any) -> Any:
        """Keys or needles in their common dtype, shape (n,)."""
        dtype = self.order.dtype
        flat = array.reshape(-1)
        if dtype.kind in "SU":
            # A chunk may have longer strings than its array says.
            flat = flat.astype(dtype.kind, copy=False)
        elif flat.dtype != dtype:
            flat = flat.astype(dtype)
        return flat


def join_keys(chunks: Sequence[Any], question: Question, others: Sequence[Any] = ()) -> SortedKeys:
    """Join chunks of keys into one sorted array.

    `others` are chunks of the positions that sort the keys, none if they are sorted; or of values at the keys.
    """
    ops = ops_for(chunks[0])
    keys = ops.concatenate([chunk.reshape(-1) for chunk in chunks])
    if question.want in ("in", "not in"):
        keys = _that_can_be_equal(keys, question.order.dtype)
    if _is_compared_by_numpy(question):
        return keys, None
    keys = question.searched(keys)
    if question.interpolation is not None:
        for chunk, values in zip(chunks, others, strict=True):
            check_lengths(chunk, [values])
        return keys, complete(ops.concatenate(others).astype(question.dtype, copy=False))
    if others:
        keys = keys[_checked_sorter(ops.concatenate(others), len(keys))]
    if not question.presorted:
        keys = ops.sort_rows(keys, question.transit, 0, overwrite=True)
    found = make_value_set(keys, question.most_values) if question.most_values else None
    return (complete(keys), None) if found is None else (complete(found[0]), found[1])


def _that_can_be_equal(test: Any, dtype: np.dtype[Any]) -> Any:
    """Test elements that an element of a dtype may be equal to: no NaN, and no integers out of its range."""
    if test.dtype.kind not in "biuSUO":
        test = test[test == test]
    if dtype.kind == "u" and test.dtype.kind == "i":
        return test[test >= 0]
    if dtype.kind == "i" and test.dtype.kind == "u":
        return test[test <= np.uint64(np.iinfo(dtype).max)]
    return test


def _checked_sorter(sorter: Any, size: int) -> Any:
    if len(sorter) != size:
        raise ValueError("sorter.size must equal a.size")
    if size and not (int(sorter.min()) >= 0 and int(sorter.max()) < size):
        raise ValueError("Sorter index out of range.")
    return sorter


def _is_compared_by_numpy(question: Question) -> bool:
    """Whether NumPy compares objects with objects, which need have no order."""
    return holds_objects(question.order.dtype) and not question.is_rank


def look_up(found: SortedKeys | KeyGroups, block: Any, question: Question) -> Any:
    """Look needles up; the result has their shape."""
    if isinstance(found, KeyGroups):
        return complete(look_up_in_groups(found, block, question).reshape(block.shape))
    keys, other = found
    if _is_compared_by_numpy(question):
        return np.isin(block, keys, invert=question.want == "not in")
    needles = question.searched(block)
    if question.interpolation is not None:
        result = question.interpolation.at(needles, keys, other)
    elif other is None:
        ranks = ops_for(block).rank(keys, needles, question.transit, question.side)
        result = wanted_of(keys, needles, ranks, question)
    else:
        result = _inverted(occur(needles, keys, other), question)
    return complete(result.reshape(block.shape))


def look_up_among(keys: Sequence[Any], blocks: Sequence[Any], question: Question) -> list[Any]:
    """Look the needles of some chunks up among all keys (see `whole.Read`)."""
    found = join_keys(keys, question)
    return [look_up(found, block, question) for block in blocks]


def wanted_of(keys: Any, needles: Any, ranks: Any, question: Question) -> Any:
    """Turn the ranks of needles into what the question asks for."""
    if question.is_rank:
        return ranks
    return _inverted(ops_for(keys).equal_before(keys, needles, ranks, question.transit), question)


def _inverted(inside: Any, question: Question) -> Any:
    return ~inside if question.want == "not in" else inside


class Starts(NamedTuple):
    """Say where groups begin."""

    before: list[int]  # keys before each group, and all
    groups: list[int]  # the groups that have keys
    firsts: list[Any]  # the first keys of these, as they are joined, and of an interpolation the values at them


def first_keys(found: SortedKeys) -> tuple[int, list[Any]]:
    """The number of keys of a group, and if it has one the first, with the value at it."""
    return len(found[0]), [complete(one[:1].copy()) for one in found if one is not None]


def starts_of(firsts: Sequence[tuple[int, list[Any]]]) -> Starts:
    """Where groups begin, from their first keys."""
    sizes, keys = zip(*firsts, strict=True)
    groups = [group for group, size in enumerate(sizes) if size]
    columns = [ops_for(column[0]).concatenate(column) for column in zip(*keys, strict=True)]
    return Starts(list(accumulate(sizes, initial=0)), groups, list(map(complete, columns)))


@dataclass(frozen=True)
class KeyGroups:
    """Hold the sorted keys of groups that are in one memory."""

    groups: Sequence[SortedKeys]
    starts: Starts


def look_up_in_groups(found: KeyGroups, block: Any, question: Question) -> Any:
    """What is wanted of needles, shape (n,), looked up group by group."""
    run, ops = sort_needles([block], question), ops_for(block)
    ends = pairwise(cuts_at(run.keys, found.starts, question).tolist())
    pieces = [
        look_up_in_group(keys, run.keys[slice(*end)], found.starts, group, question)
        for group, (keys, end) in enumerate(zip(found.groups, ends, strict=True))
    ]
    scattered = np.empty_like(run.values[0], dtype=question.dtype)
    scattered[run.values[0]] = ops.concatenate(pieces)
    return scattered


def sort_needles(blocks: Sequence[Any], question: Question) -> Run:
    """Needles in transit, sorted, with their positions."""
    ops = ops_for(blocks[0])
    needles = ops.concatenate([question.in_transit(block) for block in blocks])
    return ops.local_sort(needles, (), question.transit, positions=True)


@dataclass(frozen=True)
class Needles(Superstep):
    """Sort the needles of a part; they do not wait for the keys."""

    stage = "search-sort"
    keeps = True

    question: Question

    def work(self, given: Given) -> Made:
        run = sort_needles(given.blocks, self.question)
        summary = ops_for(run.keys).summarize_run(run, self.question.transit, samples=SAMPLES)
        return Made(summary.checksum, Run(run.keys), [block.shape for block in given.blocks], Run(run.values[0]))


@dataclass(frozen=True)
class Keys(Superstep):
    """Join the keys of a group, and the values at them."""

    stage = "search-join"
    listing = "search-scan"
    side = "group"
    keeps = True

    question: Question

    def work(self, given: Given) -> Made:
        count = len(given.blocks) // (1 if self.question.interpolation is None else 2)
        keys, values = found = join_keys(given.blocks[:count], self.question, given.blocks[count:])
        return Made(first_keys(found), stays=Run(keys, () if values is None else (values,)))

    def decide(self, notes: Sequence[tuple[int, list[Any]]], decision: Any) -> Starts:
        return starts_of(notes)

    def mark(self, note: tuple[int, list[Any]]) -> int:
        return note[0]


class Asked(NamedTuple):
    """Say whose needles are where, and where groups begin."""

    ends: Ends
    starts: Starts


@dataclass(frozen=True)
class Cut(Superstep):
    """Cut the sorted needles of a part where groups begin; the first part passes on where that is."""

    stage = "search-cut"
    listing = "search-asked"
    shards = "search-piece"
    moves = "out"

    question: Question

    def work(self, given: Given) -> Made:
        assert given.run is not None
        cuts = cuts_at(given.run().keys, given.decision, self.question)
        return Made((cuts, None if given.number else given.decision))

    def decide(self, notes: Sequence[tuple[IntArray, Starts]], decision: Any) -> Asked:
        return Asked(ends_of_cuts(np.stack([cuts for cuts, _ in notes])), notes[0][1])


def cuts_at(needles: Any, starts: Starts, question: Question) -> IntArray:
    """Where the needles for each group begin among sorted ones, and their number: shape (groups + 1,)."""
    # A needle belongs to the last group that has a key before its rank. All groups before it have keys that are no
    # greater, and all after it none that count.
    #
    # From the left, keys less than the needle are before its rank: the needle is greater than the group's first key.
    side: Side = "right" if question.side == "left" else "left"
    firsts = question.in_transit(starts.firsts[0]) if question.interpolation else starts.firsts[0]
    begins = ops_for(needles).rank(needles, firsts, question.transit, side).tolist()
    # Groups without keys get none, but the first group gets needles before all keys if there are none in any.
    cuts = np.full(len(starts.before), len(needles), np.int64)
    cuts[starts.groups] = begins
    cuts[[0, *starts.groups[:1]]] = 0
    return np.minimum.accumulate(cuts[::-1])[::-1]


@dataclass(frozen=True)
class LookUp(Superstep):
    """Look the needles of a group up among its keys."""

    stage = "search-rank"
    listing = "search-found"
    side = "group"
    moves = "back"
    portions = True

    question: Question

    def work(self, given: Given) -> Made:
        assert given.stays is not None
        run = given.stays()
        found, of_group = (run.keys, next(iter(run.values), None)), (given.decision.starts, given.number, self.question)
        replies: Any = (Run(look_up_in_group(found, needles.keys, *of_group)) for _, needles in given.pieces)
        return Made(run=replies)


def look_up_in_group(found: SortedKeys, needles: Any, starts: Starts, group: int, question: Question) -> Any:
    """What is wanted of sorted needles whose ranks are in a group."""
    keys, ops = found[0], ops_for(needles)
    if question.interpolation is not None:
        decoded = ops.decode(needles.copy(), question.order)
        return interpolate_in_group(found, decoded, starts, group, question.interpolation)
    wanted = wanted_of(keys, needles, ops.rank_sorted(keys, needles, question.transit, question.side), question)
    return wanted.astype(np.int64, copy=False) + starts.before[group] if question.is_rank else wanted


def interpolate_in_group(found: SortedKeys, needles: Any, starts: Starts, group: int, between: Interpolation) -> Any:
    """The values at needles that belong to a group."""
    if not len(needles):
        return found[1][:0]  # the group may be empty, where NumPy refuses to interpolate
    last, values = [one[-1:] for one in found], between.at(needles, *found)
    if starts.before[-1] > 1:
        # Needles behind the last key are between it and the first key of the next group that has one. NumPy gives NaN
        # for NaN if there are at least two keys: behind the last group its last key is repeated.
        number = bisect_right(starts.groups, group)
        following = [one[number : number + 1] for one in starts.firsts] if number < len(starts.groups) else last
        behind = (needles > last[0]) | (needles != needles)
        values[behind] = between.at(needles[behind], *map(concatenate, zip(last, following, strict=True)))
    return values


class Scatter(Fill):
    """Bring what was found for a part into the order and the shapes of its chunks."""

    stage = "search-scatter"
