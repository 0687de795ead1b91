"""What the tasks of all drivers do: take one turn of a part or a group, and list what all of them made."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

from ..chunk import complete, ops_for
from ..chunk.checks import Blocks, changed_source
from ..chunk.grid import cut_part
from ..chunk.memory import RunList
from ..chunk.run import Run
from ..functions.program import Ends, Given, Shared, Superstep
from ..graph import serialization

#: Rows of a run: who sends them, the kept run, the first row and the last + 1.
Rows: TypeAlias = tuple[int, Any, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """Hold what a part or a group has made in one superstep, as `Made`; a store has its runs (see `Store`)."""

    note: Any
    mark: tuple[int, ...] = ()  # of what it keeps, or has read: checksums of the note, and of runs that have some
    name: str = ""  # of what it was made from, for error messages
    runs: tuple[Any, ...] = ()  # what moves; several lie end to end
    memo: Any = None
    stays: Any = None
    arrays: tuple[Any, ...] = ()

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        return object.__sizeof__(self) + sum(map(sys.getsizeof, split_turn(self)[1]))


def split_turn(turn: Turn) -> tuple[Any, list[Any]]:
    """What is pickled of a turn, and its arrays."""
    counts, *note = turn.note if isinstance(turn.note, Shared) else (None, turn.note)
    kept = *turn.runs, turn.stays, note if counts is not None else turn.note
    kinds = [type(one) if isinstance(one, (Run, list)) else None for one in kept]
    others = [one if kind is None else None for one, kind in zip(kept, kinds, strict=True)]
    parts = [one.arrays if isinstance(one, Run) else one if isinstance(one, list) else () for one in kept]
    parts += [one if isinstance(one, list) else [one] for one in turn.arrays]
    are_lists = [isinstance(one, list) for one in turn.arrays]
    return (counts, turn.mark, turn.name, turn.memo, others, kinds, are_lists, list(map(len, parts))), [
        array for part in parts for array in part
    ]


def join_turn(kept: Any, arrays: Sequence[Any]) -> Turn:
    counts, mark, name, memo, others, kinds, are_lists, lengths = kept
    parts = [list(arrays[first:last]) for first, last in pairwise(accumulate(lengths, initial=0))]
    joined = zip(parts, kinds, others, strict=False)
    note: Any
    *runs, stays, note = (
        Run(part[0], tuple(part[1:])) if kind is Run else part if kind is list else other
        for part, kind, other in joined
    )
    note = note if counts is None else Shared(counts, *note)
    found = (part if is_list else part[0] for part, is_list in zip(parts[len(others) :], are_lists, strict=True))
    return Turn(note, mark, name, tuple(runs), memo, stays, tuple(found))


serialization.add_class(Turn, split_turn, join_turn)


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Hold what a task has made of some parts."""

    numbers: tuple[int, ...]  # of the parts, ascending
    turns: tuple[Turn, ...]

    def __sizeof__(self) -> int:
        """Bytes held, for Dask's ``sizeof``."""
        return object.__sizeof__(self) + sum(map(sys.getsizeof, self.turns))


def _split_bundle(bundle: Bundle) -> tuple[Any, list[Any]]:
    kept, arrays = zip(*map(split_turn, bundle.turns), strict=True)
    return (bundle.numbers, kept, list(map(len, arrays))), [array for own in arrays for array in own]


def _join_bundle(kept: Any, arrays: Sequence[Any]) -> Bundle:
    numbers, turns, counts = kept
    ends = pairwise(accumulate(counts, initial=0))
    return Bundle(numbers, tuple(join_turn(own, arrays[slice(*end)]) for own, end in zip(turns, ends, strict=True)))


serialization.add_class(Bundle, _split_bundle, _join_bundle)


def turns_of(made: Sequence[Any]) -> list[Any]:
    """The turns of bundles by their numbers; others as they are."""
    bundles = [one if isinstance(one, Bundle) else Bundle((number,), (one,)) for number, one in enumerate(made)]
    turns = {number: turn for one in bundles for number, turn in zip(one.numbers, one.turns, strict=True)}
    return [turns[number] for number in sorted(turns)]


class Listed(RunList):
    """Hold what all parts or groups have made in one superstep, and what was decided."""

    def __init__(
        self,
        decision: Any,
        marks: Mapping[str, Sequence[tuple[int, ...]]],
        runs: list[tuple[Any, ...]],
        ends: Ends | None,
        out: Ends | None,
        back: bool = False,
    ):
        super().__init__(runs, sum(run.nbytes for own in runs for run in own if isinstance(run, Run)))
        self.decision = decision
        self.marks = marks  # of what the parts and the groups keep, which must be the same if it is made again
        self.ends = ends  # whose rows are where in the runs that move
        self.out = out  # how rows moved to the groups
        self.back = back  # whether rows move to the parts

    def ends_of(self, step: Superstep, number: int) -> Ends | None:
        """Where the rows are that arrive at a part or a group in a superstep; None if none do."""
        return self.ends.to(number) if self.ends and step.side == ("part" if self.back else "group") else None


class Store:
    """Keep runs in the results of tasks, where rows are views; a subclass keeps them elsewhere."""

    def keep(self, runs: Iterable[Run]) -> list[Any]:
        """Keep the runs of this task, each before the next one is made."""
        return list(runs)

    def reserved(self, copies: float, blocks: Sequence[Any], rows: Sequence[Rows]) -> AbstractContextManager[Any]:
        """Wait until there is memory for the work on some chunks and on rows of kept runs."""
        return nullcontext()

    def look(self, kept: Sequence[Any], ends: Any) -> None:
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
    step: Superstep, number: int, store: Store, part: Blocks | None, own: Turn | None, listed: Listed | None
) -> Turn:
    """Task: one superstep of a part or a group, from what it has kept, and rows that are listed."""
    serialization.register()
    ends = listed.ends_of(step, number) if listed else None
    rows = [] if listed is None or ends is None else list(_rows(listed.runs, ends.of(0)))
    needed = [] if step.portions else [*rows]
    if own is not None and own.stays is not None:
        needed.append((number, own.stays, 0, len(own.stays)))
    with store.reserved(step.copies, part.blocks if part else (), needed):
        pieces: Any = []
        if rows and step.portions:
            pieces = ((one[0][0], Run.concat(store.take(one), copy=None)) for one in store.portions(rows))
        elif rows:
            pieces = list(zip([sender for sender, *_ in rows], store.take(rows), strict=True))
        return work_on(step, number, store, part, own, listed, pieces, ends)


def work_on(
    step: Superstep,
    number: int,
    store: Store,
    part: Blocks | None,
    own: Turn | None,
    listed: Listed | None,
    pieces: Any,
    ends: Ends | None,
) -> Turn:
    """One superstep of a part or a group, from rows that have arrived, which lie as `ends` say."""
    if own is not None:
        check_same(step, number, own, listed)
    blocks = part.checked() if part else []
    given = Given(
        number,
        listed and listed.decision,
        blocks,
        pieces,
        None if own is None or not own.runs else partial(store.open, own.runs[0]),
        own and own.memo,
        None if own is None or own.stays is None else partial(store.whole, own.stays),
        ends.before if ends else 0,
        part.names if part else (),
        own.note if own is not None and step.rereads else None,
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
        if step.keeps and (own is None or step.listing):
            noted = 0 if made.note is None else step.mark(made.note)
            mark = noted, *(one.checksum for one in kept if not isinstance(one, (Run, list)))
        at_hand = None if made.stays is None else kept.pop()
    complete(like)
    name = given.names[0] + ", or one that it is joined with," * (len(blocks) > 1) if blocks else ""
    return Turn(made.note, mark, name, tuple(kept), made.memo, at_hand, made.arrays)


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
        what = own.name or f"{step.side} {number} of the chunks"
        raise changed_source(f"{what} is not what it was when it was counted")


def list_turns(
    step: Superstep, made: Sequence[Turn | Bundle], senders: Sequence[Turn], store: Store, before: Listed | None
) -> Listed:
    """Task: decide from the notes of a superstep, and list the runs of those whose rows move behind it."""
    turns = turns_of(made)
    decides = turns[0].note is not None
    last = before and before.decision
    decision: Any = step.decide([turn.note for turn in turns], last) if decides else last
    marks = {**(before.marks if before else {}), step.side: [turn.mark for turn in turns]}
    out = before.out if before is not None else None
    if not step.moves:
        return Listed(decision, marks, [], None, out)
    moved, back = (decision.ends, False) if out is None else (out.back, True)
    return list_senders(senders, store, Listed(decision, marks, [], None, moved, back))


def list_senders(senders: Sequence[Turn], store: Store, decided: Listed, tables: Sequence[Any] = ()) -> Listed:
    """List the runs of those whose rows move, as `Listed.out` says, perhaps by kept tables."""
    runs, ends = [turn.runs for turn in senders], decided.out
    store.look([*(run for own in runs for run in own), *tables], ends)
    return Listed(decided.decision, decided.marks, runs, ends, ends, decided.back)


def take_array(turn: Turn, which: int, chunk: int | None) -> Any:
    """Task: an array that a group has made, or one of those that a part has made for each of its chunks."""
    found = turn.arrays[which]
    return found if chunk is None else found[chunk]


def take_part(turn: Turn, which: int, start: int, stop: int) -> Any:
    """Task: an output chunk out of an array that a group has made."""
    return cut_part(turn.arrays[which], slice(start, stop))


def take_unknown_part(turn: Turn, which: int, first: int, chunk: int) -> Any:
    """Task: an output chunk of unknown size: it has the size of the input chunk of the same number."""
    start, stop = turn.memo[[chunk, chunk + 1]] - turn.memo[first]
    return take_part(turn, which, int(start), int(stop))


def join_parts(turns: Sequence[Turn], which: int) -> Any:
    """Task: an output chunk out of the arrays of the groups that are its parts."""
    arrays = [turn.arrays[which] for turn in turns]
    return complete(ops_for(arrays[0]).concatenate(arrays))
