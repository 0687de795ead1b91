"""How shards move between the members of a gang.

A `Communicator` is used by one member at a time, from one thread. There are two implementations. `WorkerComms` uses the
connections that Dask's workers have with each other: with any placement, any chunks, and after any fault. A `Maker`
makes the other, for members that all have a GPU of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple, Protocol, TypeAlias

from ...chunk.run import Run
from .. import serialization
from .._distributed import REMEDY, to_serialize

#: Token of a gang, number of the attempt, rank of the sender.
Sender: TypeAlias = tuple[str, int, int]
#: A sender, and the number of the exchange in its attempt: a member may be one ahead of another.
OutboxKey: TypeAlias = tuple[str, int, int, int]

#: Seconds for which a worker waits for a member that has not cut its shards, before it answers that it has none yet.
WAIT_SECONDS = 5.0


class Aborted(Exception):
    """The attempt was stopped: the member ends."""


class Shards(NamedTuple):
    """Hold what a member sends in one exchange, a shard to each member, and say what it receives from each."""

    #: For each rank, this one included. All have the same dtypes, on all members. They may be views, and must not be
    #: overwritten.
    sent: list[Run]
    lengths: list[int]  # keys that arrive from each rank


class Communicator(Protocol):
    """Move shards between the members of one attempt, in one exchange or several, one after the other."""

    def exchange(self, shards: Shards) -> list[Run]:
        """Give the complete shards from each rank, the own one perhaps as given; those sent are complete too.

        After an error, other members may nevertheless have received everything.
        """

    def abort(self) -> None:
        """Make the `exchange` in progress, or the next one, raise. Called from any thread, at any time, also twice."""


class KeptCommunicator(Protocol):
    """Move shards between the members of many attempts, one after another."""

    def exchange(self, sent: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        """As `Communicator.exchange`."""

    def abort(self) -> None:
        """As `Communicator.abort`."""


class Maker(Protocol):
    """Make communicators of workers that have a GPU each, and keep them for later gangs of the same workers."""

    # A worker whose `member.GangWorkerPlugin.maker` is not None offers to make one with every member that it
    # runs.

    def offer(self) -> bytes | None:
        """Offer what all ranks need of one of them, such as NCCL's unique id; None if this worker cannot take part."""
        # Any thread may call this. The offer is the same until `make` is called with it: it serves one communicator.

    def make(self, offer: bytes, size: int, rank: int) -> KeptCommunicator:
        """Make a communicator together with all other ranks, which do so at the same time, without waiting for them.

        It is called on each worker that hears of the offer, whether its member still wants to exchange or not.
        """


class Reordered:
    """Use a kept communicator for members whose order is not that of its ranks (see `coordinator.rank_order`)."""

    def __init__(self, kept: KeptCommunicator, ranks: Sequence[int]):
        self.kept, self.ranks = kept, ranks

    def exchange(self, shards: Shards) -> list[Run]:
        members = sorted(range(len(self.ranks)), key=self.ranks.__getitem__)  # by rank
        sent, lengths = [shards.sent[one] for one in members], [shards.lengths[one] for one in members]
        received = self.kept.exchange(sent, lengths)
        return [received[rank] for rank in self.ranks]

    def abort(self) -> None:
        self.kept.abort()


class WorkerComms:
    """Communicate over the workers' own connections: each member fetches its shards."""

    def __init__(self, outboxes: Outboxes, token: str, attempt: int, rank: int, addresses: Sequence[str]):
        self.outboxes, self.addresses = outboxes, addresses
        self.token, self.attempt, self.rank = token, attempt, rank
        self._exchanges = 0  # that have ended
        self._fetching: Future[list[Run]] | None = None
        self._aborted = False

    def exchange(self, shards: Shards) -> list[Run]:
        loop, own = self.outboxes.worker.loop.asyncio_loop, (self.token, self.attempt, self.rank)
        offered = {rank: run for rank, run in enumerate(shards.sent) if rank != self.rank}
        loop.call_soon_threadsafe(self.outboxes.fill, (*own, self._exchanges), offered)
        self._fetching = asyncio.run_coroutine_threadsafe(self._fetch_all(shards.sent[self.rank]), loop)
        if self._aborted:
            self.abort()
        try:
            received = self._fetching.result()
            for rank, (run, length) in enumerate(zip(received, shards.lengths, strict=True)):
                if len(run) != length:
                    raise RuntimeError(f"member {rank} sent {len(run)} keys where the cuts say {length}")
        except BaseException as error:
            loop.call_soon_threadsafe(self.outboxes.drop, own)
            if isinstance(error, CancelledError):
                raise Aborted from None
            raise
        self._exchanges += 1
        return received

    def abort(self) -> None:
        self._aborted = True
        if self._fetching is not None:
            self._fetching.cancel()

    async def _fetch_all(self, own: Run) -> list[Run]:
        ranks = range(len(self.addresses))
        fetching = {rank: asyncio.ensure_future(self._fetch(rank)) for rank in ranks if rank != self.rank}
        try:
            found = dict(zip(fetching, await asyncio.gather(*fetching.values()), strict=True))
        finally:
            for one in fetching.values():  # when one fails, `gather` leaves the others, which would ask for ever
                one.cancel()
        return [found.get(rank, own) for rank in ranks]

    async def _fetch(self, rank: int) -> Run:
        key = (self.token, self.attempt, rank, self._exchanges)
        while True:
            # The worker of another member may be this one: then nothing is copied.
            if self.addresses[rank] == self.outboxes.worker.address:
                reply = await self.outboxes.take(key, self.rank)
            else:
                worker, peer = self.outboxes.worker, self.addresses[rank]
                try:
                    reply = await worker.rpc(peer).sort_gang_take(key=list(key), to=self.rank)
                except OSError as error:
                    own = worker.address
                    raise OSError(f"worker {own} does not reach worker {peer}: {REMEDY} ({error})") from error
            if reply["status"] == "OK":
                shard: Run = getattr(reply["shard"], "data", reply["shard"])
                return shard


class Outboxes:
    """Keep the shards that the members of a worker have cut and others have not fetched yet, on the worker's loop."""

    def __init__(self, worker: Any):
        self.worker = worker
        self.shards: dict[OutboxKey, dict[int, Run]] = {}
        self.filled: dict[OutboxKey, asyncio.Event] = {}

    def fill(self, key: OutboxKey, shards: dict[int, Run]) -> None:
        """Offer the shards of a member, by the rank of the member that fetches them."""
        if shards:
            self.shards[key] = shards
        self._wake(key)

    def drop(self, sender: Sender) -> None:
        """Forget the shards of a member, of all exchanges of an attempt."""
        for key in [key for key in {*self.shards, *self.filled} if key[:3] == sender]:
            self.shards.pop(key, None)
            self._wake(key)

    def _wake(self, key: OutboxKey) -> None:
        """Wake those who wait for a member's shards; without any, they ask again."""
        event = self.filled.pop(key, None)
        if event is not None:
            event.set()

    async def take(self, key: Sequence[Any], to: int) -> dict[str, Any]:
        """Handler: give the shard of a member for another one, once."""
        # Its status is "wait" if it is not cut yet, or never will be: whoever fetches is told by the coordinator if the
        # attempt is stopped.
        serialization.register()
        token, attempt, rank, number = key
        mine = (token, attempt, rank, number)
        if mine not in self.shards:
            event = self.filled.setdefault(mine, asyncio.Event())
            try:
                # Not `asyncio.wait_for`: before Python 3.12 it ignores that it is cancelled just after `drop`.
                async with asyncio.timeout(WAIT_SECONDS):
                    await event.wait()
            except TimeoutError:
                return {"status": "wait"}
            finally:
                if self.filled.get(mine) is event:
                    self._wake(mine)  # others may wait for this event, which no longer would be set
        shards = self.shards.get(mine, {})
        shard = shards.pop(to, None)
        if shard is None:
            return {"status": "wait"}
        if not shards:
            del self.shards[mine]
        return {"status": "OK", "shard": to_serialize(shard)}
