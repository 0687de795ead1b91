"""The gang on the scheduler: where members run, and what becomes of a gang when Dask's plans for a member change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from dask.typing import Key
from distributed import SchedulerPlugin
from distributed.core import Status
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps
from tlz import groupby

from .coordinator import Gangs, Member, Message
from .member import EXCHANGED, READY, GangSpec
from .tasks import GangTask
from .worker_plugin import NAME, GangWorkerPlugin

#: The client that wants members which must run again, though nobody else needs their results.
CLIENT = "gpusort-gang"

_FORGOTTEN = (
    "a chunk of a sorted array was lost after other chunks of it were released, so it cannot be computed again: sort "
    "again and keep the whole array, or use exchange='device' or exchange='tasks'"
)

_installed: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def install(client: Any) -> None:
    """Register the coordinator on the cluster of a client, once."""
    scheduler = client._scheduler_identity.get("id")  # without a message; the client keeps it
    if _installed.get(client) != scheduler:
        client.register_plugin(GangSchedulerPlugin())
        _installed[client] = scheduler


class GangSchedulerPlugin(SchedulerPlugin):
    """Places the members of gangs, and passes events between Dask's scheduler, the coordinator and the workers.

    Attributes
    ----------
    gangs : Gangs
    specs : dict of key to GangSpec
        The members that the scheduler knows.
    """

    name = NAME
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Register the handlers, and the plugin of the workers."""
        self.scheduler = scheduler
        self.gangs = Gangs(self._watch_attempt)
        self.specs: dict[Key, GangSpec] = {}
        self._keys: dict[str, dict[int, Key]] = {}  # of each gang's members, by rank
        self._unchecked: set[str] = set()
        self._gathering: set[str] = set()  # gangs whose missing members are looked at from time to time
        scheduler.stream_handlers.update({READY: self.handle_ready, EXCHANGED: self.handle_exchanged})
        await scheduler.register_worker_plugin(None, dumps(GangWorkerPlugin()), name=NAME, idempotent=True)

    # Events from Dask.

    def update_graph(self, scheduler: Any, *, tasks: list[Key], **kwargs: Any) -> None:
        """Recognise the members in a new graph, and place them."""
        states = [scheduler.tasks[key] for key in tasks]
        for own in _members_by_token(states).values():
            if len(own) < own[0].run_spec.spec.size:
                self._take_from_other_gang(own)
        for token, own in _members_by_token(states).items():
            for state in own:
                spec = state.run_spec.spec
                self.specs[state.key] = spec
                self._keys.setdefault(token, {})[spec.rank] = state.key
            self.gangs.add(token, spec.size, spec.timeout)
            self._assign_workers(own)
            if own[0].run_spec.instead is None:
                self._keep_where_members_are(own)
            self._check_soon(token)

    def transition(self, key: Key, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """A task changes its state: tell the coordinator if it is a member that will not deliver."""
        spec = self.specs.get(key)
        if spec is None:
            return
        if finish == "forgotten":
            self._forget(key, spec)
            return
        if finish == "erred":
            self._send(self.gangs.failed(spec.token, self._error_of(key)))
        elif start == "processing" and finish != "memory":
            self._send(self.gangs.left(spec.token, spec.rank))
        self._check_soon(spec.token)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """A worker is gone; its tasks have left it already."""
        self._send(self.gangs.lost(worker))

    def restart(self, scheduler: Any) -> None:
        """All tasks are forgotten, and all workers start again."""
        self.gangs = Gangs(self._watch_attempt)
        self.specs.clear()
        self._keys.clear()
        self._gathering.clear()

    def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
        """Keep the workers that run a gang."""
        attempts = (gang.attempt for gang in self.gangs.gangs.values())
        busy = {worker for attempt in attempts if attempt for worker in attempt.workers}
        return [worker for worker in workers if worker.address not in busy]

    # Events from members.

    def handle_ready(
        self,
        worker: str,
        token: str,
        rank: int,
        run_id: int,
        summaries: bytes,
        offer: bytes | None,
        broken: str | None,
    ) -> None:
        """A member is ready."""
        key = self._keys.get(token, {}).get(rank)
        state = self.scheduler.tasks.get(key)
        member = Member(worker, run_id, summaries, offer)
        expected = state is not None and state.state == "processing" and state.run_id == run_id
        if not expected or state.processing_on.address != worker:
            self._send(self.gangs.unexpected(token, rank, member))
            return
        self._send(self.gangs.ready(token, rank, member, broken))
        self._check_soon(token)

    def handle_exchanged(self, worker: str, token: str, rank: int, run_id: int, attempt: int) -> None:
        """A member has all its shards."""
        self._send(self.gangs.exchanged(token, rank, run_id, attempt))

    # What the plugin does.

    def _send(self, messages: Iterable[Message]) -> None:
        for worker, op, fields in messages:
            error = fields.get("error")
            if isinstance(error, Exception):
                fields = {**fields, "error": to_serialize(error)}
            self.scheduler.send_all({}, {worker: [{"op": op, **fields}]})

    def _assign_workers(self, members: list[Any]) -> None:
        """Give each member a worker of its own, that with most bytes of its chunks; any other if that is not there."""
        free: set[Any] = set()
        for state in sorted(members, key=lambda state: state.run_spec.spec.rank):
            if state.host_restrictions or state.resource_restrictions or state.state == "processing":
                continue
            if state.worker_restrictions and not state.loose_restrictions:
                continue  # the user's
            free = free or set(self.scheduler.running)
            held = dict.fromkeys(sorted(free, key=lambda worker: worker.address), 0)
            for chunk in state.dependencies:
                for worker in held.keys() & (chunk.who_has or ()):
                    held[worker] += chunk.nbytes
            if held:
                best = max(held, key=lambda worker: held[worker])
                free.discard(best)
                self.scheduler.set_restrictions({state.key: {best.address}})
                state.loose_restrictions = True

    def _take_from_other_gang(self, members: list[Any]) -> None:
        """Give members that are output chunks the form in which the scheduler knows other chunks of the same array.

        Dask keeps the task that it knows by a key, so a part of the output that was computed before leaves a gap in a
        gang whose members are the output chunks. The gang that made that part makes these chunks too.
        """
        for state in members:
            task = state.run_spec.instead
            if task is None or state.state != "released" or not task.dependencies <= self.scheduler.tasks.keys():
                continue
            for chunk in state.dependencies:
                chunk.dependents.discard(state)
            state.dependencies.clear()
            state.run_spec = task
            for key in task.dependencies:
                state.add_dependency(self.scheduler.tasks[key])

    def _keep_where_members_are(self, members: list[Any]) -> None:
        """Let Dask run the output chunks where their groups are.

        It treats many tasks with few dependencies as root tasks, and spreads them over all workers. Tasks that are
        restricted, if only to all workers, are no root tasks.
        """
        for state in {dependent for member in members for dependent in member.dependents}:
            if not (state.worker_restrictions or state.host_restrictions or state.resource_restrictions):
                self.scheduler.set_restrictions({state.key: list(self.scheduler.workers)})
                state.loose_restrictions = True

    def _check_soon(self, token: str) -> None:
        """Look at the members of a gang after the transitions in progress."""
        if not self._unchecked:
            self.scheduler.loop.add_callback(self._check_all)
        self._unchecked.add(token)

    def _check_all(self) -> None:
        unchecked, self._unchecked = self._unchecked, set()
        for token in unchecked:
            self._check(token)

    def _check(self, token: str) -> None:
        """Run members again that others wait for, and release them when the gang is complete."""
        gang = self.gangs.gangs.get(token)
        if gang is None:
            return
        keys = self._keys[token]
        missing = [self.scheduler.tasks[keys[rank]] for rank in keys if rank not in gang.ready]
        if not gang.ready:
            if gang.attempt is None and all(state.state in ("memory", "released", "erred") for state in missing):
                self._release(token)
            return
        if len(keys) < gang.size:
            self._send(self.gangs.failed(token, RuntimeError(_FORGOTTEN)))
            self._release(token)
            return
        if not missing:
            return
        erred = [state for state in missing if state.state == "erred"]
        if erred:
            self._send(self.gangs.failed(token, self._error_of(erred[0].key)))
            return
        again = {state.key: "waiting" for state in missing if state.state == "released"}
        again |= {state.key: "released" for state in missing if state.state == "memory"}
        if again:
            self.scheduler.client_desires_keys(keys=list(again), client=CLIENT)
            self.scheduler.transitions(again, stimulus_id=f"gang-again-{token}")
        if token not in self._gathering:
            self._gathering.add(token)
            self.scheduler.loop.call_later(gang.timeout, self._move_members, token)

    def _move_members(self, token: str) -> None:
        """Take members away from paused workers, on which they may never begin."""
        self._gathering.discard(token)
        gang = self.gangs.gangs.get(token)
        if gang is None or not gang.ready:
            return
        missing = [self.scheduler.tasks[key] for rank, key in self._keys[token].items() if rank not in gang.ready]
        paused = {
            state.key: "released"
            for state in missing
            if state.state == "processing" and state.processing_on.status != Status.running
        }
        self.scheduler.transitions(paused, stimulus_id=f"gang-moved-{token}")
        self._check_soon(token)

    def _release(self, token: str) -> None:
        """The gang is complete: members are kept only for those who need them."""
        client = self.scheduler.clients.get(CLIENT)
        if client is None:
            return
        keys = [state.key for state in client.wants_what if state.key in self._keys[token].values()]
        self.scheduler.client_releases_keys(keys=keys, client=CLIENT, stimulus_id=f"gang-complete-{token}")
        if not client.wants_what:
            del self.scheduler.clients[CLIENT]

    def _forget(self, key: Key, spec: GangSpec) -> None:
        del self.specs[key]
        self._send(self.gangs.left(spec.token, spec.rank))
        del self._keys[spec.token][spec.rank]
        if not self._keys[spec.token]:
            del self._keys[spec.token]
            self._gathering.discard(spec.token)
            self._send(self.gangs.forget(spec.token))
        else:
            self._check_soon(spec.token)

    def _error_of(self, key: Key) -> Any:
        state = self.scheduler.tasks[key]
        blamed = state.exception_blame or state
        return blamed.exception or RuntimeError(f"task {blamed.key!r} failed")

    def _watch_attempt(self, token: str, attempt: int, seconds: float) -> None:
        self.scheduler.loop.call_later(seconds, self._expire, token, attempt)

    def _expire(self, token: str, attempt: int) -> None:
        self._send(self.gangs.expired(token, attempt))


def _members_by_token(states: list[Any]) -> dict[str, list[Any]]:
    """Those tasks that are members of gangs."""
    members = [state for state in states if isinstance(state.run_spec, GangTask)]
    found: dict[str, list[Any]] = groupby(lambda state: state.run_spec.spec.token, members)
    return found
