"""What the gang and the plugins take of distributed that distributed does not promise to keep, in one place.

Import this module only where distributed is in use.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from functools import wraps
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

__all__ = [
    "MEMORY_LIMIT",
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

#: Seconds for which a task waits for a plugin of its worker.
INSTALL_SECONDS = 2.0

#: Methods that are called or overridden, with the parameters used.
_METHODS: tuple[tuple[type, str, set[str]], ...] = (
    (Scheduler, "transitions", {"recommendations", "stimulus_id"}),
    (Scheduler, "stimulus_queue_slots_maybe_opened", {"stimulus_id"}),
    (Scheduler, "set_restrictions", {"worker"}),
    (Scheduler, "valid_workers", {"ts"}),
    (Scheduler, "client_desires_keys", {"keys", "client"}),
    (Scheduler, "client_releases_keys", {"keys", "client", "stimulus_id"}),
    (Scheduler, "send_all", {"client_msgs", "worker_msgs"}),
    (Scheduler, "register_worker_plugin", {"comm", "plugin", "name", "idempotent"}),
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
    (WorkerState, {"address", "status", "extra", "executing", "last_seen"}),
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
    for owner, name, parameters in _METHODS:
        method = getattr(owner, name, None)
        if method is None:
            return f"{owner.__name__} of distributed has no method {name}"
        if lacking := parameters - set(inspect.signature(method).parameters):
            return f"{owner.__name__}.{name} of distributed has no parameter {sorted(lacking)}"
    for owner, names in _ATTRIBUTES:
        if lacking := {name for name in names if not _has(owner, name)}:
            return f"{owner.__name__} of distributed has no attribute {sorted(lacking)}"
    for owner, wanted in ((Scheduler, _OF_A_SCHEDULER), (Worker, _OF_A_WORKER), (Client, _OF_A_CLIENT)):
        if isinstance(server, owner) and (missing := [name for name in wanted if not hasattr(server, name)]):
            return f"{owner.__name__} of distributed has no attribute {missing}"
    _, error, _ = clean_exception(dumps(ValueError("sort")))
    if not isinstance(error, ValueError):
        return "distributed does not pass exceptions of tasks as pickled bytes"
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
            registered = client.register_plugin(plugin())
            if client.asynchronous:
                client.loop.add_callback(lambda: registered)
        except (AttributeError, ImportError, RuntimeError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
        known[name] = scheduler, reason
    return known[name][1]


async def register_on_workers(scheduler: Any, plugin: Any) -> None:
    """Register a plugin of the workers, as that of the scheduler with the same name starts."""
    replies = await scheduler.register_worker_plugin(None, dumps(plugin), name=plugin.name, idempotent=True)
    failed = [reply for reply in replies.values() if reply["status"] == "error"]
    if failed:
        del scheduler.worker_plugins[plugin.name]
        scheduler.plugins.pop(plugin.name, None)  # that of another client, which registered meanwhile
        raise RuntimeError(f"a worker refuses: {failed[0]['exception_text']}")


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
    worker, deadline = get_worker(), time.monotonic() + INSTALL_SECONDS
    while (plugin := worker.plugins.get(name)) is None and worker.status != Status.closing:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    if plugin is None:
        raise RuntimeError(
            f"this cluster lacks the plugin {name!r}: build the sort with a Client of the cluster that computes it, or "
            "use exchange='tasks'"
        )
    return plugin
