"""The outputs of a member, filled group by group."""

from __future__ import annotations

from typing import Any

from ...chunk import ops_for
from ...chunk.run import Run
from ...plan import Plan
from ..bounds import Bounds
from ..sort.by_tasks import pieces_in_order
from ..sort.finish import Finish


class Outputs:
    """Allocate once the part of each output array that a member makes, and merge its groups into it."""

    # A group is merged with the unresolved keys at its ends, which belong to its neighbours. So a merge writes over
    # both ends of its group: the end of the group before it is restored, and the next group overwrites the other end:
    #
    #     group g     ------------------|xx
    #     group g + 1                 xx|-----------------|xx
    #                                 ^ saved before the merge

    def __init__(self, plan: Plan, finish: Finish, bounds: Bounds, groups: range):
        self.plan, self.finish, self.bounds, self.groups = plan, finish, bounds, groups
        self.arrays: tuple[Any, ...] = ()
        self._memory: tuple[Any, ...] = ()
        self._front = max((-self._span(group)[0] for group in groups), default=0)

    def _span(self, group: int) -> tuple[int, int]:
        """Where the keys that a group receives begin and end in the outputs; the first ones before them if negative."""
        start = int(self.bounds.ranks[group] - self.bounds.ranks[self.groups.start]) - self.bounds.kept(group).start
        return start, start + int(self.bounds.lengths(group).sum())

    def add(self, group: int, shards: list[Run]) -> None:
        """Merge a group from the shards of all members; groups come in their order."""
        kept, pieces = self.bounds.kept(group), pieces_in_order(shards, self.bounds, group, self.plan)
        with ops_for(shards[0].keys).exclusive():
            if len(self.groups) == 1:
                self.arrays = self.finish(pieces, kept)
                return
            self._allocate(pieces[0][1])
            start, stop = (self._front + end for end in self._span(group))
            memory = tuple(array[start:stop] for array in self._memory)
            saved = [array[: kept.start].copy() for array in memory]
            self.finish(pieces, kept, memory)
            for array, end in zip(memory, saved, strict=True):
                array[: kept.start] = end

    def _allocate(self, like: Run) -> None:
        if self._memory:
            return
        stop = max(self._span(group)[1] for group in self.groups)
        length = int(self.bounds.ranks[self.groups.stop] - self.bounds.ranks[self.groups.start])
        self._memory = self.finish.allocate(like, self._front + stop)
        self.arrays = tuple(array[self._front : self._front + length] for array in self._memory)
