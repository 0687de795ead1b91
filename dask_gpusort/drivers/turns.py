"""What the tasks of all drivers do: take one turn of a part or a group, and list what all of them made."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..chunk import complete, ops_for
from ..chunk.memory import RunList
from ..chunk.run import Run
from ..functions.program import Ends, Given, Superstep
from ..graph import serialization
from ..graph.input_checks import changed_source, checked_shape
from ..plan import Size


class Part(NamedTuple):
    """Hold the chunks of a part, and what their array says of them."""

    blocks: Sequence[Any]
    numbers: Sequence[int]
    shapes: Sequence[tuple[Size, ...]]  # nan where unknown
    dtype: np.dtype[Any]

    def checked(self) -> list[Any]:
        """The chunks, if they are what their array says."""
        declared = zip(self.blocks, self.numbers, self.shapes, strict=True)
        return [checked_shape(block, number, self.dtype, shape) for block, number, shape in declared]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """Hold what a part or a group has made in one superstep, as `Made`; a store has its runs (see `Store`)."""

    note: Any
    mark: int = 0  # a checksum of the note
    run: Any = None
    memo: Any = None
    stays: Any = None
    arrays: tuple[Any, ...] = ()

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        return object.__sizeof__(self) + sum(map(sys.getsizeof, _split(self)[1]))


def _split(turn: Turn) -> tuple[Any, list[Any]]:
    """What is pickled of a turn, and its arrays."""
    runs = [one if isinstance(one, Run) else None for one in (turn.run, turn.stays)]
    others = [None if run else one for run, one in zip(runs, (turn.run, turn.stays), strict=True)]
    arrays = [one if isinstance(one, list) else [one] for one in turn.arrays]
    parts = [*(run.arrays if run else () for run in runs), *arrays]
    kinds = [run is not None for run in runs], [isinstance(one, list) for one in turn.arrays]
    kept = turn.note, turn.mark, turn.memo, others, kinds, list(map(len, parts))
    return kept, [array for part in parts for array in part]


def _join(kept: Any, arrays: Sequence[Any]) -> Turn:
    note, mark, memo, others, (are_runs, are_lists), counts = kept
    parts = [list(arrays[first:last]) for first, last in pairwise(accumulate(counts, initial=0))]
    kinds = zip(parts, are_runs, others, strict=False)
    run, stays = (Run(part[0], tuple(part[1:])) if is_run else other for part, is_run, other in kinds)
    found = (part if is_list else part[0] for part, is_list in zip(parts[2:], are_lists, strict=True))
    return Turn(note, mark, run, memo, stays, tuple(found))


serialization.add_class(Turn, _split, _join)


class Listed(RunList):
    """Hold what all parts or groups have made in one superstep, and what was decided."""

    def __init__(self, decision: Any, marks: Sequence[int], runs: list[Any], ends: Ends | None, out: Ends | None):
        super().__init__(runs, sum(run.nbytes for run in runs if isinstance(run, Run)))
        self.decision = decision
        self.marks = marks  # of what the parts keep, which must be the same if it is made again
        self.ends = ends  # whose rows are where in the runs that move
        self.out = out  # how rows moved to the groups


class Store:
    """Keep runs in the results of tasks, where rows are views; a subclass keeps them elsewhere."""

    def keep(self, runs: Sequence[Run]) -> Sequence[Any]:
        """Keep the runs of this task."""
        return runs

    def look(self, kept: Sequence[Any], ends: Ends) -> None:
        """Look at kept runs before they are listed for those who take rows of them."""

    def take(self, kept: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> list[Run]:
        """Take rows of kept runs."""
        return [run[first:last] for run, (first, last) in zip(kept, bounds, strict=True)]

    def whole(self, kept: Any) -> Run:
        """Take a kept run."""
        run: Run = kept
        return run

    def open(self, kept: Any) -> Run:
        """A kept run, for who reads few of its keys."""
        return self.whole(kept)


def take_turn(
    step: Superstep,
    number: int,
    store: Store,
    part: Part | None,
    own: Turn | None,
    listed: Listed | None,
    shards: Sequence[Run] = (),
) -> Turn:
    """Task: one superstep of a part or a group, from what it has kept, and rows that are listed, or were sent to it."""
    serialization.register()
    if own is not None:
        check_same(step, number, own, listed)
    blocks, pieces = part.checked() if part else [], _pieces(number, store, listed, shards)
    given = Given(
        number,
        listed and listed.decision,
        blocks,
        pieces,
        None if own is None or own.run is None else partial(store.open, own.run),
        own and own.memo,
        None if own is None or own.stays is None else partial(store.whole, own.stays),
    )
    stays = own.stays.keys if own is not None and isinstance(own.stays, Run) else None
    like = blocks[0] if blocks else pieces[0][1].keys if pieces else stays
    with nullcontext() if like is None else ops_for(like).exclusive():
        made = step.work(given)
    complete(like)
    kept = iter(store.keep([one for one in (made.run, made.stays) if one is not None]))
    run, at_hand = (None if one is None else next(kept) for one in (made.run, made.stays))
    return Turn(made.note, step.mark(made.note) if step.keeps else 0, run, made.memo, at_hand, made.arrays)


def _pieces(number: int, store: Store, listed: Listed | None, shards: Sequence[Run]) -> list[tuple[int, Run]]:
    """Rows that move to a part or a group, by their senders."""
    if listed is None or listed.ends is None:
        return []
    rows = listed.ends.of(number)
    if shards:
        return [(sender, shards[sender]) for sender, *_ in rows]
    taken = store.take([listed.runs[sender] for sender, *_ in rows], [(first, last) for _, first, last in rows])
    return [(sender, run) for (sender, *_), run in zip(rows, taken, strict=True)]


def check_same(step: Superstep, number: int, own: Turn, listed: Listed | None) -> None:
    """Refuse what a part keeps, if it was made again and is not what was listed."""
    if step.side == "part" and listed is not None and listed.marks[number] != own.mark:
        raise changed_source(f"part {number} of the chunks is not what it was when it was counted")


def list_turns(
    step: Superstep, turns: Sequence[Turn], senders: Sequence[Turn], store: Store, before: Listed | None
) -> Listed:
    """Task: decide from the notes of a superstep, and list the runs of those whose rows move behind it."""
    decides = turns[0].note is not None
    decision: Any = step.decide([turn.note for turn in turns]) if decides else before and before.decision
    marks = before.marks if before else [turn.mark for turn in turns]
    out = before.out if before is not None else None
    if not step.moves:
        return Listed(decision, marks, [], None, out)
    ends: Ends = decision.ends if out is None else out.back
    runs = [turn.run for turn in senders]
    store.look(runs, ends)
    return Listed(decision, marks, runs, ends, ends)


def take_note(turn: Turn) -> Turn:
    """Task: what a turn tells all others."""
    return Turn(turn.note, turn.mark)


def cut_shard(step: Superstep, sender: int, turn: Turn, listed: Listed, receiver: int) -> Run:
    """Task: the rows of one sender for one receiver, copied."""
    serialization.register()
    assert listed.ends is not None
    check_same(step, sender, turn, listed)
    shard: Run = turn.run[int(listed.ends.first[sender, receiver]) : int(listed.ends.last[sender, receiver])].copy()
    complete(shard.keys)
    return shard


def take_array(turn: Turn, which: int, chunk: int | None) -> Any:
    """Task: an array that a group has made, or one of those that a part has made for each of its chunks."""
    found = turn.arrays[which]
    return found if chunk is None else found[chunk]
