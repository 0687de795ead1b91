"""Programs: a function as supersteps of local work, a small note, a decision from all notes, and a move of rows.

Source chunks are divided into *parts*, and keys by their order into *groups*. In one superstep each part, or each
group, works alone. Rows that move lie side by side in a run, in the order of their receivers, so a decision alone tells
all receivers which rows are theirs::

    part 0   part 1   part 2        work       sorted keys stay as runs
       |        |        |
       '---- notes ------'          decide     in one place, or the same bits in each
       |        |        |
    group 0  group 1  group 2       work       on the rows that moved "out"
       |        |        |
    part 0   part 1   part 2        work       on the replies that moved "back": one for each row, in the rows' order

A driver runs a program (see `drivers`): it knows how parts, notes and runs are kept and sent, and no function.

References
----------
Valiant, A bridging model for parallel computation, CACM 1990.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from ..chunk.run import Run
from ..table import IntArray


class Shared(NamedTuple):
    """A note with rows that the decision needs."""

    counts: IntArray  # int64
    rows: Any  # an array, on the device if the chunks are


class Given(NamedTuple):
    """What a part or a group gets in one superstep."""

    number: int  # of the part, or of the group
    decision: Any  # the last decision
    #: Its chunks of the inputs, one input after another, in the first superstep of its side, and those that reread.
    blocks: Sequence[Any] = ()
    #: Rows that arrived, by their senders in ascending order; at least one piece. With `portions`, to be read once.
    pieces: Sequence[tuple[int, Run]] = ()
    #: What this part or group has kept in an earlier superstep: as `Made` says.
    run: Callable[[], Run] | None = None
    memo: Any = None
    stays: Callable[[], Any] | None = None
    before: int = 0  # rows that lie before those that arrived, in the runs of all senders
    names: Sequence[str] = ()  # of its chunks, for error messages
    note: Any = None  # what it has noted of chunks that it reads again, if they may be others now


class Made(NamedTuple):
    """What a part or a group makes in one superstep."""

    #: For the decision, small: an array of int64, or of the first superstep anything. A list is of arrays of any size,
    #: and `Shared` has rows of any number.
    note: Any = None
    #: Rows that this superstep or a later one moves; with `portions` it may be an iterator of one run for each piece.
    run: Run | None = None
    memo: Any = None  # small, for later supersteps of the same part or group
    stays: Any = None  # the same, of any size: a run, or of what no cluster keeps a list of arrays
    arrays: tuple[Any, ...] = ()  # results; of one that has chunks of inputs, lists with an array for each chunk


class Superstep:
    """One superstep: a subclass is a frozen dataclass that can be pickled, and its methods are pure functions."""

    stage: str  # name of its tasks; "" of a last one that the tasks of the output chunks take
    noting: ClassVar[str] = (
        ""  # name of the tasks that give its notes alone, if it is not that of the stage and "-note"
    )
    #: Name of the task that decides behind it, if what follows needs all of them; if rows move to one group alone, its
    #: task may decide, too.
    listing: str = ""
    shards: ClassVar[str] = ""  # name of the tasks that cut what it moves, if it is not that of the stage and "-shard"
    side: ClassVar[Literal["part", "group"]] = "part"
    #: Whether rows move behind it: "out" from the parts to the groups, as its decision says, or "back", a reply for
    #: each row that arrived.
    moves: Literal["", "out", "back"] = ""
    rereads: ClassVar[bool] = False  # whether it needs its chunks once more
    keeps: ClassVar[bool] = False  # whether it makes what later supersteps of its part or group need
    #: Whether a row that arrives matters alone: pieces may come one by one, of some rows of one sender or of several.
    portions: ClassVar[bool] = False
    #: Name of the tasks that combine some notes each, `fan_in` at most, if these are too many or too large for one.
    combining: ClassVar[str] = ""
    fan_in: int
    #: Whether the decision is made from the combined note of all, and the ends of each sender from its own note.
    sums: ClassVar[bool] = False
    #: Whether its decision is the results; without a `listing` the tasks of the output chunks decide.
    concludes: ClassVar[bool] = False

    @property
    def lean(self) -> Self:
        """The same, without what decisions alone need: a part of the task of each part or group."""
        return self

    @property
    def copies(self) -> float:
        """How many times the bytes of its input, chunks or rows, its work takes; the input is one of them."""
        return 3

    def work(self, given: Given) -> Made:
        """Work on one part or group."""
        raise NotImplementedError

    def decide(self, notes: Sequence[Any], decision: Any) -> Any:
        """Decide from all notes, in the order of the parts or groups; without notes the last decision stays."""
        return notes

    def combine(self, notes: Sequence[Any]) -> Any:
        """Make the note that stands for those of some neighbours."""
        raise NotImplementedError

    def ends(self, decision: Any, notes: Sequence[IntArray], first: int) -> Ends:
        """The ends of neighbouring senders, the first of them number `first`, from their notes and the decision."""
        raise NotImplementedError

    def mark(self, note: Any) -> int:
        """A checksum of a note, to recognise what is kept if it is made again."""
        return zlib.crc32(np.asarray(note).tobytes())


@dataclass(frozen=True)
class Ends:
    """Say where the rows of each receiver begin and end in the run of each sender."""

    first: IntArray  # shape (senders, receivers)
    last: IntArray  # shape (senders, receivers)

    def of(self, receiver: int) -> list[tuple[int, int, int]]:
        """The rows of one receiver: their sender, the first and the last + 1; of all that have some, or of one."""
        first, last = self.first[:, receiver], self.last[:, receiver]
        senders = np.flatnonzero(last > first).tolist() or [0]
        return [(sender, int(first[sender]), int(last[sender])) for sender in senders]

    def to(self, receiver: int) -> Ends:
        """The ends of the rows of one receiver alone."""
        return Ends(self.first[:, [receiver]], self.last[:, [receiver]])

    @property
    def before(self) -> int:
        """Rows that lie before those of the first receiver, in the runs of all senders."""
        return int(self.first[:, 0].sum())

    def part(self, sender: int, receiver: int) -> slice:
        """The rows of one sender for one receiver."""
        return slice(int(self.first[sender, receiver]), int(self.last[sender, receiver]))

    def cut(
        self, senders: Sequence[int], runs: Sequence[Run], receivers: Sequence[int], *, copy: bool | None = None
    ) -> Run:
        """A shard: the rows of some senders for some receivers, end to end, those for the first receiver first."""
        pairs = [(receiver, sender, run) for receiver in receivers for sender, run in zip(senders, runs, strict=True)]
        return Run.concat([run[self.part(sender, receiver)] for receiver, sender, run in pairs], copy=copy)

    def split(
        self, senders: Sequence[Sequence[int]], shards: Sequence[Run], receivers: Sequence[int]
    ) -> dict[int, list[tuple[int, Run]]]:
        """Divide a shard of each of some lists of senders into pieces, as `Given` has them, of each receiver."""
        found: dict[int, dict[int, tuple[int, Run]]] = {receiver: {} for receiver in receivers}
        for number, (own, shard) in enumerate(zip(senders, shards, strict=True)):
            start = 0
            for receiver, sender in product(receivers, own):
                part = self.part(sender, receiver)
                stop = start + part.stop - part.start
                found[receiver][sender] = number, shard[start:stop]
                start = stop
            if start != len(shard):
                raise RuntimeError(f"a shard has {len(shard)} rows where the cuts say {start}")
        return {receiver: _pieces(own) for receiver, own in found.items()}

    @property
    def back(self) -> Ends:
        """The ends of one reply for each row that arrived: a group's run has them in the order of the rows."""
        came = (self.last - self.first).T
        last = np.cumsum(came, axis=1)
        return Ends(last - came, last)


def _pieces(found: Mapping[int, tuple[int, Run]]) -> list[tuple[int, Run]]:
    """Pieces by their senders, from the number of its shard and the piece of each sender."""
    pieces = [(sender, *found[sender]) for sender in sorted(found)]
    pieces = [piece for piece in pieces if len(piece[-1])] or pieces[:1]
    # Neighbours in memory are one array to who joins them, and may then be overwritten.
    alone = len(pieces) > 1 and len({number for _, number, _ in pieces}) == 1
    return [(sender, run.copy() if alone else run) for sender, _, run in pieces]


def ends_of_cuts(cuts: IntArray) -> Ends:
    """The ends of rows that lie end to end, from where those of each receiver begin: shape (senders, receivers + 1)."""
    return Ends(cuts[:, :-1], cuts[:, 1:])
