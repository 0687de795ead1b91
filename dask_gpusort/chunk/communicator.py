"""What moves rows between processes: how it is made, what it does, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .run import Run


class Aborted(Exception):
    """An exchange was aborted: who wanted it is told why."""


class Communicator(Protocol):
    """Move shards between some ranks, in one exchange after another; used by one thread at a time."""

    def exchange(self, sent: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        """Send a shard to each rank, and give the complete shards, of announced lengths, from each.

        The own one is perhaps as given; those sent are complete too. After an error, other ranks may nevertheless have
        received everything. Raises `Aborted` after `abort`.
        """

    def abort(self) -> None:
        """Make the `exchange` in progress, or the next one, raise. Called from any thread, at any time, also twice."""


class Maker(Protocol):
    """Make communicators of processes that have a GPU each."""

    def offer(self) -> bytes | None:
        """Offer what all ranks need of one of them, such as NCCL's unique id; None if this process cannot take part."""
        # Any thread may call this. The offer is the same until `make` is called with it: it serves one communicator.

    def make(self, offer: bytes, size: int, rank: int) -> Communicator:
        """Make a communicator together with all other ranks, which do so at the same time, without waiting for them."""
