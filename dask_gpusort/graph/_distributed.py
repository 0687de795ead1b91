"""What the gang and the plugins take of distributed that distributed does not promise to keep, in one place.

Import this module only where distributed is in use. (What the P2P exchange takes stands in `p2p_engine`.)
"""

from __future__ import annotations

import inspect
from typing import Any

from distributed.client import Client
from distributed.core import Status, clean_exception
from distributed.metrics import context_meter, monotonic
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps
from distributed.scheduler import ClientState, Scheduler, TaskState, WorkerState
from distributed.utils import offload
from distributed.worker import Worker, thread_state
from distributed.worker_state_machine import TaskState as WorkerTask
from distributed.worker_state_machine import WorkerState as WorkerMachine

__all__ = [
    "Status",
    "clean_exception",
    "context_meter",
    "dumps",
    "mismatch",
    "monotonic",
    "offload",
    "thread_state",
    "to_serialize",
]

#: Methods that are called or overridden, with the parameters used.
_METHODS: tuple[tuple[type, str, set[str]], ...] = (
    (Scheduler, "transitions", {"recommendations", "stimulus_id"}),
    (Scheduler, "set_restrictions", {"worker"}),
    (Scheduler, "valid_workers", {"ts"}),
    (Scheduler, "client_desires_keys", {"keys", "client"}),
    (Scheduler, "client_releases_keys", {"keys", "client", "stimulus_id"}),
    (Scheduler, "send_all", {"client_msgs", "worker_msgs"}),
    (Scheduler, "register_worker_plugin", {"comm", "plugin", "name", "idempotent"}),
    (Scheduler, "handle_task_erred", {"key", "stimulus_id"}),
    (Scheduler, "stimulus_task_erred", {"key", "worker", "stimulus_id", "run_id"}),
    (TaskState, "add_dependency", {"other"}),
)
#: Attributes of the classes of distributed, as annotations or in the class.
_ATTRIBUTES: tuple[tuple[type, set[str]], ...] = (
    (
        TaskState,
        {"key", "run_spec", "run_id", "state", "nbytes", "dependencies", "dependents", "processing_on", "who_has"}
        | {"exception", "exception_blame", "worker_restrictions", "host_restrictions", "resource_restrictions"}
        | {"loose_restrictions", "__weakref__"},
    ),
    (WorkerState, {"address", "status", "extra", "executing"}),
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
_OF_A_WORKER = ("address", "handlers", "stream_handlers", "batched_send", "state", "rpc", "loop")


def mismatch(server: Any = None) -> str | None:
    """The first difference between distributed and what gangs need of it, or None.

    Parameters
    ----------
    server : distributed.Scheduler, distributed.Worker or distributed.Client, optional
        One that runs here; by default only the classes are looked at.
    """
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
