"""Sets of two arrays as a program: the arrays lie end to end, and their distinct keys move as those of one do.

The parts of the first array are before those of the second one. Each group has all keys of both *sides* that are equal,
so it finds alone which of its distinct keys are wanted::

    part        Distinct, Cut     see `distinct`
                    |  out
    group       MergeSides        distinct keys of each side, those of the first looked up among those of the second
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..chunk import ops_for
from ..chunk.run import Run
from ..chunk.tie_groups import are_nan, may_be_nan
from .distinct import Merged
from .lookup import Question, wanted_of
from .program import Given, Made, Superstep

#: Which distinct keys of two sides are kept: those of both sides, of the first side alone, or of one side alone.
Keep = Literal["both", "first", "one"]


@dataclass(frozen=True)
class MergeSides(Superstep):
    """Find the distinct keys of each side in a group, and keep some; with their first positions, if these are known."""

    stage = "unique-merge"
    side = "group"

    merged: Merged
    second: int  # the first part of the second side
    keep: Keep

    def work(self, given: Given) -> Made:
        arrived = self.merged.arrived(given)
        sides = [[run for part, run in arrived if (part >= self.second) == behind] for behind in (False, True)]
        nothing = [arrived[0][1][:0]]
        first, second = (self._distinct(runs or nothing) for runs in sides)
        ops = ops_for(first.keys)
        if self.keep == "one":
            merged = self.merged.join([Run(ops.encode(side.keys, self.merged.order)) for side in (first, second)]).keys
            groups = ops.tie_groups(merged, False)
            return Made(arrays=(groups.values[ops.flatnonzero(groups.counts == 1)],))
        inside, ranks = self._look_up(first.keys, second.keys)
        if self.keep == "first":
            return Made(arrays=(first.keys[ops.flatnonzero(~inside)],))
        kept = ops.flatnonzero(inside)
        positions = zip((*first.values, *second.values), (kept, ranks[kept] - 1), strict=False)
        return Made(arrays=(first.keys[kept], *(own[at] for own, at in positions)))

    def _distinct(self, runs: Sequence[Run]) -> Run:
        """The distinct keys of a side, with what is known of the first of each."""
        merged = self.merged.join(runs)
        groups = self.merged.number(merged).groups
        return Run(groups.values, tuple(map(groups.of_firsts, merged.values)))

    def _look_up(self, keys: Any, others: Any) -> tuple[Any, Any]:
        """Whether each key is among those of the other side, and how many of these are up to it; no NaN is."""
        question = Question(self.merged.order, "in")
        needles, found = question.in_transit(keys), question.in_transit(others)
        ranks = ops_for(keys).rank_sorted(found, needles, question.transit, question.side)
        inside = wanted_of(found, needles, ranks, question)
        return inside & ~are_nan(keys) if may_be_nan(keys.dtype) else inside, ranks
