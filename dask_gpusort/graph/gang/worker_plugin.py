"""The gang on a worker: messages to its members, their outboxes, and communicators that are kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...chunk import communicator_maker
from .._distributed import CheckedWorkerPlugin
from .communicator import Aborted, Communicator, KeptCommunicator, Maker, Outboxes, Progress, Reordered, WorkerComms
from .coordinator import ABORT, CANCEL, CLOSE, ERROR, PROGRESS, START, rank_order

NAME = "gpusort-gang"


class GangWorkerPlugin(CheckedWorkerPlugin):
    """Pass the coordinator's messages to the members of this worker."""

    name = NAME

    def setup(self, worker: Any) -> None:
        """Register the handlers of the worker."""
        super().setup(worker)
        self.closed = False  # whether the worker closes, so that no member hears of anything any more
        self.outboxes = Outboxes(worker)
        #: Where each member of this worker takes messages (op, fields), by run id.
        self.members: dict[int, Callable[[str, dict[str, Any]], None]] = {}
        self._made: dict[tuple[str, ...], tuple[int, KeptCommunicator]] = {}  # changed on the worker's loop alone
        self._makers: list[Maker | None] = []  # the maker, once it is known
        self._making = threading.Lock()
        worker.handlers["sort_gang_take"] = self.outboxes.take
        for op in (START, ABORT, CANCEL, ERROR):
            worker.stream_handlers[op] = partial(self._deliver, op)
        worker.stream_handlers[CLOSE] = self._close

    @property
    def maker(self) -> Maker | None:
        """Make communicators for this worker's GPU; read for members with chunks on GPUs."""
        with self._making:
            if not self._makers:
                self._makers.append(communicator_maker())
            return self._makers[0]

    def teardown(self, worker: Any) -> None:
        """End the members: the worker closes."""
        self.closed = True
        for deliver in list(self.members.values()):
            deliver(CANCEL, {})
        for _, made in self._made.values():
            made.abort()

    def _deliver(self, op: str, *, token: str, rank: int, run_id: int, **fields: Any) -> None:
        if op == START and fields.get("communicator") is not None:
            self._make(rank, **fields)
        if op == ABORT:
            self.outboxes.drop((token, fields["attempt"], rank))
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
        progress = Progress(partial(self.send, PROGRESS, token=token, attempt=start["attempt"]))
        if start["communicator"] is None:
            return WorkerComms(self.outboxes, token, start["attempt"], rank, addresses, progress)
        epoch, _ = start["communicator"]
        order = rank_order(addresses)
        known, made = self._made.get(order, (None, None))
        if made is None or known != epoch:
            raise Aborted
        return Reordered(made, [order.index(address) for address in addresses], progress)
