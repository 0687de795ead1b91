"""A program run by hand, part after part and group after group: what every driver does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dask_gpusort.chunk.run import Run
from dask_gpusort.functions.program import Ends, Given, Made, Superstep


def run(
    steps: Sequence[Superstep], parts: Sequence[Sequence[Any]], groups: int, sources: Sequence[Sequence[Any]] = ()
) -> list[list[Made]]:
    """What each part or group makes in each superstep, of the chunks of each part, and of each group if it has some."""
    blocks = {"part": parts, "group": sources}
    made: list[list[Made]] = []
    owners: dict[str, list[Any]] = {"part": [Made()] * len(parts), "group": [Made()] * groups}
    decision, ends, moved, runs = None, None, None, []
    for step in steps:
        turns, own_blocks = [], parts if step.rereads else blocks.pop(step.side, ())
        for number, own in enumerate(owners[step.side]):
            pieces = []
            if ends is not None:
                # Copies, which a superstep may write to.
                pieces = [(one, runs[one][first:last].copy()) for one, first, last in ends.of(number)]
            run, stays = (None if kept is None else kept.copy for kept in (own.run, own.stays))
            chunks = own_blocks[number] if own_blocks else []
            turn = step.work(
                Given(number, decision, chunks, pieces, run, own.memo, stays, note=own.note if step.rereads else None)
            )
            if isinstance(turn.run, Iterator):
                turn = turn._replace(run=Run.concat(list(turn.run)))
            assert not (turn.arrays and (step.listing or step.moves)), "who lists all turns gets their arrays too"
            turns.append(turn)
        if step.keeps:
            owners[step.side] = turns
        if (step.listing or step.moves) and turns[0].note is not None:
            decision = step.decide([turn.note for turn in turns], decision)
        ends = None
        if step.moves:
            ends = moved = decision.ends if step.moves == "out" else back(moved)
            runs = [turn.run for turn in (owners[step.side] if step.moves == "out" else turns)]
        made.append(turns)
    return made


def back(moved: Ends | None) -> Ends:
    """Where replies to rows that have moved go."""
    assert moved is not None
    return moved.back
