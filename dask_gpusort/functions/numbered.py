"""What is made of the tie groups of a group of keys: values, counts, first positions, numbers and ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from ..chunk.tie_groups import Ranking, TieGroups, are_nan, may_be_nan, ranks_of_groups
from ..table import IntArray


class Offset(NamedTuple):
    """Say where a group's tie groups are in the whole."""

    number: int = 0  # of the first tie group
    before: int = 0  # keys of the input in earlier groups
    nans: int = 0  # keys of the whole input that are NaN


@dataclass(frozen=True)
class Numbered:
    """Hold the tie groups of the distinct keys of all parts in one group of keys."""

    groups: TieGroups
    amounts: Any = None  # shape (n,): keys of the input for which each distinct key of a part stands; None if unknown
    firsts: Any = None  # shape (n,): their first positions; None if not wanted

    @cached_property
    def ends(self) -> Any:
        """Keys of the group before each tie group, and behind all: shape (groups + 1,)."""
        return self.groups.sums_before(self.amounts)

    @property
    def counts(self) -> Any:
        """Keys of the input in each tie group."""
        return self.amounts.astype(np.int64) if self.groups.all_differ else np.diff(self.ends)

    @property
    def nans(self) -> Any:
        """Whether each key is NaN."""
        return are_nan(self.groups.keys)

    @property
    def passed(self) -> Any:
        """Keys of the group that precede those that each key stands for."""
        found = np.cumsum(self.amounts, dtype=np.int64)
        found -= self.amounts
        return found

    @property
    def header(self) -> IntArray:
        """What others must know: how many tie groups there are, and, if counted, their keys, and how many are NaN."""
        if self.amounts is None:
            return np.array([self.groups.count, 0, 0])
        nans = self.amounts[self.nans] if may_be_nan(self.groups.keys.dtype) else self.amounts[:0]
        return np.array([self.groups.count, int(self.amounts.sum()), int(nans.sum())])


@dataclass(frozen=True)
class OfGroups:
    """Make an array of one element for each tie group."""

    what: Literal["values", "counts", "firsts"]

    def __call__(self, numbered: Numbered) -> Any:
        if self.what == "counts":
            return numbered.counts
        groups = numbered.groups
        return groups.values if self.what == "values" else groups.of_firsts(numbered.firsts)


class NumberOf:
    """Make the number of each key's tie group."""

    def __call__(self, numbered: Numbered) -> Any:
        return numbered.groups.numbers

    def in_whole(self, numbers: Any, offset: Offset) -> Any:
        """What they are in the whole."""
        return numbers.astype(np.int64) + offset.number


@dataclass(frozen=True)
class RankOf:
    """Make the rank of each sorted distinct key; of "ordinal" ranks that of the first of its keys."""

    # A reply is an integer: an average rank is doubled, and 0 is that of NaN.

    ranking: Ranking
    dtype: np.dtype[Any]  # of the ranks

    def __call__(self, numbered: Numbered) -> Any:
        method, groups = self.ranking.method, numbered.groups
        if method == "ordinal":
            ranks = numbered.passed + 1
        elif method == "dense":
            ranks = groups.numbers + 1
        else:
            before, after = numbered.ends[:-1], numbered.ends[1:]
            if method == "average":
                amounts = before + after
                amounts += 1
            else:
                amounts = ranks_of_groups(method, before, after)
            ranks = groups.spread(amounts)
        if may_be_nan(groups.keys.dtype):
            nans = numbered.nans
            self.ranking.refuse_nan(nans.any())
            ranks = np.where(nans, 0, ranks)
        return ranks

    def in_whole(self, replies: Any, offset: Offset) -> Any:
        """The ranks in the whole."""
        halves = self.ranking.method == "average"
        ranks = replies.astype(np.int64)
        ranks += (offset.number if self.ranking.method == "dense" else offset.before) << halves
        ranks = ranks / 2 if halves else ranks.astype(self.dtype, copy=False)
        if offset.nans:
            ranks[replies == 0 if self.ranking.nan_policy == "omit" else slice(None)] = np.nan
        return ranks
