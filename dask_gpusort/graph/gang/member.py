"""A member of a gang, on a worker's thread: it reports to the coordinator, and waits for its orders."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NoReturn

import distributed
from distributed.metrics import context_meter
from distributed.worker import thread_state

from ...chunk.run import Run
from .communicator import Aborted, Communicator
from .coordinator import ABORT, CANCEL, ERROR, START
from .worker_plugin import GangWorkerPlugin, worker_plugin

READY, EXCHANGED = "sort-gang-ready", "sort-gang-exchanged"


@dataclass(frozen=True)
class GangSpec:
    """What the scheduler must know of a member.

    Attributes
    ----------
    token : str
        Of the gang.
    rank, size : int
    timeout : float
        In seconds, as in `config`.
    """

    token: str
    rank: int
    size: int
    timeout: float


@dataclass(frozen=True)
class Start:
    """The start of an attempt.

    Attributes
    ----------
    summaries : list
        What each member reported, by rank.
    changed : list of int
        Members that reported something else than in an attempt in which others have finished.
    """

    summaries: list[Any]
    changed: list[int]


#: Makes the shards for each rank, and how many keys arrive from each.
Cut = Callable[[Start], tuple[Sequence[Run], Sequence[int]]]


class Member:
    """One member's conversation with the coordinator.

    Parameters
    ----------
    spec : GangSpec
    plugin : GangWorkerPlugin
    run_id : int
        Of the task.
    on_devices : bool
        Whether its shards are on GPUs.
    """

    def __init__(self, spec: GangSpec, plugin: GangWorkerPlugin, run_id: int, on_devices: bool):
        self.spec, self.plugin, self.run_id = spec, plugin, run_id
        self._maker = plugin.maker if on_devices else None
        self._mailbox: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self._attempt: int | None = None
        self._communicator: Communicator | None = None

    def receive(self, op: str, fields: dict[str, Any]) -> None:
        """Take a message, on the worker's loop."""
        if op == START:
            self._attempt = fields["attempt"]
        elif op == ABORT and fields["attempt"] != self._attempt:
            return
        self._mailbox.put((op, fields))
        communicator = self._communicator
        if op != START and communicator is not None:
            communicator.abort()

    def exchange(self, summaries: Any, cut: Cut) -> list[Run]:
        """Wait for the other members and exchange shards with them, in as many attempts as it takes.

        Parameters
        ----------
        summaries : object
            What the others must know to cut their shards.
        cut : callable

        Returns
        -------
        list of Run
            The shards of all members, by rank.

        Raises
        ------
        distributed.Reschedule
            If Dask no longer wants the result.
        Exception
            That of another member.
        """
        packed = pickle.dumps(summaries, protocol=pickle.HIGHEST_PROTOCOL)
        broken: str | None = None
        while True:
            with context_meter.meter("wait"):
                start = self._wait_for_start(packed, broken)
            broken = None
            with context_meter.meter("cut"):
                shards, lengths = cut(Start([pickle.loads(one) for one in start["summaries"]], start["changed"]))
            try:
                with context_meter.meter("exchange"):
                    return self._try_exchange(start, shards, lengths)
            except Aborted:
                continue
            except Exception as error:
                broken = repr(error)

    def _try_exchange(self, start: dict[str, Any], shards: Sequence[Run], lengths: Sequence[int]) -> list[Run]:
        try:
            self._communicator = self.plugin.communicator(self.spec.token, self.spec.rank, start)
            if not self._mailbox.empty():  # the message came before there was a communicator to abort
                raise Aborted
            received = self._communicator.exchange(shards, lengths)
        finally:
            self._communicator = None
        self._send(EXCHANGED, attempt=start["attempt"])
        return received

    def _wait_for_start(self, summaries: bytes, broken: str | None) -> dict[str, Any]:
        self._send(READY, summaries=summaries, offer=self._maker and self._maker.offer(), broken=broken)
        while True:
            op, fields = self._mailbox.get()
            if op == START:
                return fields
            if op != ABORT:
                _end(op, fields)

    def _send(self, op: str, **fields: Any) -> None:
        self.plugin.send(op, token=self.spec.token, rank=self.spec.rank, run_id=self.run_id, **fields)


def _end(op: str, fields: dict[str, Any]) -> NoReturn:
    if op == ERROR:
        error = fields["error"]
        raise error
    assert op == CANCEL
    # If Dask did not want the task any more, this is ignored; if it wants it again, it runs it again.
    raise distributed.Reschedule


@contextmanager
def enlist(spec: GangSpec, on_devices: bool) -> Iterator[Member]:
    """Become a member of a gang: the worker's thread is free for other tasks from here on."""
    plugin = worker_plugin()
    member = Member(spec, plugin, plugin.worker.state.tasks[thread_state.key].run_id, on_devices)
    distributed.secede()
    plugin.members[member.run_id] = member.receive
    try:
        yield member
    finally:
        del plugin.members[member.run_id]
