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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..chunk.run import Run
from ..table import IntArray


class Given(NamedTuple):
    """What a part or a group gets in one superstep."""

    number: int  # of the part, or of the group
    decision: Any  # the last decision
    blocks: Sequence[Any] = ()  # in the first superstep of its side, its chunks of the inputs, one input after another
    #: Rows that arrived, by their senders in ascending order; at least one piece. With `portions`, to be read once.
    pieces: Sequence[tuple[int, Run]] = ()
    #: What this part or group has kept in an earlier superstep: as `Made` says.
    run: Callable[[], Run] | None = None
    memo: Any = None
    stays: Callable[[], Run] | None = None


class Made(NamedTuple):
    """What a part or a group makes in one superstep."""

    note: Any = None  # small, for the decision: an array of int64, or of the first superstep anything
    #: Rows that this superstep or a later one moves; with `portions` it may be an iterator of one run for each piece.
    run: Run | None = None
    memo: Any = None  # small, and `stays`, of any size, for later supersteps of the same part or group
    stays: Run | None = None
    arrays: tuple[Any, ...] = ()  # results; of one that has chunks of inputs, lists with an array for each chunk


class Superstep:
    """One superstep: a subclass is a frozen dataclass that can be pickled, and its methods are pure functions."""

    stage: ClassVar[str]  # name of its tasks
    listing: ClassVar[str] = ""  # name of the task that decides behind it, if what follows needs all of them
    shards: ClassVar[str] = ""  # name of the tasks that cut what it moves, if it is not that of the stage and "-shard"
    side: ClassVar[Literal["part", "group"]] = "part"
    #: Whether rows move behind it: "out" from the parts to the groups, as its decision says, or "back", a reply for
    #: each row that arrived.
    moves: ClassVar[Literal["", "out", "back"]] = ""
    keeps: ClassVar[bool] = False  # whether it makes what later supersteps of its part or group need
    #: Whether a row that arrives matters alone: pieces may come one by one, of some rows of one sender or of several.
    portions: ClassVar[bool] = False

    def work(self, given: Given) -> Made:
        """Work on one part or group."""
        raise NotImplementedError

    def decide(self, notes: Sequence[Any]) -> Any:
        """Decide from all notes, in the order of the parts or groups; without notes the last decision stays."""
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

    @property
    def back(self) -> Ends:
        """The ends of one reply for each row that arrived: a group's run has them in the order of the rows."""
        came = (self.last - self.first).T
        last = np.cumsum(came, axis=1)
        return Ends(last - came, last)


def ends_of_cuts(cuts: IntArray) -> Ends:
    """The ends of rows that lie end to end, from where those of each receiver begin: shape (senders, receivers + 1)."""
    return Ends(cuts[:, :-1], cuts[:, 1:])
