"""What the gang and the plugins take of distributed that distributed does not promise to keep, in one place.

Import this module only where distributed is in use.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from distributed import SchedulerPlugin, WorkerPlugin, get_worker
from distributed.client import Client
from distributed.core import Status, clean_exception
from distributed.diskutils import WorkSpace
from distributed.metrics import context_meter, monotonic
from distributed.metrics import time as wall_time
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps
from distributed.scheduler import ClientState, Scheduler, TaskState, WorkerState
from distributed.system import MEMORY_LIMIT
from distributed.utils import offload
from distributed.worker import Worker, thread_state
from distributed.worker_state_machine import TaskState as WorkerTask
from distributed.worker_state_machine import WorkerState as WorkerMachine

from ._dask import hides_otherwise

__all__ = [
    "MEMORY_LIMIT",
    "REMEDY",
    "CheckedSchedulerPlugin",
    "CheckedWorkerPlugin",
    "Status",
    "WorkSpace",
    "clean_exception",
    "context_meter",
    "dumps",
    "logs_errors",
    "monotonic",
    "offload",
    "plugin_of_worker",
    "register_on_workers",
    "register_once",
    "thread_state",
    "to_serialize",
    "wall_time",
]

#: Seconds for which a task waits until its worker is told to install a plugin.
INSTALL_SECONDS = 10.0
#: How often a worker that does not answer is told to install a plugin, and the seconds in between, in which the
#: scheduler may notice that it is lost.
ATTEMPTS, ATTEMPT_SECONDS = 5, 0.2
#: What to do where workers do not reach each other.
REMEDY = (
    "let workers reach each other at their addresses (firewalls, ports, and the option interface of workers), or leave "
    "out workers that cannot"
)
#: What a worker calls a plugin that installs another one, after that one's name.
IMPORTER = "-importer"

#: Methods that are called or overridden, with the parameters used.
_METHODS: tuple[tuple[type, str, set[str]], ...] = (
    (Scheduler, "transitions", {"recommendations", "stimulus_id"}),
    (Scheduler, "stimulus_queue_slots_maybe_opened", {"stimulus_id"}),
    (Scheduler, "set_restrictions", {"worker"}),
    (Scheduler, "valid_workers", {"ts"}),
    (Scheduler, "client_desires_keys", {"keys", "client"}),
    (Scheduler, "client_releases_keys", {"keys", "client", "stimulus_id"}),
    (Scheduler, "send_all", {"client_msgs", "worker_msgs"}),
    (Scheduler, "register_scheduler_plugin", {"plugin", "name", "idempotent"}),
    (Scheduler, "add_plugin", {"plugin", "name"}),
    (Scheduler, "broadcast", {"msg", "workers", "on_error"}),
    (Scheduler, "handle_task_erred", {"key", "stimulus_id"}),
    (Scheduler, "stimulus_task_erred", {"key", "worker", "stimulus_id", "run_id"}),
    (TaskState, "add_dependency", {"other"}),
    (WorkSpace, "new_work_dir", set()),
)
#: Attributes of the classes of distributed, as annotations or in the class.
_ATTRIBUTES: tuple[tuple[type, set[str]], ...] = (
    (
        TaskState,
        {"key", "run_spec", "run_id", "state", "nbytes", "dependencies", "dependents", "processing_on", "who_has"}
        | {"exception", "exception_blame", "worker_restrictions", "host_restrictions", "resource_restrictions"}
        | {"loose_restrictions", "waiters", "__weakref__"},
    ),
    (WorkerState, {"address", "status", "extra", "executing", "long_running", "last_seen"}),
    (ClientState, {"wants_what"}),
    (WorkerMachine, {"tasks"}),
    (WorkerTask, {"run_id"}),
    (Worker, {"state"}),
)
#: Attributes that a scheduler, a client and a worker have when they run.
_OF_A_SCHEDULER = (
    *("tasks", "workers", "running", "clients", "plugins", "worker_plugins", "stream_handlers", "loop"),
    *("unrunnable", "no_workers_timeout", "periodic_callbacks"),
)
_OF_A_CLIENT = ("_scheduler_identity",)
_OF_A_WORKER = (
    *("address", "status", "handlers", "stream_handlers", "batched_send", "state", "rpc", "loop"),
    *("local_directory", "memory_manager", "monitor", "plugins", "scheduler", "get_current_task"),
)


def mismatch(server: Any = None) -> str | None:
    """Tell the first difference between distributed and what the plugins need of it, if any."""
    # `server` is a scheduler, worker or client that runs here; by default only the classes are looked at.
    if reason := mismatch_of_classes():
        return reason
    for owner, wanted in ((Scheduler, _OF_A_SCHEDULER), (Worker, _OF_A_WORKER), (Client, _OF_A_CLIENT)):
        if isinstance(server, owner) and (missing := [name for name in wanted if not hasattr(server, name)]):
            return f"{owner.__name__} of distributed has no attribute {missing}"
    return None


@cache
def mismatch_of_classes() -> str | None:
    """The same of the classes, which are looked at once."""
    for owner, name, parameters in _METHODS:
        method = getattr(owner, name, None)
        if method is None:
            return f"{owner.__name__} of distributed has no method {name}"
        if lacking := parameters - set(inspect.signature(method).parameters):
            return f"{owner.__name__}.{name} of distributed has no parameter {sorted(lacking)}"
    for owner, names in _ATTRIBUTES:
        if lacking := {name for name in names if not _has(owner, name)}:
            return f"{owner.__name__} of distributed has no attribute {sorted(lacking)}"
    _, error, _ = clean_exception(dumps(ValueError("sort")))
    if not isinstance(error, ValueError):
        return "distributed does not pass exceptions of tasks as pickled bytes"
    if hides_otherwise():
        return "Dask gives the tasks of arguments of delayed functions another form"
    return None


def _has(owner: type, name: str) -> bool:
    """Whether a class has an attribute, or declares one of its instances."""
    return hasattr(owner, name) or any(name in inspect.get_annotations(base) for base in owner.__mro__)


#: The scheduler on which each client has registered a plugin, by the plugin's name, and why that failed.
_registered: WeakKeyDictionary[Any, dict[str, tuple[str, str | None]]] = WeakKeyDictionary()


def register_once(client: Any, plugin: type[CheckedSchedulerPlugin]) -> str | None:
    """Register a plugin of the scheduler on the cluster of a client, once; gives the reason why it cannot run there."""
    if reason := mismatch(client):
        return reason
    scheduler = client._scheduler_identity.get("id")  # without a message; the client keeps it
    known, name = _registered.setdefault(client, {}), plugin.name
    if known.get(name, ("", None))[0] != scheduler:
        reason = None
        try:
            registered = client.register_plugin(_importers(plugin)[0], name)
            if client.asynchronous:
                client.loop.add_callback(lambda: registered)
        except (AttributeError, ImportError, RuntimeError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
        known[name] = scheduler, reason
    return known[name][1]


def _importers(plugin: type[Any]) -> tuple[SchedulerPlugin, WorkerPlugin]:
    """Plugins that import one of a scheduler or of a worker in a thread, and install it."""
    # Dask unpickles plugins on the event loop, which would stand still while they are imported: for seconds on a busy
    # machine. Local classes are pickled by value, without an import.
    module, class_name, name, importer = plugin.__module__, plugin.__name__, plugin.name, plugin.name + IMPORTER

    async def make() -> Any:
        return getattr(await asyncio.to_thread(import_module, module), class_name)()

    class OfScheduler(SchedulerPlugin):
        idempotent = True

        async def start(self, scheduler: Any) -> None:
            await scheduler.register_scheduler_plugin(await make(), name=name, idempotent=True)

    class OfWorker(WorkerPlugin):
        async def setup(self, worker: Any) -> None:
            try:
                made = await make()
                if name not in worker.plugins:  # one that has just come may be told twice
                    made.setup(worker)
                    worker.plugins[name] = made
            finally:
                worker.plugins.pop(importer, None)

    return OfScheduler(), OfWorker()


async def register_on_workers(scheduler: Any, plugin: type[Any]) -> None:
    """Register a plugin of all workers; those that go meanwhile need none, and those that come get theirs."""
    name, pickled, workers = plugin.name + IMPORTER, dumps(_importers(plugin)[1]), list(scheduler.workers)
    scheduler.worker_plugins[name] = pickled
    for _ in range(ATTEMPTS):
        message = {"op": "plugin-add", "plugin": pickled, "name": name}
        replies = await scheduler.broadcast(msg=message, workers=workers, on_error="return")
        failed = {worker: reply for worker, reply in replies.items() if reply != {"status": "OK"}}
        if not failed:
            return
        if any(not isinstance(reply, OSError) for reply in failed.values()):
            break
        await asyncio.sleep(ATTEMPT_SECONDS)
        workers = [worker for worker in failed if worker in scheduler.workers]
    del scheduler.worker_plugins[name]
    first = next(iter(failed.values()))
    raise RuntimeError(f"a worker refuses: {first['exception_text'] if isinstance(first, dict) else repr(first)}")


def _checked(server: Any) -> Any:
    """Give the scheduler or the worker, unless its version of distributed does not fit."""
    if reason := mismatch(server):
        raise RuntimeError(reason)
    return server


class CheckedSchedulerPlugin(SchedulerPlugin):
    """A plugin of a scheduler, `scheduler`, whose version of distributed fits."""

    name: str

    async def start(self, scheduler: Any) -> None:
        """Refuse a scheduler of another version."""
        self.scheduler = _checked(scheduler)

    def fail(self, state: Any, worker: str, error: Exception, cause: str) -> None:
        """Let a task fail that a worker runs."""
        failed = {"exception": dumps(error), "exception_text": repr(error), "traceback": None, "run_id": state.run_id}
        self.scheduler.handle_task_erred(key=state.key, worker=worker, stimulus_id=cause, **failed)

    async def start_on_workers(self, plugin: type[CheckedWorkerPlugin]) -> None:
        """Register the plugin of the workers."""
        # Tasks come meanwhile, which this plugin must see: Dask would add it afterwards.
        self.scheduler.add_plugin(self, name=self.name)
        try:
            await register_on_workers(self.scheduler, plugin)
        except BaseException:
            self.scheduler.remove_plugin(self.name)
            raise


class CheckedWorkerPlugin(WorkerPlugin):
    """A plugin of a worker, `worker`, whose version of distributed fits."""

    def setup(self, worker: Any) -> None:
        """Refuse a worker of another version."""
        self.worker = _checked(worker)


_logger = logging.getLogger(__name__)


def logs_errors(method: Callable[..., None]) -> Callable[..., None]:
    """Log the errors of a method. Those of a plugin are hidden by Dask, those of a handler close a connection."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            _logger.exception(
                "A plugin of gpusort failed in %s: sorts on this cluster may not end", method.__qualname__
            )

    return call


def plugin_of_worker(name: str) -> Any:
    """Find the plugin of the worker that runs this task."""
    # A client that finds a plugin on the scheduler does not wait until all workers have theirs. A worker that closes
    # has none any more, and waits for this thread.
    plugin, deadline = None, time.monotonic() + INSTALL_SECONDS
    with suppress(ValueError):  # without a worker: the task runs in a process of another scheduler
        worker = get_worker()
        while (plugin := worker.plugins.get(name)) is None and worker.status != Status.closing:
            if time.monotonic() > deadline and name + IMPORTER not in worker.plugins:
                break
            time.sleep(0.01)
    if plugin is None:
        raise RuntimeError(
            f"this scheduler lacks the plugin {name!r}: build the array with the Client that computes it, or use "
            "exchange='tasks'"
        )
    return plugin
