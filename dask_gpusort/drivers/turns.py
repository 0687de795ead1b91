"""What the tasks of all drivers do: take one turn of a part or a group, and list what all of them made."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

from ..chunk import complete, ops_for
from ..chunk.memory import RunList
from ..chunk.run import Run
from ..functions.program import Ends, Given, Superstep
from ..graph import serialization
from ..graph.input_checks import DeclaredChunk, changed_source


class Blocks(NamedTuple):
    """Hold the chunks of a part or a group, and what their arrays say of them."""

    blocks: Sequence[Any]
    declared: Sequence[DeclaredChunk]

    def checked(self) -> list[Any]:
        """The chunks, if they are what their arrays say."""
        return [one.check(block) for block, one in zip(self.blocks, self.declared, strict=True)]


#: Rows of a run: who sends them, the kept run, the first row and the last + 1.
Rows: TypeAlias = tuple[int, Any, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """Hold what a part or a group has made in one superstep, as `Made`; a store has its runs (see `Store`)."""

    note: Any
    mark: tuple[int, ...] = ()  # of what it keeps, or has read: checksums of the note, and of runs that have some
    runs: tuple[Any, ...] = ()  # what moves; several lie end to end
    memo: Any = None
    stays: Any = None
    arrays: tuple[Any, ...] = ()

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        return object.__sizeof__(self) + sum(map(sys.getsizeof, _split(self)[1]))


def _split(turn: Turn) -> tuple[Any, list[Any]]:
    """What is pickled of a turn, and its arrays."""
    kept = *turn.runs, turn.stays
    runs = [one if isinstance(one, Run) else None for one in kept]
    others = [None if isinstance(one, Run) else one for one in kept]
    arrays = [one if isinstance(one, list) else [one] for one in turn.arrays]
    parts = [*(run.arrays if run is not None else () for run in runs), *arrays]
    kinds = [run is not None for run in runs], [isinstance(one, list) for one in turn.arrays]
    return (turn.note, turn.mark, turn.memo, others, kinds, list(map(len, parts))), [
        array for part in parts for array in part
    ]


def _join(kept: Any, arrays: Sequence[Any]) -> Turn:
    note, mark, memo, others, (are_runs, are_lists), counts = kept
    parts = [list(arrays[first:last]) for first, last in pairwise(accumulate(counts, initial=0))]
    kinds = zip(parts, are_runs, others, strict=False)
    *runs, stays = (Run(part[0], tuple(part[1:])) if is_run else other for part, is_run, other in kinds)
    found = (part if is_list else part[0] for part, is_list in zip(parts[len(others) :], are_lists, strict=True))
    return Turn(note, mark, tuple(runs), memo, stays, tuple(found))


serialization.add_class(Turn, _split, _join)


class Listed(RunList):
    """Hold what all parts or groups have made in one superstep, and what was decided."""

    def __init__(
        self,
        decision: Any,
        marks: Mapping[str, Sequence[tuple[int, ...]]],
        runs: list[tuple[Any, ...]],
        ends: Ends | None,
        out: Ends | None,
    ):
        super().__init__(runs, sum(run.nbytes for own in runs for run in own if isinstance(run, Run)))
        self.decision = decision
        self.marks = marks  # of what the parts and the groups keep, which must be the same if it is made again
        self.ends = ends  # whose rows are where in the runs that move
        self.out = out  # how rows moved to the groups


class Store:
    """Keep runs in the results of tasks, where rows are views; a subclass keeps them elsewhere."""

    def keep(self, runs: Iterable[Run]) -> list[Any]:
        """Keep the runs of this task, each before the next one is made."""
        return list(runs)

    def look(self, kept: Sequence[Any], ends: Ends) -> None:
        """Look at kept runs before they are listed for those who take rows of them."""

    def take(self, rows: Sequence[Rows]) -> list[Run]:
        """Take rows of kept runs."""
        return [run[first:last] for _, run, first, last in rows]

    def portions(self, rows: Sequence[Rows]) -> Iterator[Sequence[Rows]]:
        """Divide rows into those that are taken at once."""
        return ([one] for one in rows)

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
    part: Blocks | None,
    own: Turn | None,
    listed: Listed | None,
    shards: Sequence[Run | Turn] = (),
) -> Turn:
    """Task: one superstep of a part or a group, from what it has kept, and rows that are listed, or were sent to it."""
    serialization.register()
    if own is not None:
        check_same(step, number, own, listed)
    blocks, pieces = part.checked() if part else [], _pieces(step, number, store, listed, shards)
    given = Given(
        number,
        listed and listed.decision,
        blocks,
        pieces,
        None if own is None or not own.runs else partial(store.open, own.runs[0]),
        own and own.memo,
        None if own is None or own.stays is None else partial(store.whole, own.stays),
    )
    stays = own.stays.keys if own is not None and isinstance(own.stays, Run) else None
    like = blocks[0] if blocks else pieces[0][1].keys if pieces and isinstance(pieces, list) else stays
    with nullcontext() if like is None else ops_for(like).exclusive():
        made = step.work(given)
        moved: Any = made.run
        kept = store.keep(
            moved if isinstance(moved, Iterator) else [one for one in (moved, made.stays) if one is not None]
        )
        mark = own.mark if own is not None else ()
        if step.keeps:
            noted = 0 if made.note is None else step.mark(made.note)
            mark = noted, *(one.checksum for one in kept if not isinstance(one, Run))
        at_hand = None if made.stays is None else kept.pop()
    complete(like)
    return Turn(made.note, mark, tuple(kept), made.memo, at_hand, made.arrays)


def _pieces(step: Superstep, number: int, store: Store, listed: Listed | None, shards: Sequence[Run | Turn]) -> Any:
    """Rows that move to a part or a group, by their senders."""
    if listed is None or listed.ends is None:
        return []
    if shards:
        sent = [shard.runs[0] if isinstance(shard, Turn) else shard for shard in shards]
        senders = range(len(sent)) if step.portions else [sender for sender, *_ in listed.ends.of(number)]
        return [(sender, sent[sender]) for sender in senders]
    rows = list(_rows(listed.runs, listed.ends.of(number)))
    if step.portions:
        return ((own[0][0], Run.concat(store.take(own), copy=None)) for own in store.portions(rows))
    return list(zip([sender for sender, *_ in rows], store.take(rows), strict=True))


def _rows(runs: Sequence[tuple[Any, ...]], ends: Iterable[tuple[int, int, int]]) -> Iterator[Rows]:
    """Rows of senders, each of whose runs lie end to end."""
    for sender, first, last in ends:
        if first == last:
            yield sender, runs[sender][0], 0, 0
        begin = 0
        for run in runs[sender]:
            end = begin + len(run)
            if max(first, begin) < min(last, end):
                yield sender, run, max(first, begin) - begin, min(last, end) - begin
            begin = end


def check_same(step: Superstep, number: int, own: Turn, listed: Listed | None) -> None:
    """Refuse what a part or a group keeps, if it was made again and is not what was listed."""
    if listed is not None and step.side in listed.marks and listed.marks[step.side][number] != own.mark:
        raise changed_source(f"{step.side} {number} of the chunks is not what it was when it was counted")


def list_turns(
    step: Superstep, turns: Sequence[Turn], senders: Sequence[Turn], store: Store, before: Listed | None
) -> Listed:
    """Task: decide from the notes of a superstep, and list the runs of those whose rows move behind it."""
    decides = turns[0].note is not None
    decision: Any = step.decide([turn.note for turn in turns]) if decides else before and before.decision
    marks = {step.side: [turn.mark for turn in turns], **(before.marks if before else {})}
    out = before.out if before is not None else None
    if not step.moves:
        return Listed(decision, marks, [], None, out)
    ends: Ends = decision.ends if out is None else out.back
    runs = [turn.runs for turn in senders]
    store.look([run for own in runs for run in own], ends)
    return Listed(decision, marks, runs, ends, ends)


def take_note(turn: Turn) -> Turn:
    """Task: what a turn tells all others."""
    return Turn(turn.note, turn.mark)


def cut_shard(step: Superstep, sender: int, turn: Turn, listed: Listed, receiver: int) -> Run:
    """Task: the rows of one sender for one receiver, copied."""
    serialization.register()
    assert listed.ends is not None
    check_same(step, sender, turn, listed)
    shard: Run = turn.runs[0][int(listed.ends.first[sender, receiver]) : int(listed.ends.last[sender, receiver])].copy()
    complete(shard.keys)
    return shard


def take_array(turn: Turn, which: int, chunk: int | None) -> Any:
    """Task: an array that a group has made, or one of those that a part has made for each of its chunks."""
    found = turn.arrays[which]
    return found if chunk is None else found[chunk]
