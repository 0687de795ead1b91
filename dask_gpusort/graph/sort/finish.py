"""Stage 5: finish each group and cut it into output chunks. Tasks ``sort-merge`` and the output's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...chunk import complete, library_of, ops_for
from ...chunk.run import Run
from ...order import Order
from ...plan import Plan
from ...table import Bounds
from .._dask import List, Task, TaskRef
from ..tasks import Tasks
from .scatter import BoundRuns, Piece, own_pieces, with_global_positions

#: The result of a task, or a part of it.
GroupRef: TypeAlias = TaskRef | Task


@dataclass(frozen=True)
class Finish:
    """Make a group's part of the outputs from its pieces: a function that can be pickled."""

    order: Order
    with_keys: bool  # whether the sorted keys are wanted
    with_positions: bool  # whether the last value is a position in its chunk, to be made global
    staged: bool = False  # whether pieces of the host are merged on a GPU

    def __call__(self, pieces: Sequence[Piece], kept: slice) -> tuple[Any, ...]:
        """Merge the pieces of a group, in chunk order, into keys if wanted, then values; positions are global.

        The pieces may be overwritten; the result is their range `kept`, because the ends belong to the neighbours.
        """
        if self.staged:
            return self._on_device(pieces, kept)
        runs = with_global_positions(pieces) if self.with_positions else [run for _, run in pieces]
        ops = ops_for(runs[0].keys)
        merged = ops.merge(runs, self.order)
        if kept != slice(0, len(merged)):
            _check_trim(kept, len(merged))
            merged = merged[kept]
        return ((ops.decode(merged.keys, self.order),) if self.with_keys else ()) + merged.values

    def _on_device(self, pieces: Sequence[Piece], kept: slice) -> tuple[Any, ...]:
        starts, runs = zip(*pieces, strict=True)

        def merge(moved: Sequence[Run], order: Order) -> tuple[Any, ...]:
            return replace(self, order=order, staged=False)(list(zip(starts, moved, strict=True)), kept)

        outputs = {"with_keys": self.with_keys, "with_positions": self.with_positions}
        found: tuple[Any, ...] = ops_for(runs[0].keys, staged=True).run_on_device(runs, self.order, merge, **outputs)
        return found


def _check_trim(kept: slice, received: int) -> None:
    """Refuse cuts that no order of the keys could have."""
    if not 0 <= kept.start <= kept.stop <= received:
        raise ValueError(
            "the keys' comparison contradicts itself: no cuts between chunks fit it; "
            "less= must be a strict weak order, and so must the comparison of Python objects"
        )


def merge_from_list(listed: BoundRuns, group: int, finish: Finish) -> tuple[Any, ...]:
    """Task: finish a group from views of all runs."""
    return finish(own_pieces(listed.pieces(group)), listed.bounds.kept(group))


def take_part(made: tuple[Any, ...], which: int, part: Any) -> Any:
    """Task: one output chunk out of a group, or out of a whole array."""
    return cut_part(made[which], part)


def cut_part(array: Any, part: Any) -> Any:
    """A part of an array; less than half of it is copied, as a view would keep the whole in memory."""
    cut = array[part]
    return cut.copy() if library_of(array) == "numpy" and array.nbytes > 2 * cut.nbytes else cut


def take_unknown_part(group: tuple[Any, ...], which: int, cuts: Bounds, first: int, chunk: int) -> Any:
    """Task: one output chunk of unknown size: it has the size of the input chunk of the same number."""
    start, stop = cuts.starts[[chunk, chunk + 1]] - cuts.starts[first]
    return take_part(group, which, slice(int(start), int(stop)))


def join_parts(groups: Sequence[tuple[Any, ...]], which: int) -> Any:
    """Task: one output chunk out of the groups that are its parts."""
    arrays = [group[which] for group in groups]
    return complete(ops_for(arrays[0]).concatenate(arrays))


def output_chunks(
    tasks: Tasks,
    name: str,
    plan: Plan,
    contents: Sequence[tuple[int, int, int, int]],
    groups: Sequence[GroupRef],
    cuts: GroupRef,
    which: int,
    extra_dims: int,
) -> None:
    """Add the chunks of one output array, the one at position `which` in each finished group's tuple.

    `contents` has (first output chunk, last + 1, part, parts) of each group, or of each member of a gang.
    """
    # Each of `extra_dims` dimensions after the sorted one is one chunk.
    behind = (0,) * extra_dims
    number = 0
    unknown = any(map(math.isnan, plan.chunks))
    while number < len(groups):
        first, last, _, parts = contents[number]
        if parts > 1:
            tasks.put((name, first, *behind), join_parts, List(*groups[number : number + parts]), which)
        else:
            ref, start = groups[number], 0
            for chunk in range(first, last):
                if unknown:
                    tasks.put((name, chunk, *behind), take_unknown_part, ref, which, cuts, first, chunk)
                else:
                    stop = start + int(plan.chunks[chunk])
                    tasks.put((name, chunk, *behind), take_part, ref, which, slice(start, stop))
                    start = stop
        number += parts
