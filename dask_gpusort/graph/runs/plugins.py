"""How long runs are kept, and which are made again: a plugin of the scheduler and one of each worker.

Dask frees the result of a task when all tasks that need it have run. Who takes slices needs the runs, but depends on
the task that lists them alone, so that the graph does not grow with runs times groups. So the plugin of the scheduler
wants the runs, as a client does, until the list is released. When a worker is lost, or cannot read a run again, it
releases these runs, whose handles others may have, and the lists that name them: Dask makes them again, and the tasks
that still have to take slices wait for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dask.typing import Key

from .._dask import Alias, MarkedTask, known_tasks
from .._distributed import (
    CheckedSchedulerPlugin,
    CheckedWorkerPlugin,
    logs_errors,
    register_once,
    wall_time,
)
from ..placement import make_transitions
from .files import RunIsDamaged, RunIsGone
from .keep_and_take import AGAIN, HEARD, LISTED, NAME, UNREACHED, unreached, watch_waiting
from .store import Store, capacity_of, gate_of

DROP = "sort-run-drop"
KEPT = "sort_run_kept"
#: States of tasks that need the runs that they list.
_NEEDED = ("waiting", "queued", "no-worker", "processing", "memory")
#: How often a run is made again whose worker does not have it any more, or reads other bytes than it wrote.
MOST_AGAIN = {RunIsGone.status: 3, RunIsDamaged.status: 1}


class ExchangeTask(MarkedTask):
    """A task of this exchange that others wait for."""

    __slots__ = ()


class RunTask(ExchangeTask):
    """A task that keeps runs."""

    __slots__ = ()


class ListTask(ExchangeTask):
    """A task that lists the runs of others, for the tasks that take slices of them."""

    __slots__ = ()


def _is_alias(state: Any) -> bool:
    """Whether a task gives the result of another one, such as one that Dask has fused with others."""
    return isinstance(state.run_spec, Alias)


def install(client: Any) -> str | None:
    """Register the plugins on the cluster of a client, once; gives the reason why they cannot run there."""
    return register_once(client, RunSchedulerPlugin)


class RunSchedulerPlugin(CheckedSchedulerPlugin):
    """Keep runs while groups need them, and let lost ones be made again."""

    name = NAME
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        """Register the plugin of the workers, and look at the tasks that are known already."""
        await super().start(scheduler)
        self.restart(scheduler)
        self.update_graph(scheduler, tasks=list(scheduler.tasks))
        scheduler.handlers[LISTED] = self.compare_list
        scheduler.handlers[KEPT] = self.is_kept
        scheduler.handlers[HEARD] = self.is_heard
        scheduler.handlers[AGAIN] = self.make_again
        scheduler.handlers[UNREACHED] = self.give_up
        await self.start_on_workers(RunWorkerPlugin)

    def restart(self, scheduler: Any) -> None:
        """All tasks are forgotten."""
        self._runs_of: dict[Key, set[Key]] = {}  # by each list, and each alias of a task that keeps runs: such tasks
        self._checksums: dict[Key, int] = {}  # of the first list of each task
        self._keepers: dict[Key, str] = {}  # the worker of each task that keeps runs
        self._unread: dict[Key, list[str]] = {}  # by each such task, the runs that their workers could not read
        self._asked: dict[Key, set[tuple[Key, str]]] = {}  # and the tasks that asked in vain, each with a run
        scheduler.clients.pop(NAME, None)

    def update_graph(self, scheduler: Any, *, tasks: list[Key], **kwargs: Any) -> None:
        """Recognise the tasks that list runs."""
        for state in known_tasks(scheduler, tasks):
            if isinstance(state.run_spec, (ListTask, Alias)):
                under = (one for alias in state.dependencies if _is_alias(alias) for one in alias.dependencies)
                runs = {one.key for one in (*state.dependencies, *under) if isinstance(one.run_spec, RunTask)}
                if not runs and _is_alias(state):
                    continue
                self._runs_of[state.key] = runs
                if state.state != "released":  # else it is wanted from its transition on, if it is needed at all
                    self._want(state.key)

    @logs_errors
    def transition(self, key: Key, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Note where runs are kept; want them as long as a list of them is needed; drop those that are released."""
        if key in self._runs_of:
            state = self.scheduler.tasks[key]
            if finish == "waiting":
                self._want(key)
            elif finish in ("erred", "forgotten") or (finish == "released" and not state.waiters):
                self.scheduler.loop.add_callback(self._release, key, self._runs_of[key])
            if finish == "forgotten":
                del self._runs_of[key]
        elif finish == "memory" and isinstance(self.scheduler.tasks[key].run_spec, RunTask):
            self._keepers[key] = kwargs["worker"]
        elif key in self._keepers and finish in ("released", "forgotten"):
            worker = self._keepers[key]
            if worker in self.scheduler.workers:
                self.scheduler.send_all({}, {worker: [{"op": DROP, "key": key}]})
            elif finish == "released":
                return  # Dask releases what only a lost worker had before it calls `remove_worker`
            del self._keepers[key]
        if finish == "forgotten":
            for known in (self._checksums, self._unread, self._asked):
                known.pop(key, None)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
        """Let the runs that were kept there be made again, and the lists, which have their handles."""
        lost = {key for key, keeper in self._keepers.items() if keeper == worker}
        self._make_again(lost, self._lists_of(lost))
        for key in lost:
            self._keepers.pop(key, None)

    def make_again(self, key: Key, name: str, worker: str, status: str, by: Key) -> bool:
        """Handler: let a run be made again that its worker cannot read; False if that was done often enough."""
        state = self.scheduler.tasks.get(key)
        if state is None:
            return True  # nobody wants it
        # A task that is cancelled while it works may have an old handle; one that is tried again should not.
        asked = self._asked.setdefault(key, set())
        twice = (by, name) in asked
        asked.add((by, name))
        if state.state not in ("memory", "released"):
            return True  # it is being made again
        old = status == "old" or self._keepers.get(key, worker) != worker  # it is made again already
        if old and twice:  # an old handle has come to the task that asks after the new one was made: all copies go
            self._make_again({key}, self._lists_of({key}))
        if old or status == "closes":
            return True
        unread = self._unread.setdefault(key, [])
        if name not in unread:
            unread.append(name)
        again = unread.index(name) < MOST_AGAIN[status]
        if again:
            # The cuts may be wrong too that were found in a damaged run.
            made = [key]
            for one in made:
                behind = self.scheduler.tasks[one].dependents
                made += {state.key for state in behind if not isinstance(state.run_spec, ListTask)}.difference(made)
            self._make_again(set(made), self._lists_of(made))
        return again

    def _lists_of(self, made: Iterable[Key]) -> set[Key]:
        """The tasks that list runs of some of these."""
        return {key for key, runs in self._runs_of.items() if not runs.isdisjoint(made)}

    def _make_again(self, runs: set[Key], lists: set[Key]) -> None:
        tasks = self.scheduler.tasks
        again: dict[Key, str] = {key: "released" for key in (*runs, *lists) if tasks[key].state == "memory"}
        make_transitions(self.scheduler, again, f"{NAME}-lost")

    def compare_list(self, key: Key, checksum: int) -> bool:
        """Handler: whether a task lists the runs that it listed first."""
        return self._checksums.setdefault(key, checksum) == checksum

    def is_kept(self, key: Key, worker: str) -> bool:
        """Handler: whether a worker should have the runs of a task."""
        return self._keepers.get(key) == worker

    def is_heard(self, worker: str, seconds: float) -> bool:
        """Handler: whether the scheduler has heard of a worker lately."""
        state = self.scheduler.workers.get(worker)
        return state is not None and wall_time() - state.last_seen < seconds

    def give_up(self, key: Key, keys: list[Key], worker: str, seconds: float) -> None:
        """Handler: let a task of this exchange fail whose worker gets no inputs, unless all who have them are lost."""
        tasks, state = self.scheduler.tasks, self.scheduler.tasks.get(key)
        peers = {peer.address for one in keys if one in tasks for peer in tasks[one].who_has or ()}
        heard = sorted(peer for peer in peers if self.is_heard(peer, seconds / 2))
        if not heard or state is None or state.processing_on is None:
            return
        if any(isinstance(one.run_spec, ExchangeTask) for one in (state, *state.dependencies)):
            error = unreached(worker, heard[0], seconds, "Dask gets no results of it")
            self.fail(state, worker, error, f"{NAME}-unreached")

    def _want(self, key: Key) -> None:
        self.scheduler.client_desires_keys(keys=self._runs_of[key], client=NAME)

    def _release(self, key: Key, runs: set[Key]) -> None:
        """Let the runs go, after the transitions in progress, unless the list is needed again."""
        state, client = self.scheduler.tasks.get(key), self.scheduler.clients.get(NAME)
        if client is not None and (state is None or state.state in ("erred", "released")):
            keys = [run for run in runs if not self._is_listed(run, key)]
            self.scheduler.client_releases_keys(keys=keys, client=NAME, stimulus_id=f"{NAME}-done")
            if not client.wants_what:
                del self.scheduler.clients[NAME]

    def _is_listed(self, run: Key, by: Key) -> bool:
        """Whether a run with another name is still needed, under that name or by another list."""
        state = self.scheduler.tasks.get(run)
        aliases = [one for one in state.dependents if _is_alias(one)] if state else []
        needing = {*aliases, *(one for alias in aliases for one in alias.dependents)}
        return any(one.key in self._runs_of and one.key != by and one.state in _NEEDED for one in needing)


class RunWorkerPlugin(CheckedWorkerPlugin):
    """Have the runs of a worker."""

    name = NAME

    def setup(self, worker: Any) -> None:
        """Register the handlers of the worker."""
        super().setup(worker)
        self._waiting: set[Key] = set()
        folder = Path(worker.local_directory) / NAME
        self.store = Store(worker.address, folder, partial(capacity_of, worker), gate_of(worker))
        with suppress(OSError, ValueError):  # which the first file tells; else files of killed workers go
            self.store.folders()
        worker.handlers["sort_run_take"] = self.store.serve
        worker.stream_handlers[DROP] = self.store.drop

    def transition(self, key: Key, start: str, finish: str, **kwargs: Any) -> None:
        """Forget the runs of a cancelled task, but not those of which Dask drops a replica of the result."""
        # `finish` is what the transition was asked for: a cancelled task that ends is asked to be in memory.
        if finish == "waiting":
            self._waiting.add(key)
            if len(self._waiting) == 1:
                self.worker.loop.add_callback(watch_waiting, self.worker, self._waiting)
        names = self.store.names(key)
        if names and (start, finish) == ("memory", "released"):
            self.worker.loop.add_callback(self._drop_unless_kept, key, names)
        elif names and (start, finish) == ("cancelled", "memory"):
            self.store.drop(key)

    async def _drop_unless_kept(self, key: Key, names: list[str]) -> None:
        with suppress(OSError):  # the cluster closes
            kept = await getattr(self.worker.scheduler, KEPT)(key=key, worker=self.worker.address)
            if not kept and self.store.names(key) == names:
                self.store.drop(key)

    def teardown(self, worker: Any) -> None:
        """Leave no files: the worker closes."""
        self.store.close()
