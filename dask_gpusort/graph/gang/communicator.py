"""How shards move between the members of a gang.

There are two communicators (see `chunk.communicator`). `WorkerComms` uses the connections that Dask's workers have with
each other: with any placement, any chunks, and after any fault. A `Maker` makes the other, for members that all have a
GPU of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from ...chunk.communicator import Aborted, Communicator
from ...chunk.run import Run
from .. import serialization
from .._distributed import REMEDY, to_serialize

#: Token of a gang, numbers of the attempt, of the sender and of the exchange: a member may be one ahead of another.
OutboxKey: TypeAlias = tuple[str, int, int, int]

#: Seconds for which a worker waits for a member that has not cut its shards, before it answers that it has none yet.
WAIT_SECONDS = 5.0


class Shards(NamedTuple):
    """Hold what a member sends in one exchange, a shard to each member, and say what it receives from each."""

    #: For each rank, this one included. All have the same dtypes, on all members. They may be views, and must not be
    #: overwritten.
    sent: list[Run]
    lengths: list[int]  # keys that arrive from each rank


class Reordered:
    """Use a kept communicator for members whose order is not that of its ranks (see `coordinator.rank_order`)."""

    def __init__(self, kept: Communicator, ranks: Sequence[int]):
        self.kept, self.ranks = kept, ranks

    def exchange(self, sent: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        members = sorted(range(len(self.ranks)), key=self.ranks.__getitem__)  # by rank
        received = self.kept.exchange([sent[one] for one in members], [lengths[one] for one in members])
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

    def exchange(self, sent: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        loop, own = self.outboxes.worker.loop.asyncio_loop, (self.token, self.attempt, self.rank)
        loop.call_soon_threadsafe(self.outboxes.fill, (*own, self._exchanges), dict(enumerate(sent)))
        self._fetching = asyncio.run_coroutine_threadsafe(self._fetch_all(), loop)
        if self._aborted:
            self.abort()
        try:
            received = self._fetching.result()
            for rank, (run, length) in enumerate(zip(received, lengths, strict=True)):
                if len(run) != length:
                    raise RuntimeError(f"member {rank} sent {len(run)} keys where the cuts say {length}")
        except BaseException as error:
            loop.call_soon_threadsafe(self.outboxes.drop, *own)
            if isinstance(error, CancelledError):
                raise Aborted from None
            raise
        self._exchanges += 1
        return received

    def abort(self) -> None:
        self._aborted = True
        if self._fetching is not None:
            self._fetching.cancel()

    async def _fetch_all(self) -> list[Run]:
        fetching = [asyncio.ensure_future(self._fetch(rank)) for rank in range(len(self.addresses))]
        try:
            return await asyncio.gather(*fetching)
        finally:
            for one in fetching:  # when one fails, `gather` leaves the others, which would ask for ever
                one.cancel()

    async def _fetch(self, rank: int) -> Run:
        key = self.token, self.attempt, rank, self._exchanges
        worker, peer = self.outboxes.worker, self.addresses[rank]
        while True:
            # The worker of another member may be this one: then nothing is copied.
            if peer == worker.address:
                reply = await self.outboxes.take(key, self.rank)
            else:
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
        self.shards: dict[OutboxKey, dict[int, Run]] = {}  # by the rank of the member that fetches them
        self._filled = asyncio.Event()  # when one is filled; then there is a new one

    def fill(self, key: OutboxKey, shards: dict[int, Run]) -> None:
        """Offer the shards of a member, by the rank of the member that fetches them."""
        self.shards[key] = shards
        self._filled.set()
        self._filled = asyncio.Event()

    def drop(self, token: str, attempt: int, rank: int) -> None:
        """Forget the shards of a member, of all exchanges of an attempt."""
        for key in [key for key in self.shards if key[:3] == (token, attempt, rank)]:
            del self.shards[key]

    async def take(self, key: Sequence[Any], to: int) -> dict[str, Any]:
        """Handler: give the shard of a member for another one, once."""
        # Its status is "wait" if it is not cut yet, or never will be: whoever fetches is told by the coordinator if the
        # attempt is stopped.
        serialization.register()
        token, attempt, rank, number = key
        mine = (token, attempt, rank, number)
        # Not `asyncio.wait_for`: before Python 3.12 it ignores that it is cancelled just as what it waits for ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while mine not in self.shards:
                    await self._filled.wait()
        shards = self.shards.get(mine, {})
        shard = shards.pop(to, None)
        if shard is None:
            return {"status": "wait"}
        if not shards:
            del self.shards[mine]
        return {"status": "OK", "shard": to_serialize(shard)}
