"""Gangs and kept runs without a cluster: tasks run on threads, with what they compute, send and keep their own.

The members of a gang meet at a barrier in place of the coordinator. Who starts them, what plugins do, and what becomes
of all after a fault needs a real cluster.
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import dask
from distributed import protocol

from dask_gpusort.drivers import on_workers
from dask_gpusort.graph import exchanges, runtime
from dask_gpusort.graph.gang import member, tasks
from dask_gpusort.graph.runs import keep_and_take
from dask_gpusort.graph.runs.store import Store

from . import gangs as on_clusters
from . import strategies as ours

#: Seconds until a member that waits for others gives up.
LONG = 60.0


class Client:
    """What plans ask of a client: which workers there are, and which of them hold chunks.

    Parameters
    ----------
    workers : int
        How many there are.
    memory : int
        Bytes of each; 0 if unknown.
    holders : sequence of int
        Workers that hold the chunks of each array, in turn; if empty, none does.
    """

    asynchronous = False

    def __init__(self, workers: int, memory: int = 0, holders: Sequence[int] = ()):
        self.addresses = [f"tcp://10.0.0.{worker}:1" for worker in range(workers)]
        self.memory, self.holders = memory, holders
        self.scheduler = self.scheduler_comm = self
        self._placed: dict[str, Sequence[int]] = {}  # holders of arrays by their names

    def sync(self, function: Any, **options: Any) -> Any:
        return function(**options)

    def identity(self, **_: Any) -> dict[str, Any]:
        return {"workers": {address: {"nthreads": 1, "memory_limit": self.memory} for address in self.addresses}}

    def who_has(self, keys: Sequence[Any]) -> dict[Any, list[str]]:
        found = {key: self._placed.get(key[0], self.holders) for key in keys}
        return {key: [self.addresses[held[sum(key[1:]) % len(held)]]] for key, held in found.items() if held}

    def placed(self, array: Any, chunks: Any, workers: Sequence[int], unknown: bool = False) -> Any:
        """An array of which workers hold the chunks, or of which none does."""
        x = ours.dask_array(array, chunks, unknown=unknown)
        self._placed[x.name] = workers
        return x


@contextmanager
def plans_for(client: Client, exchange: str) -> Iterator[None]:
    """Plan for a client where an exchange is asked for, and compute on threads."""
    in_use = runtime.scheduler_in_use

    def scheduler_in_use(array: Any) -> Any:
        return ("distributed", client) if dask.config.get("gpusort.exchange") == exchange else in_use(array)

    with (
        mock.patch.object(runtime, "scheduler_in_use", scheduler_in_use),
        mock.patch.object(exchanges, "install", return_value=None),
        dask.config.set({"gpusort.exchange": exchange, "scheduler": "threads"}),
    ):
        yield


@contextmanager
def runs_of_threads(
    workers: int = 2, memory: int = 0, capacity: float = 0, portion: int = on_workers.PORTION_REQUESTS
) -> Iterator[None]:
    """Let exchanges be kept runs, of which memory holds some bytes; of positions, so many are read at once."""
    loop, numbers = asyncio.new_event_loop(), count()

    async def listed(**_: Any) -> bool:
        return True

    scheduler = SimpleNamespace(**{keep_and_take.LISTED: listed})
    at = SimpleNamespace(asyncio_loop=loop)
    worker = SimpleNamespace(get_current_task=lambda: next(numbers), scheduler=scheduler, loop=at)
    with ExitStack() as stack:
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        for end in (loop.close, thread.join, partial(loop.call_soon_threadsafe, loop.stop)):  # the last one first
            stack.callback(end)
        store = Store("tcp://10.0.0.0:1", Path(stack.enter_context(tempfile.TemporaryDirectory())), lambda: capacity)
        stack.callback(store.close)
        stack.enter_context(plans_for(Client(workers, memory), "runs"))
        stack.enter_context(mock.patch.object(on_workers, "PORTION_REQUESTS", portion))
        stack.enter_context(mock.patch.object(keep_and_take, "own_store", return_value=store))
        stack.enter_context(mock.patch.object(keep_and_take, "get_worker", return_value=worker))
        yield


class Meeting:
    """Where the members of one gang meet: what each gives is there for all once all have come."""

    def __init__(self, size: int):
        self.barrier = threading.Barrier(size, timeout=LONG)
        self.given: list[Any] = [None] * size
        self.error: BaseException | None = None

    def all_of(self, rank: int, one: Any) -> list[Any]:
        """What all members give."""
        self.given[rank] = one
        self.barrier.wait()
        found = list(self.given)
        self.barrier.wait()
        return found


class Gangs(Client):
    """The gangs of some workers; `broken` are exchanges after which they break off and begin anew, if not negative."""

    def __init__(self, workers: int, holders: Sequence[int] = (), broken: int = -1):
        super().__init__(workers, holders=holders)
        self.broken = broken
        self.check = partial(on_clusters.check, made=self.placed)
        self.exchanges = 0  # of all gangs
        self._lock = threading.Lock()
        self._meetings: dict[str, Meeting] = {}

    def run_member(self, arrays: list[Any], job: Any, spec: member.GangSpec) -> tuple[list[Any], ...]:
        """In place of the task of a member."""
        with self._lock:
            meeting = self._meetings.setdefault(spec.token, Meeting(spec.size))
        try:
            for ends in (self.broken, -1) if self.broken >= 0 else (-1,):
                work = job(arrays, spec.rank)
                packed = meeting.all_of(spec.rank, pickle.dumps((work.checksum(), work.summaries)))
                exchanges = work.exchanges([pickle.loads(one)[1] for one in packed])
                finish = self._attempt(meeting, spec.rank, exchanges, ends)
            made: tuple[list[Any], ...] = finish()
        except threading.BrokenBarrierError:
            raise (meeting.error or AssertionError("a member waited in vain for others")) from None
        except BaseException as error:
            meeting.error = meeting.error or error
            meeting.barrier.abort()
            raise
        return made

    def _attempt(self, meeting: Meeting, rank: int, exchanges: Any, ends: int) -> Any:
        received = None
        while ends:
            try:
                shards = exchanges.send(received)
            except StopIteration as end:
                return end.value
            sent = meeting.all_of(rank, shards.sent)
            received = [shards[rank] if other == rank else as_sent(shards[rank]) for other, shards in enumerate(sent)]
            assert [len(run) for run in received] == list(shards.lengths)
            self.exchanges += 1
            ends -= 1
        return None


def as_sent(run: Any) -> Any:
    """A run, as it arrives in another process."""
    return protocol.loads(protocol.dumps(protocol.to_serialize(run)))


@contextmanager
def gangs_of_threads(workers: int, **options: Any) -> Iterator[Gangs]:
    """Let exchanges be gangs of such workers."""
    made = Gangs(workers, **options)
    with (
        plans_for(made, "gang"),
        mock.patch.object(tasks, "run_member", made.run_member),
        # Each member needs a thread, and so do the tasks of other gangs that wait meanwhile.
        dask.config.set(num_workers=256),
    ):
        yield made
