"""Order statistics of sorted keys as programs: of groups, and of weighted keys.

Parts are chunks of keys and labels that are sorted by labels, then by keys, so a group may be in several::

    part        Edge        its first and its last group             notes: these; decision: those of all
                    |
                Pick        the keys at the ranks of each of its groups that are in this part, which stay
                    |                                                notes: of its first group; decision: all of them
                Join        with what the parts behind know of their first group: the groups that begin here
                or
                JoinAll     the same; the decision is the result, of all groups

A weighted quantile is the smallest key of a lane up to which there is a share of the weight. Weights move with keys::

    part        Weigh           its weight                           notes: these; decision: those of all
                    |
                PickWeighted    the keys at the quantiles, if they are in this part; the first of them is the result
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..chunk import complete, lanes
from ..chunk.groups import Edges, Picked, edge_of, gather_groups, head_of, join_picked, pick_groups
from ..chunk.labels import on_host
from ..table import Statistic
from .program import Given, Made, Superstep


@dataclass(frozen=True)
class Edge(Superstep):
    """Find the first and the last group of a part."""

    stage = "group-edge"
    listing = "group-edges"

    count: int | None  # of groups, None if unknown

    def work(self, given: Given) -> Made:
        keys, labels = given.blocks
        return Made(edge_of(labels, keys, self.count))

    def decide(self, notes: Sequence[Any], decision: Any) -> Edges:
        chunks = np.repeat(np.arange(len(notes)), [len(edge.labels) for edge in notes])
        return Edges(chunks, *map(np.concatenate, zip(*notes, strict=True)))


@dataclass(frozen=True)
class Pick(Superstep):
    """Pick the keys of a part at the ranks of its groups."""

    stage = "group-pick"
    noting = "group-head"
    listing = "group-heads"
    rereads = True
    keeps = True

    statistic: Statistic
    count: int | None

    def work(self, given: Given) -> Made:
        keys, labels = given.blocks
        *columns, begins = picked = pick_groups(labels, keys, given.decision, given.number, self.statistic, self.count)
        return Made(head_of(picked), memo=begins, stays=columns)

    def mark(self, note: Picked) -> int:
        return super().mark(on_host(note.counts))


@dataclass(frozen=True)
class Join(Superstep):
    """Find the statistics of the groups that begin in a part."""

    stage = ""

    statistic: Statistic
    dtype: np.dtype[Any]  # of the results

    def work(self, given: Given) -> Made:
        return Made(arrays=([self.join(given)[1]],))

    def join(self, given: Given) -> tuple[Any, Any]:
        """The labels of the groups, and their statistics."""
        assert given.stays is not None
        own = Picked._make([*given.stays(), given.memo])
        labels, found = join_picked(own, given.decision[given.number + 1 :], self.statistic, self.dtype)
        return labels, complete(found)


@dataclass(frozen=True)
class JoinAll(Join):
    """The same, of groups whose number is known."""

    stage = "group-join"
    concludes = True

    count: int

    def work(self, given: Given) -> Made:
        return Made(list(self.join(given)))

    def decide(self, notes: Sequence[Any], decision: Any) -> tuple[Any]:
        return (complete(gather_groups(notes, self.count, self.dtype)),)


@dataclass(frozen=True)
class Weigh(Superstep):
    """Find the weight of a part of each lane."""

    stage = "weigh-part"
    listing = "weigh-parts"

    statistic: Statistic

    def work(self, given: Given) -> Made:
        keys, weights = given.blocks
        lanes.check_weights(weights)
        return Made([lanes.sum_weights(keys, weights, self.statistic)])

    def decide(self, notes: Sequence[Any], decision: Any) -> Any:
        return complete(np.concatenate([sums for (sums,) in notes], axis=-1))


@dataclass(frozen=True)
class PickWeighted(Superstep):
    """Find the quantiles whose ranks fall into a part."""

    stage = "pick-part"
    rereads = True
    concludes = True

    statistic: Statistic

    def work(self, given: Given) -> Made:
        keys, weights = given.blocks
        return Made([*lanes.pick_keys(keys, weights, given.decision, given.number, self.statistic)])

    def decide(self, notes: Sequence[Any], decision: Any) -> tuple[Any]:
        found = lanes.combine_picked([lanes.Picked(*note) for note in notes], self.statistic)
        return (complete(found.reshape((*self.statistic.shape, *found.shape[1:]))),)
