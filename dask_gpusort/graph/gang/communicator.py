"""How shards move between the members of a gang.

A `Communicator` is used by one member at a time, from one thread. There are two implementations. `WorkerComms` uses the
connections that Dask's workers have with each other: with any placement, any chunks, and after any fault. A `Maker`
makes the other, for members that all have a GPU of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any, Protocol, TypeAlias

from distributed.protocol import to_serialize

from ...chunk.run import Run
from .. import serialization

#: Token of a gang, number of the attempt, rank of the sender.
OutboxKey: TypeAlias = tuple[str, int, int]

#: Seconds for which a worker waits for a member that has not cut its shards, before it answers that it has none yet.
WAIT_SECONDS = 5.0


class Aborted(Exception):
    """The attempt was aborted: the member is ready for the next one."""


class Communicator(Protocol):
    """Moves shards between the members of one attempt."""

    def exchange(self, shards: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        """Send a shard to each member and receive one from each.

        Parameters
        ----------
        shards : sequence of Run
            For each rank, this one included. All have the same dtypes, on all members. They may be views, must not be
            overwritten, and are complete: no kernel is still writing them.
        lengths : sequence of int
            Keys that arrive from each rank.

        Returns
        -------
        list of Run
            From each rank, complete. The own one may be the one that was given.

        Raises
        ------
        Exception
            Any, if the exchange failed or was aborted. Other members may have received everything nevertheless.
        """

    def abort(self) -> None:
        """Make an `exchange` in progress raise. Called from any thread, at any time, also twice or in vain."""


class Maker(Protocol):
    """Makes communicators of workers that have a GPU each. They are kept for later gangs of the same workers.

    A worker whose `worker_plugin.GangWorkerPlugin.maker` is not None offers to make one with every member that it runs.
    """

    def offer(self) -> bytes | None:
        """What all ranks need of rank 0, such as NCCL's unique id; None if this worker cannot take part."""

    def make(self, offer: bytes, size: int, rank: int) -> Communicator:
        """Make a communicator together with all other ranks, which call this at the same time."""


class Reordered:
    """A communicator that is kept, for members whose order is not that of its ranks (see `coordinator.rank_order`).

    Parameters
    ----------
    kept : Communicator
    ranks : sequence of int
        The rank in it of each member.
    """

    def __init__(self, kept: Communicator, ranks: Sequence[int]):
        self.kept = kept
        self.ranks = ranks

    def exchange(self, shards: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        members = sorted(range(len(self.ranks)), key=self.ranks.__getitem__)  # by rank
        received = self.kept.exchange([shards[one] for one in members], [lengths[one] for one in members])
        return [received[rank] for rank in self.ranks]

    def abort(self) -> None:
        self.kept.abort()


class WorkerComms:
    """The communicator over the workers' own connections: each member fetches its shards.

    Parameters
    ----------
    outboxes : Outboxes
        Those of the member's worker.
    token : str
    attempt, rank : int
    addresses : sequence of str
        Addresses of all members' workers.
    """

    def __init__(self, outboxes: Outboxes, token: str, attempt: int, rank: int, addresses: Sequence[str]):
        self.outboxes = outboxes
        self.token, self.attempt, self.rank = token, attempt, rank
        self.addresses = addresses
        self._future: Any = None
        self._aborted = False

    def exchange(self, shards: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        loop = self.outboxes.worker.loop.asyncio_loop
        self._future = asyncio.run_coroutine_threadsafe(self._exchange(shards), loop)
        if self._aborted:
            self._future.cancel()
        try:
            received: list[Run] = self._future.result()
        except CancelledError:
            raise Aborted from None
        for rank, (run, length) in enumerate(zip(received, lengths, strict=True)):
            if len(run) != length:
                raise RuntimeError(f"member {rank} sent {len(run)} keys where the cuts say {length}")
        return received

    def abort(self) -> None:
        self._aborted = True
        if self._future is not None:
            self._future.cancel()

    async def _exchange(self, shards: Sequence[Run]) -> list[Run]:
        key = self.token, self.attempt, self.rank
        self.outboxes.fill(key, {rank: run for rank, run in enumerate(shards) if rank != self.rank})
        others = [rank for rank in range(len(shards)) if rank != self.rank]
        try:
            found = dict(zip(others, await asyncio.gather(*map(self._fetch, others)), strict=True))
        except BaseException:
            self.outboxes.drop(key)
            raise
        return [found.get(rank, shards[self.rank]) for rank in range(len(shards))]

    async def _fetch(self, rank: int) -> Run:
        key = self.token, self.attempt, rank
        while True:
            # The worker of another member may be this one: then nothing is copied.
            if self.addresses[rank] == self.outboxes.worker.address:
                reply = await self.outboxes.take(key, self.rank)
            else:
                rpc = self.outboxes.worker.rpc(self.addresses[rank])
                reply = await rpc.sort_gang_take(key=list(key), to=self.rank)
            if reply["status"] == "OK":
                run: Run = getattr(reply["shard"], "data", reply["shard"])
                return run


class Outboxes:
    """The shards that the members of a worker have cut and others have not fetched yet. Used on the worker's loop.

    Parameters
    ----------
    worker : distributed.Worker
    """

    def __init__(self, worker: Any):
        self.worker = worker
        self.shards: dict[OutboxKey, dict[int, Run]] = {}
        self.filled: dict[OutboxKey, asyncio.Event] = {}

    def fill(self, key: OutboxKey, shards: dict[int, Run]) -> None:
        """Offer the shards of a member, by rank of the member that fetches them."""
        if shards:
            self.shards[key] = shards
        self._wake(key)

    def drop(self, key: OutboxKey) -> None:
        """Forget the shards of a member."""
        self.shards.pop(key, None)
        self._wake(key)

    def _wake(self, key: OutboxKey) -> None:
        """Wake those who wait for a member's shards."""
        if key in self.filled:
            self.filled[key].set()

    async def take(self, key: Sequence[Any], to: int) -> dict[str, Any]:
        """Handler: the shard of a member for another one; its status is "wait" if it is not cut yet, or never will be.

        Whoever fetches is told by the coordinator if the attempt is aborted.
        """
        serialization.register()
        token, attempt, rank = key
        mine = (token, attempt, rank)
        if mine not in self.shards:
            event = self.filled.setdefault(mine, asyncio.Event())
            try:
                await asyncio.wait_for(event.wait(), WAIT_SECONDS)
            except TimeoutError:
                return {"status": "wait"}
            finally:
                if self.filled.get(mine) is event:
                    del self.filled[mine]
        shards = self.shards.get(mine, {})
        if to not in shards:
            return {"status": "wait"}
        shard = shards.pop(to)
        if not shards:
            del self.shards[mine]
        return {"status": "OK", "shard": to_serialize(shard)}
