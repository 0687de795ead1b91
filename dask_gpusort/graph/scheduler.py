"""The scheduler in use, its threads and their memory."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal

import dask
from dask.system import CPU_COUNT

from ..plan import Exchange, Workers
from ._dask import get_scheduler, get_sync

#: Kinds of schedulers whose tasks share one memory.
ONE_PROCESS = ("threads", "synchronous")

Kind = Literal["threads", "synchronous", "processes", "distributed"]


#: What is given to `dask.compute` as `scheduler`; None leaves the choice to Dask. `dask.config` would tell it to all
#: threads of the process.
_scheduler: ContextVar[Any] = ContextVar("scheduler", default=None)


@contextmanager
def planned_for(scheduler: Any) -> Iterator[None]:
    """Plan for a scheduler, or a client, that will be given to `dask.compute`; other threads plan for their own."""
    token = _scheduler.set(scheduler)
    try:
        yield
    finally:
        _scheduler.reset(token)


def scheduler_in_use(array: Any) -> tuple[Kind, Any]:
    """Kind of the scheduler that would compute an array now, and its client if it is distributed."""
    try:
        get = get_scheduler(scheduler=_scheduler.get(), collections=[array])
    except RuntimeError:
        # Dask refuses to compute with an asynchronous client, which can still compute graphs passed to it.
        client = _asynchronous_client()
        if client is None:
            raise
        return "distributed", client
    owner = getattr(get, "__self__", None)
    if owner is not None and type(owner).__module__.startswith("distributed"):
        return "distributed", owner
    if getattr(get, "__module__", "") == "dask.multiprocessing":
        return "processes", None
    return ("synchronous" if get is get_sync else "threads"), None


def _asynchronous_client() -> Any:
    """The current distributed client if it is asynchronous, else None."""
    if importlib.util.find_spec("distributed") is None:
        return None
    try:
        client = import_module("distributed").Client.current()
    except ValueError:
        return None
    return client if client.asynchronous else None


def workers_in_use(kind: Kind, client: Any, library: str) -> Workers:
    """Threads of the scheduler in use, or its GPUs, and the memory of each."""
    devices = library == "cupy"
    if kind != "distributed" and devices:
        return Workers(threads=1, memory=own_device_memory(), devices=True)
    if kind == "synchronous":
        return Workers(threads=1)
    if kind != "distributed":
        return Workers(threads=dask.config.get("num_workers", None) or CPU_COUNT)
    workers = list(workers_of_cluster(client).values()) if not client.asynchronous else []
    if devices:
        # Workers report this through NVML: others have none, except if no worker reports it. Then the GPUs of all are
        # assumed to be like those of this process.
        sizes = [int(worker.get("gpu", {}).get("memory-total") or 0) for worker in workers]
        reported = [size for size in sizes if size]
        memory = min(reported, default=0) or own_device_memory()
        return Workers(threads=len(reported or sizes) or CPU_COUNT, memory=memory, devices=True)
    threads = sum(worker["nthreads"] for worker in workers)
    limits = [worker["memory_limit"] // worker["nthreads"] for worker in workers if worker["memory_limit"]]
    return Workers(threads or CPU_COUNT, min(limits, default=None), processes=len(workers))


def workers_of_cluster(client: Any) -> dict[str, Any]:
    """Ask what the scheduler knows of its workers, by address."""
    # `Client.scheduler_info` returns what the client has stored last. Every 2 s the client stores an answer without
    # workers, which may come between the call's own answer and its return.
    workers: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    return workers


def own_device_memory() -> int | None:
    """Bytes of the smallest GPU visible to this process, or the limit of CuPy's pool; None without a GPU."""
    memory = _smallest_device()
    if memory is None:
        return None
    return min(memory, import_module("cupy").get_default_memory_pool().get_limit() or memory)


@functools.cache
def host_memory() -> int | None:
    """Bytes of memory that this process may take; None if unknown."""
    if importlib.util.find_spec("distributed") is not None:
        # This heeds the limits of containers.
        return int(import_module("distributed.system").MEMORY_LIMIT)
    names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
    return math.prod(map(os.sysconf, names)) if {*names} <= {*getattr(os, "sysconf_names", ())} else None


@functools.cache  # a call to the driver takes milliseconds
def _smallest_device() -> int | None:
    try:
        runtime = import_module("cupy").cuda.runtime
        return min(runtime.getDeviceProperties(i)["totalGlobalMem"] for i in range(runtime.getDeviceCount()))
    except Exception:  # CuPy raises various errors for a missing driver or library
        return None


def workers_of_chunks(client: Any, array: Any) -> list[str | None]:
    """The worker that holds each chunk of an array along its first dimension; empty if no chunk is computed yet.

    Queries the scheduler without computing anything.
    """
    if client is None or client.asynchronous or array.numblocks[0] < 2:
        return []
    keys = [(array.name, chunk) + (0,) * (array.ndim - 1) for chunk in range(array.numblocks[0])]
    held = client.sync(client.scheduler.who_has, keys=keys)
    workers = [next(iter(held.get(key) or ()), None) for key in keys]
    return workers if any(workers) else []


def choose_exchange(
    asked: str,
    kind: Kind,
    library: str,
    *,
    joins: bool = False,
    gangs: bool = False,
) -> Exchange:
    """Choose the exchange for a scheduler and the library of the chunks.

    `joins` says whether one task should sort all chunks, `gangs` whether a gang can run, and is the best exchange of
    CuPy chunks.
    """
    if asked == "gang" and kind != "distributed":
        raise ValueError(
            "exchange='gang' needs a distributed Client, made before the sort is built: use exchange='auto'"
        )
    if asked == "runs" and (kind != "distributed" or library != "numpy"):
        reason = "keeps NumPy chunks alone" if kind == "distributed" else "needs a distributed Client, made before"
        raise ValueError(
            f"exchange='runs' {reason}{'' if kind == 'distributed' else ' the sort is built'}: use exchange='auto'"
        )
    if asked == "auto" and joins:
        return "join"
    if asked != "auto":
        return asked  # type: ignore[return-value]
    if library == "cupy":
        return "gang" if gangs else "device"
    if kind == "distributed":
        return "runs"
    return "gather" if kind in ONE_PROCESS else "tasks"


#: Where the plugins of an exchange are installed. These modules import distributed.
PLUGINS: dict[Exchange, str] = {"gang": ".gang.scheduler_plugin", "runs": ".runs.plugins"}


def install(exchange: Exchange, client: Any) -> str | None:
    """Make an exchange possible on the cluster of a client, once; or say why it is not."""
    try:
        module = import_module(PLUGINS[exchange], __package__)
    except (AttributeError, ImportError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    if exchange == "gang":
        send_at_once(client)
    reason: str | None = module.install(client)
    return reason


#: What takes the place of an exchange whose plugins do not fit the cluster's version of distributed.
INSTEAD: dict[Exchange, Exchange] = {"gang": "device", "runs": "tasks"}


def install_or_else(exchange: Exchange, asked: str, client: Any) -> tuple[Exchange, str]:
    """Install an exchange, or name the one in its place and why, if its plugins cannot run on the client's cluster."""
    if exchange not in INSTEAD:
        return exchange, ""
    if exchange == "gang" and client.asynchronous:
        raise ValueError("exchange='gang' needs a Client that is not asynchronous: use exchange='tasks'")
    reason = install(exchange, client)
    if reason is None:
        return exchange, ""
    if asked == exchange:
        raise ValueError(
            f"exchange={exchange!r} does not fit this version of distributed ({reason}): use exchange='auto'"
        )
    _warn_once(exchange, reason)
    return INSTEAD[exchange], f"{exchange}, which does not fit distributed {version('distributed')} ({reason})"


@functools.cache
def _warn_once(exchange: Exchange, reason: str) -> None:
    warnings.warn(
        f"exchange={INSTEAD[exchange]!r} takes the place of {exchange!r}, which does not fit this version of "
        f"distributed ({reason}); it needs more memory: "
        "install another version of distributed, or a newer dask_gpusort",
        RuntimeWarning,
        stacklevel=2,
    )


def send_at_once(client: Any) -> None:
    """Let a client send its messages without delay, where distributed waits up to 10 ms between two.

    Sorts right after each other, of which each releases the result of the one before, took 15 to 20 ms in place of 23
    to 28 (8192 keys, a gang of two worker processes, 2 busy cores).
    """
    with suppress(AttributeError):
        client.scheduler_comm.interval = 0
