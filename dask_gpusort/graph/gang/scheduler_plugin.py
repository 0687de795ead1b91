"""The gang on the scheduler: where members run, and what becomes of a gang when Dask's plans for a member change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dask.typing import Key
from tlz import groupby
from tornado.ioloop import PeriodicCallback

from .._dask import known_tasks
from .._distributed import (
    CheckedSchedulerPlugin,
    Status,
    logs_errors,
    monotonic,
    register_once,
    to_serialize,
)
from ..placement import changes_status, gpu_workers, make_transitions
from .assignment import Assignment
from .coordinator import Attempt, Gang, Gangs, Member, Message
from .member import BROKEN, EXCHANGED, NAME, READY, GangSpec, GangWorkerPlugin
from .tasks import GangTask

#: The client that wants members which must run again, though nobody else needs their results.
CLIENT = "gpusort-gang"

#: Time-outs after which a member is given up that does not end though it was told to, or that no worker runs.
PATIENCE = 10
#: What any network moves. An exchange has a time-out more than all chunks of its gang take at this rate.
BYTES_PER_SECOND = 50e6

_FORGOTTEN = (
    "a chunk of a sorted array was lost, or is still to be made, after other chunks of it were released, so it cannot "
    "be computed: sort again and keep the whole array, or use exchange='device' or exchange='tasks'"
)


def install(client: Any) -> str | None:
    """Register the coordinator on the cluster of a client, once; gives the reason why it cannot run there."""
    return register_once(client, GangSchedulerPlugin)


class GangSchedulerPlugin(CheckedSchedulerPlugin):
    """Assign workers to members, and pass events between the scheduler of Dask, the coordinator and the workers."""

    name = NAME
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Register the handlers, and the plugin of the workers."""
        await super().start(scheduler)
        self._begin(scheduler)
        self._unchecked: set[str] = set()
        self._looked_at: set[str] = set()  # gangs whose missing members are looked at later
        self._everywhere: dict[bool, set[str]] = {False: set(), True: set()}  # see `_keep_where_members_are`
        handlers = {READY: self.handle_ready, EXCHANGED: self.handle_exchanged, BROKEN: self.handle_broken}
        scheduler.stream_handlers.update(handlers)
        await self.start_on_workers(GangWorkerPlugin)
        if scheduler.no_workers_timeout:
            renewal = PeriodicCallback(lambda: self.assignment.renew(), 250 * scheduler.no_workers_timeout)
            scheduler.periodic_callbacks[NAME] = renewal  # the scheduler stops it in the end
            renewal.start()

    def _begin(self, scheduler: Any) -> None:
        """Begin without gangs."""
        self.gangs = Gangs(self._watch_attempt, self._watch_stopped)
        self.assignment = Assignment(scheduler, self._members)
        self.specs: dict[Key, GangSpec] = {}  # the members that the scheduler knows
        self._keys: dict[str, dict[int, Key]] = {}  # of each gang's members, by rank

    # Events from Dask.

    def update_graph(self, scheduler: Any, *, tasks: list[Key], **kwargs: Any) -> None:
        """Recognise the members in a new graph, and place them."""
        states = known_tasks(scheduler, tasks)
        for own in _members_by_token(states).values():
            if len(own) < own[0].run_spec.mark.size:
                self._take_from_other_gang(own)
        for token, own in _members_by_token(states).items():
            for state in own:
                spec = state.run_spec.mark
                self.specs[state.key] = spec
                self._keys.setdefault(token, {})[spec.rank] = state.key
            self.gangs.add(token, spec.size, spec.timeout)
            self.assignment.add(token, own)
            if own[0].run_spec.mark.instead is None:
                self._keep_where_members_are(own)
            self._check_soon(token)
        self.assignment.begin()

    @logs_errors
    def transition(self, key: Key, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """A task changes its state: tell the coordinator if it is a member that will not deliver."""
        spec = self.specs.get(key)
        if spec is None:
            return
        if finish == "forgotten":
            self._forget(key, spec)
            return
        if finish == "erred":
            self.assignment.end(spec.token)
            self._send(self.gangs.failed(spec.token, self._error_of(key)))
        elif start == "processing" and finish != "memory":
            self._send(self.gangs.left(spec.token, spec.rank))
        self._check_soon(spec.token)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """A worker is gone; its tasks have left it already."""
        self._send(self.gangs.lost(worker))

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """A worker has come: members without one may run there, and output chunks."""
        self.assignment.resume()
        self._note_workers()  # before Dask looks for tasks that wait for such a worker

    def log_event(self, topic: Any, msg: Any) -> None:
        """A worker may have been paused, or go on, or retire."""
        if changes_status(msg):
            self.scheduler.loop.add_callback(self._look_at_worker, topic)  # when the scheduler has noted it too

    def _look_at_worker(self, worker: str) -> None:
        """Members in the queue of a paused worker go elsewhere later, and those without a worker perhaps here."""
        if worker in {one.address for one in self.scheduler.running}:
            self.assignment.resume()
            return
        for token in self.assignment.tokens_on(worker):
            self._look_later(token)

    def restart(self, scheduler: Any) -> None:
        """All tasks are forgotten, and all workers start again."""
        self._begin(scheduler)
        scheduler.clients.pop(CLIENT, None)

    def valid_workers_downscaling(self, scheduler: Any, workers: list[Any]) -> list[Any]:
        """Keep the workers that run a gang."""
        attempts = (gang.attempt for gang in self.gangs.gangs.values())
        busy = {worker for attempt in attempts if attempt for worker in attempt.workers}
        return [worker for worker in workers if worker.address not in busy]

    # Events from members.

    @logs_errors
    def handle_ready(self, worker: str, token: str, rank: int, run_id: int, **fields: Any) -> None:
        """A member is ready."""
        key = self._keys.get(token, {}).get(rank)
        state = self.scheduler.tasks.get(key)
        member = Member(worker, run_id, **fields)
        expected = state is not None and state.state == "processing" and state.run_id == run_id
        if not expected or state.processing_on.address != worker:
            self._send(self.gangs.unexpected(token, rank, member))
            return
        self._send(self.gangs.ready(token, rank, member))
        self._check_soon(token)

    @logs_errors
    def handle_exchanged(self, worker: str, token: str, rank: int, run_id: int, attempt: int) -> None:
        """A member has all its shards."""
        self._send(self.gangs.exchanged(token, rank, run_id, attempt))
        if token in self.gangs.gangs and self.gangs.gangs[token].attempt is None:
            self.assignment.end(token)
            self._check_soon(token)

    @logs_errors
    def handle_broken(self, worker: str, token: str, attempt: int, why: str, **fields: Any) -> None:
        """A member's exchange has failed."""
        self._send(self.gangs.broken(token, attempt, why))

    # What the plugin does.

    def _send(self, messages: Iterable[Message]) -> None:
        for worker, op, fields in messages:
            error = fields.get("error")
            if isinstance(error, Exception):
                fields = {**fields, "error": to_serialize(error)}
            self.scheduler.send_all({}, {worker: [{"op": op, **fields}]})

    def _take_from_other_gang(self, members: list[Any]) -> None:
        """Give members that are output chunks the form in which the scheduler knows other chunks of the same array."""
        # Dask keeps the task that it knows by a key, so a part of the output that was computed before leaves a gap in a
        # gang whose members are the output chunks. The gang that made that part makes these chunks too.
        for state in members:
            task = state.run_spec.mark.instead
            if task is None or state.state != "released" or not task.dependencies <= self.scheduler.tasks.keys():
                continue
            if state.key in self.specs:
                self.assignment.release(state)
                self._forget(state.key, self.specs[state.key])
            for chunk in state.dependencies:
                chunk.dependents.discard(state)
            state.dependencies.clear()
            state.run_spec = task
            for key in task.dependencies:
                state.add_dependency(self.scheduler.tasks[key])

    def _keep_where_members_are(self, members: list[Any]) -> None:
        """Let Dask run the output chunks where their groups are."""
        # It treats many tasks with few dependencies as root tasks, and spreads them over all workers. Tasks that are
        # restricted, if only to all workers, are no root tasks.
        self._note_workers()
        for state in {dependent for member in members for dependent in member.dependents}:
            if not (state.worker_restrictions or state.host_restrictions or state.resource_restrictions):
                # One set for all, to which new workers are added. `set_restrictions` would make one for each chunk.
                state.worker_restrictions = self._everywhere[members[0].run_spec.mark.on_devices]
                state.loose_restrictions = True

    def _note_workers(self) -> None:
        """Note all workers, and those with a GPU, if there are any, for output chunks on GPUs."""
        everywhere = self.scheduler.workers.values()
        for on_devices, addresses in self._everywhere.items():
            found = (gpu_workers(everywhere) if on_devices else None) or everywhere
            addresses.clear()
            addresses.update(worker.address for worker in found)

    def _check_soon(self, token: str) -> None:
        """Look at the members of a gang after the transitions in progress."""
        if not self._unchecked:
            self.scheduler.loop.add_callback(self._check_all)
        self._unchecked.add(token)

    def _check_all(self) -> None:
        unchecked, self._unchecked = self._unchecked, set()
        for token in unchecked:
            self._check(token)
        self.assignment.begin()

    @logs_errors
    def _check(self, token: str) -> None:
        """Run members again that others wait for, and release them when the gang is complete."""
        gang = self.gangs.gangs.get(token)
        if gang is None:
            return
        self.assignment.reassign(token)
        keys = self._keys[token]
        missing = [self.scheduler.tasks[keys[rank]] for rank in keys if rank not in gang.ready]
        if not gang.ready:
            if gang.attempt is None and all(state.state in ("memory", "released", "erred") for state in missing):
                self.assignment.end(token)
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
            make_transitions(self.scheduler, again, f"gang-again-{token}")
        self._look_later(token)

    def _look_later(self, token: str) -> None:
        if token not in self._looked_at:
            self._looked_at.add(token)
            self.scheduler.loop.call_later(self.gangs.gangs[token].timeout, self._look_at_missing, token)

    @logs_errors
    def _look_at_missing(self, token: str) -> None:
        """Take members away from paused workers, on which they may never begin, and give up those that are stuck."""
        self._looked_at.discard(token)
        gang = self.gangs.gangs.get(token)
        if gang is None or gang.attempt is not None:
            return
        missing = [self.scheduler.tasks[key] for rank, key in self._keys[token].items() if rank not in gang.ready]
        queued = [state for state in missing if _waits_for_paused(state)]
        moved = self.assignment.move(queued)
        make_transitions(self.scheduler, {state.key: "released" for state in moved}, f"gang-moved-{token}")
        if gang.ready:
            self._give_up_waiting([state for state in missing if state not in moved], gang)
            self._check_soon(token)
        elif len(moved) < len(queued):
            self._look_later(token)

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
        self.assignment.forget_member(key)
        self._send(self.gangs.left(spec.token, spec.rank))
        del self._keys[spec.token][spec.rank]
        if not self._keys[spec.token]:
            del self._keys[spec.token]
            self.assignment.forget(spec.token)
            self._send(self.gangs.forget(spec.token))
        self._check_soon(spec.token)

    def _error_of(self, key: Key) -> Any:
        state = self.scheduler.tasks[key]
        blamed = state.exception_blame or state
        return blamed.exception or RuntimeError(f"task {blamed.key!r} failed")

    def _members(self, token: str) -> list[Any]:
        return [self.scheduler.tasks[key] for key in self._keys.get(token, {}).values()]

    # Deadlines. How long a member takes is Dask's matter, as of any task.

    def _give_up_waiting(self, missing: list[Any], gang: Gang) -> None:
        """Give up members that no worker runs: the memory of those that wait for them may be the reason."""
        nowhere = [one for one in missing if one.state == "no-worker" or _waits_for_paused(one)]
        nowhere = nowhere if self.scheduler.running else missing
        now = monotonic()
        since = gang.stuck_since = (gang.stuck_since or now) if nowhere else None
        if since is not None and now >= since + PATIENCE * gang.timeout:
            self._give_up(nowhere[0], f"waits for a worker that runs it for {now - since:.0f} s already")

    def _watch_attempt(self, token: str, attempt: int) -> None:
        chunks = (chunk for state in self._members(token) for chunk in state.dependencies)
        seconds = self.gangs.gangs[token].timeout + sum(chunk.nbytes for chunk in chunks) / BYTES_PER_SECOND
        self.scheduler.loop.call_later(seconds, self._expire, token, attempt, seconds)

    def _expire(self, token: str, attempt: int, seconds: float) -> None:
        self._send(self.gangs.broken(token, attempt, f"it took longer than {seconds:.0f} s"))

    def _watch_stopped(self, token: str, attempt: Attempt) -> None:
        limit = PATIENCE * self.gangs.gangs[token].timeout
        self.scheduler.loop.call_later(limit, self._check_stopped, token, attempt, limit)

    @logs_errors
    def _check_stopped(self, token: str, attempt: Attempt, seconds: float) -> None:
        """Give up a member that was told to end, and still runs."""
        for rank, member in attempt.members.items():
            state = self.scheduler.tasks.get(self._keys.get(token, {}).get(rank))
            runs = state is not None and state.state == "processing" and state.run_id == member.run_id
            if runs and rank not in attempt.exchanged:
                self._give_up(state, f"did not stop its exchange in {seconds:.0f} s")
                return  # the gang has failed

    def _give_up(self, state: Any, what: str) -> None:
        """Let a member fail, and with it the gang."""
        spec, on = state.run_spec.mark, state.processing_on
        error = RuntimeError(
            f"member {spec.rank} of the gang, on {f'worker {on.address}' if on else 'no worker'}, {what}: look at the "
            "workers, set gpusort.gang_timeout if they only are slow, or use exchange='tasks'"
        )
        if on is None:
            self._send(self.gangs.failed(spec.token, error))
        else:
            self.fail(state, on.address, error, "gang-given-up")


def _waits_for_paused(state: Any) -> bool:
    """Whether a member waits for a thread of a worker that begins nothing now."""
    worker = state.processing_on
    begun = worker is None or state in worker.executing or state in worker.long_running
    return not begun and worker.status != Status.running


def _members_by_token(states: list[Any]) -> dict[str, list[Any]]:
    """Those tasks that are members of gangs."""
    members = [state for state in states if isinstance(state.run_spec, GangTask)]
    found: dict[str, list[Any]] = groupby(lambda state: state.run_spec.mark.token, members)
    return found
