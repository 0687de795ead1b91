"""Which gang runs when: events in, messages to workers out. Nothing here knows Dask or the network.

A member is known by the rank in its gang and by the number of Dask's attempt to run its task (`run_id`), unique on a
cluster. So messages to and from an earlier attempt are recognised and ignored. A gang is *gathering* until all
members are ready, then waits for its turn, then runs: that is an attempt, with a number of its own. If it fails, or a
member or worker is lost, all members end, and Dask runs them again from their chunks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from ...chunk.checks import changed_source

START, CANCEL, ERROR = "sort-gang-start", "sort-gang-cancel", "sort-gang-error"
#: To a worker, and not to a member: forget a communicator.
CLOSE = "sort-gang-close"

#: Communicators that are kept for one worker. Each takes memory of its GPUs, and sorts of a cluster mostly use the same
#: workers.
MOST_COMMUNICATORS = 8


class Message(NamedTuple):
    """A message to a worker: an operation with fields, for the member with a `run_id`, except `CLOSE`."""

    worker: str
    op: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Member:
    """Hold a member that is ready."""

    worker: str  # its address
    run_id: int
    checksum: int  # of the summaries, by which a member that has changed is known
    summaries: bytes  # of its runs, pickled
    #: What its worker offers to make a communicator with the others (see `chunk.communicator.Maker`).
    offer: bytes | None = None


@dataclass
class Kept:
    """A communicator: its number, the offer that it is made of, and whether it has moved shards."""

    epoch: int
    offer: bytes
    connected: bool = False


@dataclass
class Attempt:
    """Follow an exchange in progress."""

    number: int
    members: dict[int, Member]  # by rank
    kept: Kept | None  # its communicator, if that is not the workers' own comms
    exchanged: set[int] = field(default_factory=set)  # ranks that have received all their shards

    @property
    def workers(self) -> set[str]:
        """Addresses of its workers."""
        return {member.worker for member in self.members.values()}

    @property
    def ranks(self) -> tuple[str, ...]:
        """Addresses of its workers by their ranks in a communicator."""
        return rank_order(_addresses(self.members))


@dataclass
class Gang:
    """Follow one gang."""

    size: int  # number of members
    timeout: float  # in seconds, as in `config`
    ready: dict[int, Member] = field(default_factory=dict)  # members that wait, by rank
    attempt: Attempt | None = None  # the exchange in progress
    #: The workers of an attempt that failed, though none of them is lost: the next one is the last.
    failed_on: set[str] | None = None
    #: Checksums of the summaries that finished members have used, by rank.
    checksums: dict[int, int] = field(default_factory=dict)
    #: Since when its members have waited for one that no worker runs, as the caller tells time.
    stuck_since: float | None = None


class Gangs:
    """Follow all gangs of a cluster."""

    # `on_start` is called for each attempt: the caller passes token and attempt to `broken` when its time is over.
    # `on_stop` is called for each attempt that is stopped: its members are to end.

    def __init__(
        self,
        on_start: Callable[[str, int], None] = lambda *_: None,
        on_stop: Callable[[str, Attempt], None] = lambda *_: None,
    ) -> None:
        self.gangs: dict[str, Gang] = {}
        self.turns: list[str] = []  # gangs of which all members are ready, in the order in which they start
        self.communicators: dict[tuple[str, ...], Kept] = {}  # by `rank_order`, the one used last is the last one
        self._unconnected: set[tuple[str, ...]] = set()  # by `rank_order`: workers that did not connect
        self._used: dict[bytes, str] = {}  # offers of which a communicator was made, and their workers
        self._on_start, self._on_stop = on_start, on_stop
        # Workers give shards to whoever knows the number of the attempt, so it cannot be guessed. It differs from those
        # before a restart of the cluster, of which timers still run.
        self._numbers = count(secrets.randbits(62))

    def add(self, token: str, size: int, timeout: float) -> None:
        """A gang that may send events from now on; nothing if it is known."""
        self.gangs.setdefault(token, Gang(size, timeout))

    def forget(self, token: str) -> list[Message]:
        """No task of a gang is needed any more."""
        if token not in self.gangs:
            return []
        messages = self._dismiss(token, CANCEL)
        del self.gangs[token]
        return messages + self._start()

    def unexpected(self, token: str, rank: int, member: Member) -> list[Message]:
        """A member is ready that Dask no longer wants."""
        return [_to(member, CANCEL, token, rank)]

    def ready(self, token: str, rank: int, member: Member) -> list[Message]:
        """A member is ready."""
        gang = self.gangs[token]
        before = gang.ready.get(rank)
        messages = [_to(before, CANCEL, token, rank)] if before is not None else []
        gang.ready[rank] = member
        if gang.checksums.get(rank, member.checksum) != member.checksum:
            what = f"the chunks of member {rank} are not what they were when they were exchanged"
            return messages + self.failed(token, changed_source(what))
        if len(gang.ready) == gang.size and token not in self.turns:
            self.turns.append(token)
        return messages + self._start()

    def exchanged(self, token: str, rank: int, run_id: int, attempt: int) -> list[Message]:
        """A member has received all its shards."""
        gang = self.gangs.get(token)
        running = gang.attempt if gang is not None else None
        if gang is None or running is None or running.number != attempt or running.members[rank].run_id != run_id:
            return []
        running.exchanged.add(rank)
        if running.kept is not None:
            running.kept.connected = True
        gang.checksums = {number: member.checksum for number, member in running.members.items()}
        if len(running.exchanged) < gang.size:
            return []
        gang.attempt = gang.failed_on = None
        return self._start()

    def broken(self, token: str, attempt: int, why: str) -> list[Message]:
        """An exchange has failed, though no worker is lost: all members run again, or raise."""
        gang = self.gangs.get(token)
        if gang is None or gang.attempt is None or gang.attempt.number != attempt:
            return []
        failed_on, gang.failed_on = gang.failed_on, gang.attempt.workers
        if gang.attempt.kept is not None and not gang.attempt.kept.connected:
            self._unconnected.add(gang.attempt.ranks)
        if failed_on is not None:
            return self.failed(token, _failed_twice(why))
        return self._stop(token) + self._start()

    def left(self, token: str, rank: int) -> list[Message]:
        """Dask no longer runs a member, which has no result."""
        gang = self.gangs.get(token)
        if gang is None:
            return []
        messages = []
        member = gang.ready.pop(rank, None)
        if member is not None:
            messages.append(_to(member, CANCEL, token, rank))
            self._no_turn(token)
        # What a member has exchanged is with the others, or in its outbox, until its worker is lost.
        if gang.attempt is not None and rank not in gang.attempt.exchanged:
            messages += self._stop(token)
        return messages + self._start()

    def lost(self, worker: str) -> list[Message]:
        """A worker is gone. Its members have left."""
        running = [token for token, gang in self.gangs.items() if gang.attempt and worker in gang.attempt.workers]
        messages = [message for token in running for message in self._stop(token)]
        for gang in self.gangs.values():  # others notice the loss of a worker first, as an exchange that fails
            if gang.failed_on is not None and worker in gang.failed_on:
                gang.failed_on = None
        for addresses in [addresses for addresses in self.communicators if worker in addresses]:
            messages += self._close(addresses)
        self._unconnected = {addresses for addresses in self._unconnected if worker not in addresses}
        self._used = {offer: owner for offer, owner in self._used.items() if owner != worker}
        return messages + self._start()

    def failed(self, token: str, error: Any) -> list[Message]:
        """A member raised an exception: the others raise it too."""
        if token not in self.gangs:
            return []
        self.gangs[token].failed_on = None
        return self._dismiss(token, ERROR, error=error) + self._start()

    def _dismiss(self, token: str, op: str, **fields: Any) -> list[Message]:
        """Tell all members that are ready or exchange; the gang has none afterwards."""
        gang = self.gangs[token]
        messages = [_to(member, op, token, rank, **fields) for rank, member in gang.ready.items()]
        gang.ready.clear()
        self._no_turn(token)
        return messages + self._stop(token, op, **fields)

    def _stop(self, token: str, op: str = CANCEL, **fields: Any) -> list[Message]:
        """End an attempt, and all its members, but those that have received everything: these hear nothing any more."""
        gang = self.gangs[token]
        attempt, gang.attempt = gang.attempt, None
        if attempt is None:
            return []
        self._on_stop(token, attempt)
        fields["attempt"] = attempt.number  # by which a worker empties the member's outbox
        messages = [_to(member, op, token, rank, **fields) for rank, member in attempt.members.items()]
        return messages + self._close(attempt.ranks)

    def _close(self, addresses: tuple[str, ...]) -> list[Message]:
        """Forget a communicator, if there is one; no attempt uses it."""
        kept = self.communicators.pop(addresses, None)
        if kept is None:
            return []
        fields = {"addresses": addresses, "epoch": kept.epoch}
        return [Message(worker, CLOSE, fields) for worker in addresses]

    def _no_turn(self, token: str) -> None:
        if token in self.turns:
            self.turns.remove(token)

    def _start(self) -> list[Message]:
        """Start all gangs whose workers are free, and wanted by no earlier gang."""
        busy = {worker for gang in self.gangs.values() if gang.attempt for worker in gang.attempt.workers}
        messages = []
        for token in list(self.turns):
            gang = self.gangs[token]
            workers = {member.worker for member in gang.ready.values()}
            if not workers & busy:
                self.turns.remove(token)
                messages += self._start_one(token, gang)
            busy |= workers
        return messages

    def _start_one(self, token: str, gang: Gang) -> list[Message]:
        members = {rank: gang.ready[rank] for rank in range(gang.size)}
        gang.ready.clear()
        gang.stuck_since = None
        kept, messages = self._communicator(gang, members)
        gang.attempt = attempt = Attempt(next(self._numbers), members, kept)
        self._on_start(token, attempt.number)
        fields = {
            "attempt": attempt.number,
            "addresses": _addresses(members),
            "summaries": [member.summaries for member in members.values()],
            "communicator": kept and (kept.epoch, kept.offer),
        }
        return messages + [_to(member, START, token, rank, **fields) for rank, member in members.items()]

    def _communicator(self, gang: Gang, members: dict[int, Member]) -> tuple[Kept | None, list[Message]]:
        """Choose a communicator of these workers, None for the workers' own comms; and messages."""
        # The workers' own comms also serve two members on one worker, a gang of one, and whatever made an attempt fail.
        # Each offer makes one communicator: of two, one would never connect. Offers of any rank will do.
        addresses = rank_order(_addresses(members))
        offers = {member.worker: member.offer for member in members.values()}
        if gang.size == 1 or gang.failed_on is not None or len(offers) < len(addresses) or None in offers.values():
            return None, []
        if addresses in self._unconnected:
            return None, []
        kept = self.communicators.pop(addresses, None)
        messages = []
        if kept is None:
            unused = [(offers[worker] or b"", worker) for worker in addresses if offers[worker] not in self._used]
            if not unused:
                return None, []
            offer, owner = unused[0]
            self._used[offer] = owner
            kept = Kept(next(self._numbers), offer)
            messages = self._close_oldest(addresses)
        self.communicators[addresses] = kept
        return kept, messages

    def _close_oldest(self, addresses: tuple[str, ...]) -> list[Message]:
        """Close a communicator of each worker that has as many as are kept, the one used longest ago.

        No other gang exchanges on these workers now, so all their communicators are unused.
        """
        messages = []
        for worker in addresses:
            own = [one for one in self.communicators if worker in one]
            if len(own) >= MOST_COMMUNICATORS:
                messages += self._close(own[0])
        return messages


def rank_order(addresses: Sequence[str]) -> tuple[str, ...]:
    """Addresses of workers by their ranks in a communicator: the same for all gangs of these workers.

    The order of members is that of their chunks, so arrays of the same workers would otherwise connect them again.
    """
    return tuple(sorted(addresses))


def _addresses(members: dict[int, Member]) -> tuple[str, ...]:
    return tuple(member.worker for _, member in sorted(members.items()))


def _to(member: Member, op: str, token: str, rank: int, **fields: Any) -> Message:
    return Message(member.worker, op, {"token": token, "rank": rank, "run_id": member.run_id, **fields})


def _failed_twice(why: str) -> RuntimeError:
    return RuntimeError(
        f"the gang failed 2 times to exchange keys between its workers, the last time because {why}: use "
        "exchange='tasks', or set gpusort.gang_timeout if it needs more time"
    )
