"""A member of a gang: what its worker passes on and keeps, and its thread, which reports and waits for orders."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

import distributed

from ...chunk import communicator_maker, complete
from ...chunk.communicator import Aborted, Communicator, Maker
from ...chunk.run import Run
from .._dask import Task
from .._distributed import CheckedWorkerPlugin, clean_exception, context_meter, plugin_of_worker, thread_state
from .communicator import Outboxes, Reordered, Shards, WorkerComms
from .coordinator import CANCEL, CLOSE, ERROR, START, rank_order

NAME = "gpusort-gang"


class GangWorkerPlugin(CheckedWorkerPlugin):
    """Pass the coordinator's messages to the members of this worker."""

    name = NAME

    def setup(self, worker: Any) -> None:
        """Register the handlers of the worker."""
        super().setup(worker)
        self.closed = False  # whether the worker closes, so that no member hears of anything any more
        self.enlisting = threading.Lock()  # of a thread that becomes a member
        self.outboxes = Outboxes(worker)
        #: Where each member of this worker takes messages (op, fields), by run id.
        self.members: dict[int, Callable[[str, dict[str, Any]], None]] = {}
        self._made: dict[tuple[str, ...], tuple[int, Communicator]] = {}  # changed on the worker's loop alone
        self._makers: list[Maker | None] = []  # the maker, once it is known
        self._making = threading.Lock()
        worker.handlers["sort_gang_take"] = self.outboxes.take
        for op in (START, CANCEL, ERROR):
            worker.stream_handlers[op] = partial(self._deliver, op)
        worker.stream_handlers[CLOSE] = self._close

    @property
    def maker(self) -> Maker | None:
        """Make communicators for this worker's GPU; read for members with chunks on GPUs."""
        with self._making:
            if not self._makers:
                self._makers.append(communicator_maker())
            return self._makers[0]

    async def teardown(self, worker: Any) -> None:
        """End the members: the worker closes."""
        self.closed = True
        # Next the worker waits for its threads, up to 30 s, and no thread of this process can secede meanwhile. A
        # thread of this worker that tried to would wait for the worker, and the worker for it.
        while self.enlisting.locked():
            await asyncio.sleep(0.001)
        for deliver in list(self.members.values()):
            deliver(CANCEL, {})
        for _, made in self._made.values():
            made.abort()

    def _deliver(self, op: str, *, token: str, rank: int, run_id: int, **fields: Any) -> None:
        if op == START and fields.get("communicator") is not None:
            self._make(rank, **fields)
        if op != START and "attempt" in fields:
            self.outboxes.drop(token, fields["attempt"], rank)
        deliver = self.members.get(run_id)
        if deliver is not None:
            deliver(op, fields)

    def _make(self, rank: int, *, addresses: Sequence[str], communicator: tuple[int, bytes], **_: Any) -> None:
        """Make the communicator of an attempt, unless it is kept from an earlier one."""
        # NCCL waits for all ranks, however long. So each worker takes part as soon as it hears of the attempt, whatever
        # becomes of its member.
        epoch, offer = communicator
        order = rank_order(addresses)
        known, made = self._made.get(order, (None, None))
        if known == epoch:
            return
        if made is not None:
            made.abort()
        maker = self.maker
        assert maker is not None, "each of the workers has made an offer"
        self._made[order] = (epoch, maker.make(offer, len(order), order.index(addresses[rank])))

    def _close(self, *, addresses: Sequence[str], epoch: int) -> None:
        """Forget a communicator that will not be used again, unless it has been replaced."""
        known, made = self._made.get(tuple(addresses), (None, None))
        if made is not None and known == epoch:
            del self._made[tuple(addresses)]
            made.abort()

    def send(self, op: str, **fields: Any) -> None:
        """Send a message to the coordinator, from any thread."""
        self.worker.loop.add_callback(self.worker.batched_send, {"op": op, **fields})

    def communicator(self, token: str, rank: int, start: dict[str, Any]) -> Communicator:
        """Make the communicator of an attempt, for a member that has its start message, unless it is closed already."""
        addresses = tuple(start["addresses"])
        if start["communicator"] is None:
            return WorkerComms(self.outboxes, token, start["attempt"], rank, addresses)
        epoch, _ = start["communicator"]
        order = rank_order(addresses)
        known, made = self._made.get(order, (None, None))
        if made is None or known != epoch:
            raise Aborted
        return Reordered(made, [order.index(address) for address in addresses])


READY, EXCHANGED, BROKEN = "sort-gang-ready", "sort-gang-exchanged", "sort-gang-broken"

#: Makes a member's chunks of each output, complete, once all shards have arrived.
Finish: TypeAlias = Callable[[], tuple[list[Any], ...]]
#: Gives the shards of an exchange, takes those that arrive, and so on.
Exchanges: TypeAlias = Generator[Shards, Any, Finish]


@dataclass(frozen=True)
class GangSpec:
    """Say what the scheduler must know of a member."""

    token: str  # of the gang
    rank: int
    size: int
    timeout: float  # in seconds, as in `config`
    on_devices: bool = False  # whether its chunks are on GPUs
    #: If the task is an output chunk, the task that makes it behind a member of the gang that serves parts of the
    #: output. It takes the place of this one if the scheduler knows other chunks as such tasks.
    instead: Task | None = None


class Work(Protocol):
    """What a member does between its messages."""

    on_devices: bool  # whether its shards are on a GPU

    @property
    def summaries(self) -> Any:
        """What the others must know to begin."""

    def checksum(self) -> int:
        """The checksum by which a change is known: the same one for the same keys in any process."""

    def exchanges(self, summaries: list[Any]) -> Exchanges:
        """Begin with the summaries of all members, by rank."""


class Member:
    """Hold one member's conversation with the coordinator."""

    def __init__(self, spec: GangSpec, plugin: GangWorkerPlugin, run_id: int, on_devices: bool):
        self.spec, self.plugin, self.run_id = spec, plugin, run_id
        self._maker = plugin.maker if on_devices else None
        self._mailbox: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self._communicator: Communicator | None = None

    def receive(self, op: str, fields: dict[str, Any]) -> None:
        """Take a message, on the worker's loop."""
        self._mailbox.put((op, fields))
        communicator = self._communicator
        if op != START and communicator is not None:
            communicator.abort()

    def run(self, work: Work) -> tuple[list[Any], ...]:
        """Wait for the other members, exchange shards with them, and give what is made.

        What the others raise is raised here. If an exchange fails, or another member is lost, this task ends, and Dask
        runs it again.
        """
        offer = self._maker and self._maker.offer()
        summaries = pickle.dumps(work.summaries, protocol=pickle.HIGHEST_PROTOCOL)
        self._send(READY, checksum=work.checksum(), summaries=summaries, offer=offer)
        with context_meter.meter("wait"):
            start = self._wait()
        try:
            finish = self._exchange_all(start, work.exchanges(list(map(pickle.loads, start["summaries"]))))
        except Aborted:
            self._wait()
        self._send(EXCHANGED, attempt=start["attempt"])
        with context_meter.meter("merge"):
            return finish()

    def _exchange_all(self, start: dict[str, Any], exchanges: Exchanges) -> Finish:
        """All exchanges of an attempt, and what is done behind them."""
        received: list[Run] | None = None
        try:
            while True:
                with context_meter.meter("cut"):
                    try:
                        shards = exchanges.send(received)
                    except StopIteration as end:
                        finish: Finish = end.value
                        return finish
                    complete(shards.sent[0].keys)
                with context_meter.meter("exchange"):
                    received = self._exchange(start, shards)
                del shards
        finally:
            self._communicator = None  # the next gang may use it from here on

    def _exchange(self, start: dict[str, Any], shards: Shards) -> list[Run]:
        try:
            if self._communicator is None:
                self._communicator = self.plugin.communicator(self.spec.token, self.spec.rank, start)
            if not self._mailbox.empty():  # the message came before there was a communicator to abort
                raise Aborted
            return self._communicator.exchange(*shards)
        except Aborted:
            raise
        except Exception as error:
            self._send(BROKEN, attempt=start["attempt"], why=repr(error))
            raise Aborted from error

    def _wait(self) -> dict[str, Any]:
        """The fields of the start; raises what another message says, the only one that may follow a start."""
        op, fields = self._mailbox.get()
        if op == ERROR:
            # A task's exception reaches the scheduler, and comes from there, as pickled bytes.
            _, error, _ = clean_exception(fields["error"])
            assert error is not None
            raise error
        if op == CANCEL:
            # If Dask did not want the task any more, this is ignored; if it wants it, it runs it again.
            raise distributed.Reschedule
        return fields

    def _send(self, op: str, **fields: Any) -> None:
        self.plugin.send(op, token=self.spec.token, rank=self.spec.rank, run_id=self.run_id, **fields)


@contextmanager
def enlist(spec: GangSpec, on_devices: bool) -> Iterator[Member]:
    """Become a member of a gang: the worker's thread is free for other tasks from here on."""
    plugin: GangWorkerPlugin = plugin_of_worker(NAME)
    member = Member(spec, plugin, plugin.worker.state.tasks[thread_state.key].run_id, on_devices)
    with plugin.enlisting:  # so that a worker that closes finds all its members, and none comes later
        if plugin.closed:
            raise distributed.Reschedule
        distributed.secede()
        plugin.members[member.run_id] = member.receive
    try:
        yield member
    finally:
        del plugin.members[member.run_id]
