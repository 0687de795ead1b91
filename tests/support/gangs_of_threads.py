"""Gangs without a cluster: their members are threads, and meet at a barrier in place of the coordinator.

What members compute and send is theirs; who starts them, and what becomes of them after a fault, needs a real cluster.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import dask
from distributed import protocol

from dask_gpusort.graph import exchanges, runtime
from dask_gpusort.graph.gang import member, tasks

from . import gangs as on_clusters
from . import strategies as ours

#: Seconds until a member that waits for others gives up.
LONG = 60.0


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


class Gangs:
    """The gangs of some workers, and where these hold chunks.

    Parameters
    ----------
    workers : int
        How many there are.
    holders : sequence of int
        Workers that hold the chunks of each array, in turn; if empty, none does.
    broken : int
        Exchanges after which the first attempt of each gang breaks off; negative if it does not.
    """

    asynchronous = False  # as a client

    def __init__(self, workers: int, holders: Sequence[int] = (), broken: int = -1):
        self.addresses = [f"tcp://10.0.0.{worker}:1" for worker in range(workers)]
        self.holders, self.broken = holders, broken
        self._placed: dict[str, Sequence[int]] = {}  # holders of arrays by their names
        self.check = partial(on_clusters.check, place=self.placed)
        self.scheduler = self.scheduler_comm = self
        self.exchanges = 0  # of all gangs
        self._lock = threading.Lock()
        self._meetings: dict[str, Meeting] = {}

    def sync(self, function: Any, **options: Any) -> Any:
        return function(**options)

    def identity(self, **_: Any) -> dict[str, Any]:
        return {"workers": {address: {"nthreads": 1, "memory_limit": 0} for address in self.addresses}}

    def who_has(self, keys: Sequence[Any]) -> dict[Any, list[str]]:
        found = {key: self._placed.get(key[0], self.holders) for key in keys}
        return {key: [self.addresses[held[sum(key[1:]) % len(held)]]] for key, held in found.items() if held}

    def placed(self, array: Any, chunks: Any, workers: Sequence[int], unknown: bool = False) -> Any:
        """An array of which workers hold the chunks, or of which none does."""
        x = ours.dask_array(array, chunks, unknown=unknown)
        self._placed[x.name] = workers
        return x

    def run_member(self, arrays: list[Any], job: Any, spec: member.GangSpec) -> tuple[tuple[Any, ...], Any]:
        """In place of the task of a member."""
        with self._lock:
            meeting = self._meetings.setdefault(spec.token, Meeting(spec.size))
        try:
            work = job(arrays, spec.rank)
            packed = meeting.all_of(spec.rank, pickle.dumps((work.digest(), work.summaries)))
            start = member.Start([pickle.loads(one)[1] for one in packed], changed=[])
            for ends in (self.broken, -1) if self.broken >= 0 else (-1,):
                self._attempt(meeting, spec.rank, work.exchanges(start), ends)
            work.finish()
        except threading.BrokenBarrierError:
            raise (meeting.error or AssertionError("a member waited in vain for others")) from None
        except BaseException as error:
            meeting.error = meeting.error or error
            meeting.barrier.abort()
            raise
        return work.arrays, work.joined

    def _attempt(self, meeting: Meeting, rank: int, exchanges: Any, ends: int) -> None:
        received = None
        while ends:
            try:
                shards = exchanges.send(received)
            except StopIteration:
                return
            sent = meeting.all_of(rank, shards.sent)
            received = [shards[rank] if other == rank else as_sent(shards[rank]) for other, shards in enumerate(sent)]
            assert [len(run) for run in received] == list(shards.lengths)
            self.exchanges += 1
            ends -= 1


def as_sent(run: Any) -> Any:
    """A run, as it arrives in another process."""
    return protocol.loads(protocol.dumps(protocol.to_serialize(run)))


@contextmanager
def gangs_of_threads(workers: int, **options: Any) -> Iterator[Gangs]:
    """Let exchanges be gangs of such workers; those that are asked for by another name are made on threads."""
    made, in_use = Gangs(workers, **options), runtime.scheduler_in_use

    def scheduler_in_use(array: Any) -> Any:
        return ("distributed", made) if dask.config.get("gpusort.exchange") == "gang" else in_use(array)

    with (
        mock.patch.object(runtime, "scheduler_in_use", scheduler_in_use),
        mock.patch.object(exchanges, "install", return_value=None),
        mock.patch.object(tasks, "run_member", made.run_member),
        # Each member needs a thread, and so do the tasks of other gangs that wait meanwhile.
        dask.config.set({"gpusort.exchange": "gang", "scheduler": "threads", "num_workers": 64}),
    ):
        yield made
