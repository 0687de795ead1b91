"""Who computes an array: the scheduler in use, its threads or GPUs, their memory, and what they hold already."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.blockwise import Blockwise
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from dask.system import CPU_COUNT
from dask.typing import Key
from tlz import partition

from ..chunk import library_of
from ..plan import Workers
from ._dask import flatten, get_scheduler, get_sync

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


@dataclass(frozen=True)
class Runtime:
    """Tell who computes the arrays of one build: asked once, and passed down."""

    kind: Kind
    client: Any  # of distributed, else None
    library: str  # of the chunks

    @classmethod
    def of(cls, array: Any) -> Runtime:
        """Ask who would compute an array now."""
        return cls(*scheduler_in_use(array), chunk_library(array))

    def for_chunks_of(self, array: Any) -> Runtime:
        """Give the same scheduler, for an array whose chunks may be of another library."""
        library = chunk_library(array)
        return self if library == self.library else replace(self, library=library)

    @property
    def one_process(self) -> bool:
        """Whether all tasks run in this process."""
        return self.kind in ONE_PROCESS

    @cached_property
    def workers(self) -> Workers:
        """Threads of the scheduler, or its GPUs, and the memory of each; a cluster is asked once."""
        return workers_in_use(self.kind, self.client, self.library)

    @property
    def memory(self) -> int | None:
        """Bytes of this process, if all tasks run in it; else None."""
        return host_memory() if self.one_process else None

    @cached_property
    def gpus(self) -> Workers | None:
        """The GPUs on which chunks of the host may be sorted, one of each worker; None without one."""
        if self.kind != "distributed":
            found = [own_device_memory()]
        else:  # a worker's pool may have a limit, of which the scheduler knows nothing
            found = [] if self.client.asynchronous else list(self.client.run(own_device_memory).values())
        known = [size for size in found if size]
        return Workers(threads=len(known), memory=min(known), devices=True) if known else None

    def holders(self, *arrays: Any) -> list[str | None]:
        """The worker of a cluster that holds each chunk of some arrays, in C order; empty if none holds any.

        Of several that hold a chunk it is the one with fewest chunks: copies do not make one worker the holder of all.
        """
        if self.client is None or self.client.asynchronous:
            return []
        keys = [(array.name, *index) for array in arrays for index in np.ndindex(array.numblocks)]
        if len(keys) < 2:
            return []
        held = self.client.sync(self.client.scheduler.who_has, keys=keys)
        found: dict[Any, str] = {}
        chunks: Counter[str] = Counter()
        for key, workers in sorted(held.items(), key=lambda one: len(one[1])):
            if workers:
                found[key] = min(sorted(workers), key=chunks.__getitem__)
                chunks[found[key]] += 1
        return [found.get(key) for key in keys] if found else []

    def nearest_holders(self, array: Any) -> tuple[list[str | None], bool]:
        """The worker that holds each chunk, or else what it is made from alone, and whether it is the chunk itself."""
        count = math.prod(array.numblocks)
        sources = list(_made_from(array)) if count > 1 else []
        for number, workers in enumerate(partition(count, self.holders(*sources))):
            if any(workers):
                return list(workers), number == 0
        return [], False

    def holds(self, arrays: Iterable[Any]) -> bool:
        """Whether this process computes, and has all chunks of some arrays."""
        return self.one_process and all(map(held_chunks, arrays))


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
    if _leaves_this_process(get):
        return "processes", None
    return ("synchronous" if get is get_sync else "threads"), None


def _leaves_this_process(get: Any) -> bool:
    """Whether a scheduler that is no client of distributed runs tasks in other processes, or may."""
    if isinstance(get, functools.partial):  # Dask's way to an executor
        return get.args[0].__module__ != "concurrent.futures.thread"
    # Frisky does not tell whether its workers share one memory.
    return (getattr(get, "__module__", None) or "").startswith(("dask.multiprocessing", "frisky"))


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
        return Workers(threads=_threads_in_use())
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
    apart = len({worker.get("host") for worker in workers}) > 1
    return Workers(threads or CPU_COUNT, min(limits, default=None), processes=len(workers), apart=apart)


def _threads_in_use() -> int:
    """Threads, or processes, of the local scheduler, which Dask may have been given as a pool."""
    pool = dask.config.get("pool", None) or _scheduler.get() or dask.config.get("scheduler", None)
    of_pool = getattr(pool, "_max_workers", None) or getattr(pool, "_processes", None)
    return of_pool or dask.config.get("num_workers", None) or CPU_COUNT


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


def chunk_library(array: Any) -> str:
    """Find the library of an array's chunks: its meta's, or that of its nearest inputs held or of known sizes."""
    # Indexing by a boolean mask gives an array with NumPy's meta, whatever its chunks are (Dask's
    # `slice_with_bool_dask_array` passes no meta), and so do operations on it, `persist` and `compute_chunk_sizes`.
    graph = getattr(array, "dask", None)
    found = library_of(array._meta)
    if found != "numpy" or not isinstance(graph, HighLevelGraph):
        return found
    seen, waiting = {array.name}, [array.name]
    while waiting:
        layer = graph.layers[name := waiting.pop()]
        about = layer.collection_annotations or {}
        if _held_library(layer) == "cupy" or about.get("chunk_type", "").startswith("cupy."):
            return "cupy"
        if np.isnan(about.get("shape", ())).any():
            waiting += graph.dependencies[name] - seen
            seen |= graph.dependencies[name]
    return found


def _held_library(layer: Layer) -> str | None:
    """Library of a chunk that a layer holds, as after `persist`: here, or on a worker once the client knows of it."""
    chunk = next(iter(layer.mapping.values()), None) if isinstance(layer, MaterializedLayer) else None
    held = getattr(chunk, "type", None)  # of a Future
    return held.__module__.partition(".")[0] if isinstance(held, type) else library_of(chunk)


class Source(NamedTuple):
    """An array by its name, with numbers of chunks."""

    name: str
    numblocks: tuple[int, ...]


def _made_from(array: Any) -> Iterator[Source]:
    """The array, then those of as many chunks from which its own are made one by one, the nearest first."""
    layers = {} if da.array_expr_enabled() else array.dask.layers
    found = [Source(array.name, array.numblocks)]
    for one in found:
        yield one
        layer = layers.get(one.name)
        if isinstance(layer, Blockwise):
            of_names = [(name, index) for name, index in layer.indices if isinstance(name, str) and index is not None]
            for name, index in of_names:
                source = Source(name, tuple(layer.numblocks[name]))
                same = tuple(index) == layer.output_indices[: len(index)]
                if same and math.prod(source.numblocks) == math.prod(array.numblocks) and source not in found:
                    found.append(source)


def held_chunks(array: Any) -> dict[Key, Any]:
    """Chunks that an array's graph contains, by key, as after `persist` on threads; empty if tasks make them.

    Empty under query planning too, where an array has no graph before it is optimized.
    """
    layer = None if da.array_expr_enabled() else array.dask.layers.get(array.name)
    if not isinstance(layer, MaterializedLayer):
        return {}
    chunks = {key: layer.mapping.get(key) for key in flatten(array.__dask_keys__())}
    return chunks if all(library_of(chunk) in ("numpy", "cupy") for chunk in chunks.values()) else {}
