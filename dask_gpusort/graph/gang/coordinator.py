"""Which gang runs when: events in, messages to workers out. Nothing here knows Dask or the network.

A member is known by the rank in its gang and by the number of Dask's attempt to run its task (`run_id`), unique on a
cluster. So messages to and from an earlier attempt are recognised and ignored. A gang is *gathering* until all
members are ready, then waits for its turn, then runs: that is an attempt, with a number of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

START, ABORT, CANCEL, ERROR = "sort-gang-start", "sort-gang-abort", "sort-gang-cancel", "sort-gang-error"
#: To a worker, and not to a member: forget a communicator.
CLOSE = "sort-gang-close"
#: From a worker: keys have arrived at a member.
PROGRESS = "sort-gang-progress"

#: Attempts that may fail, though no worker is lost, before the sort fails.
MOST_FAILURES = 3
#: Communicators that are kept for one worker. Each takes memory of its GPUs, and sorts of a cluster mostly use the same
#: workers.
MOST_COMMUNICATORS = 8
#: Sorts of the same workers that use these workers' comms after their communicator did not connect, before one tries
#: again; twice as many after each further time. So what never connects costs less and less, and what once did not
#: connect is not given up.
SORTS_WITHOUT = 8


#: Bytes of a checksum, in front of the summaries of a member.
DIGEST_BYTES = 4


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
    summaries: bytes  # checksum of the summaries of its runs, then they themselves, pickled
    #: What its worker offers to make a communicator with the others (see `communicator.Maker`).
    offer: bytes | None = None
    seconds: float = 0  # how long it has sorted

    @property
    def digest(self) -> bytes:
        """Checksum of the summaries, by which a member that has changed is known."""
        return self.summaries[:DIGEST_BYTES]


@dataclass
class Kept:
    """A communicator: its number, the offer that it is made of, and whether it has moved shards."""

    epoch: int
    offer: bytes
    connected: bool = False


@dataclass
class Without:
    """Workers whose communicator did not connect, how often in a row, and for how many sorts they do without it."""

    times: int = 0
    sorts: int = 0


@dataclass
class Attempt:
    """Follow an exchange in progress."""

    number: int
    members: dict[int, Member]  # by rank
    seconds: float  # after which it has failed if no keys have arrived anywhere
    exchanged: set[int] = field(default_factory=set)  # ranks that have received all their shards
    kept: Kept | None = None  # its communicator, if that is not the workers' own comms
    moved: bool = False  # whether keys have arrived since somebody looked

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
    timeout: float  # seconds without any progress after which an exchange has failed
    ready: dict[int, Member] = field(default_factory=dict)  # members that wait, by rank
    attempt: Attempt | None = None  # the exchange in progress
    failures: int = 0  # attempts that failed, though no worker was lost
    #: Checksums of the summaries that finished members have used, by rank.
    digests: dict[int, bytes] = field(default_factory=dict)
    #: Run id and seconds of the last member of each rank that has sorted.
    sorted: dict[int, tuple[int, float]] = field(default_factory=dict)
    #: Seconds for which others have waited for a member, where nobody else measures that, by rank.
    waited: dict[int, float] = field(default_factory=dict)


class Gangs:
    """Follow all gangs of a cluster."""

    # `on_start` is called for each attempt, and again while it gets on: the caller passes token and attempt to
    # `expired` after these seconds. `on_abort` is called for each attempt that is aborted: its members are to answer.

    def __init__(
        self,
        on_start: Callable[[str, int, float], None] = lambda *_: None,
        on_abort: Callable[[str, Attempt], None] = lambda *_: None,
    ) -> None:
        self.gangs: dict[str, Gang] = {}
        self.turns: list[str] = []  # gangs of which all members are ready, in the order in which they start
        self.communicators: dict[tuple[str, ...], Kept] = {}  # by `rank_order`, the one used last is the last one
        self._without: dict[tuple[str, ...], Without] = {}  # by `rank_order`
        self._used: dict[bytes, str] = {}  # offers of which a communicator was made, and their workers
        self._on_start, self._on_abort = on_start, on_abort
        # Workers give shards to whoever knows the number of the attempt, so it cannot be guessed.
        self._numbers = count(secrets.randbits(62))

    def forget_all(self) -> None:
        """All tasks are forgotten, and all workers are new. Numbers of attempts go on: timers of earlier ones run."""
        self.gangs.clear()
        self.turns.clear()
        self.communicators.clear()
        self._without.clear()
        self._used.clear()

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

    def ready(self, token: str, rank: int, member: Member, broken: str | None = None) -> list[Message]:
        """A member is ready, for the first time or again; `broken` says why its attempt failed, if it did."""
        gang = self.gangs[token]
        messages = []
        before = gang.ready.get(rank)
        if before is not None and before.run_id != member.run_id:
            messages.append(_to(before, CANCEL, token, rank))
        if gang.attempt is not None:
            if broken is not None:
                gang.failures += 1
                self._note_failure(gang.attempt)
            messages += self._abort(token)
        gang.ready[rank], gang.sorted[rank] = member, (member.run_id, member.seconds)
        if gang.failures >= MOST_FAILURES:
            return messages + self.failed(token, _too_many_failures(gang.failures, broken or "it took too long"))
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
        self._note_progress(running)
        gang.digests = {number: member.digest for number, member in running.members.items()}
        if len(running.exchanged) < gang.size:
            return []
        gang.attempt, gang.failures = None, 0
        return self._start()

    def progressed(self, token: str, attempt: int) -> None:
        """Keys have arrived at a member."""
        gang = self.gangs.get(token)
        if gang is not None and gang.attempt is not None and gang.attempt.number == attempt:
            self._note_progress(gang.attempt)

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
            member = gang.attempt.members[rank]
            messages += [*self._abort(token), _to(member, CANCEL, token, rank)]
        return messages + self._start()

    def lost(self, worker: str) -> list[Message]:
        """A worker is gone. Its members have left."""
        running = [token for token, gang in self.gangs.items() if gang.attempt and worker in gang.attempt.workers]
        messages = [message for token in running for message in self._abort(token)]
        for addresses in [addresses for addresses in self.communicators if worker in addresses]:
            messages += self._close(addresses)
        self._without = {addresses: one for addresses, one in self._without.items() if worker not in addresses}
        self._used = {offer: owner for offer, owner in self._used.items() if owner != worker}
        return messages + self._start()

    def failed(self, token: str, error: Any) -> list[Message]:
        """A member raised an exception: the others raise it too."""
        if token not in self.gangs:
            return []
        self.gangs[token].failures = 0
        return self._dismiss(token, ERROR, error=error) + self._start()

    def expired(self, token: str, attempt: int) -> list[Message]:
        """The time of an attempt is over."""
        gang = self.gangs.get(token)
        if gang is None or gang.attempt is None or gang.attempt.number != attempt:
            return []
        if gang.attempt.moved:
            gang.attempt.moved = False
            self._on_start(token, attempt, gang.attempt.seconds)
            return []
        gang.failures += 1
        self._note_failure(gang.attempt)
        return self._abort(token) + self._start()

    def _dismiss(self, token: str, op: str, **fields: Any) -> list[Message]:
        """Tell all members that are ready or exchange; the gang has none afterwards.

        Those of an attempt are aborted first: one of them may have ended, so that only this message empties its outbox.
        """
        gang = self.gangs[token]
        members, attempt = dict(gang.ready), gang.attempt
        messages = self._abort(token)
        if attempt is not None:
            members |= {rank: one for rank, one in attempt.members.items() if rank not in attempt.exchanged}
        gang.ready.clear()
        self._no_turn(token)
        return messages + [_to(member, op, token, rank, **fields) for rank, member in members.items()]

    def _abort(self, token: str) -> list[Message]:
        """End an attempt. Its members become ready again, or have received everything."""
        gang = self.gangs[token]
        attempt, gang.attempt = gang.attempt, None
        if attempt is None:
            return []
        self._on_abort(token, attempt)
        messages = [_to(one, ABORT, token, rank, attempt=attempt.number) for rank, one in attempt.members.items()]
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
        gang.attempt = attempt = Attempt(next(self._numbers), members, gang.timeout * 2**gang.failures)
        attempt.kept, messages = self._communicator(gang, members)
        self._on_start(token, attempt.number, attempt.seconds)
        changed = [rank for rank, one in members.items() if gang.digests.get(rank) not in (None, one.digest)]
        fields = {
            "attempt": attempt.number,
            "addresses": _addresses(members),
            "summaries": [member.summaries for member in members.values()],
            "communicator": attempt.kept and (attempt.kept.epoch, attempt.kept.offer),
            "changed": changed,
        }
        return messages + [_to(member, START, token, rank, **fields) for rank, member in members.items()]

    def _communicator(self, gang: Gang, members: dict[int, Member]) -> tuple[Kept | None, list[Message]]:
        """Choose a communicator of these workers, None for the workers' own comms; and messages."""
        # The workers' own comms also serve two members on one worker, a gang of one, and whatever made an attempt fail.
        # Each offer makes one communicator: of two, one would never connect. Offers of any rank will do.
        addresses = rank_order(_addresses(members))
        offers = {member.worker: member.offer for member in members.values()}
        if gang.size == 1 or gang.failures or len(offers) < len(addresses) or None in offers.values():
            return None, []
        without = self._without.get(addresses)
        if without is not None and without.sorts:
            without.sorts -= 1
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

    def _note_progress(self, attempt: Attempt) -> None:
        attempt.moved = True
        if attempt.kept is not None:
            attempt.kept.connected = True
            self._without.pop(attempt.ranks, None)

    def _note_failure(self, attempt: Attempt) -> None:
        """An attempt failed, though no worker was lost."""
        if attempt.kept is not None and not attempt.kept.connected:
            without = self._without.setdefault(attempt.ranks, Without())
            without.sorts = SORTS_WITHOUT << without.times
            without.times += 1


def rank_order(addresses: Sequence[str]) -> tuple[str, ...]:
    """Addresses of workers by their ranks in a communicator: the same for all gangs of these workers.

    The order of members is that of their chunks, so arrays of the same workers would otherwise connect them again.
    """
    return tuple(sorted(addresses))


def _addresses(members: dict[int, Member]) -> tuple[str, ...]:
    return tuple(member.worker for _, member in sorted(members.items()))


def _to(member: Member, op: str, token: str, rank: int, **fields: Any) -> Message:
    return Message(member.worker, op, {"token": token, "rank": rank, "run_id": member.run_id, **fields})


def _too_many_failures(failures: int, why: str) -> RuntimeError:
    return RuntimeError(
        f"the gang failed {failures} times to exchange keys between its workers, the last time because {why}: use "
        "exchange='tasks', or set gpusort.gang_timeout if no keys arrive for longer than that"
    )
