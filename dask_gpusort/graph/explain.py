"""What a call will do: builders note what states a plan, and who explains the call asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

import dask.array as da
from dask.base import is_dask_collection
from tlz import merge, unique

from ..plan.plan import Plan, Scope
from ..plan.terms import remedy
from ._dask import flatten
from .explanation import Explanation
from .runtime import Runtime, host_memory

#: The scheduler that a plan is for, without a Client.
ALONE = {
    "threads": "the threads of this process",
    "synchronous": "one thread",
    "processes": "processes of this machine",
}


def _known(size: float) -> int | None:
    """Bytes as users read them: None for nan, or for no limit."""
    return int(size) if math.isfinite(size) else None


class States(Protocol):
    """What states a plan: a plan, or the numbers of one."""

    @property
    def stated(self) -> Plan:
        """The plan."""


#: What states a plan, and who will run it.
Noted: TypeAlias = list[tuple[States, Runtime | None]]

#: What builders note in this context, while a call is explained.
_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)


def note(states: States, runtime: Runtime | None = None) -> None:
    """Note what states a plan, and who runs it if not who computes the input."""
    if (noted := _noted.get()) is not None:
        noted.append((states, runtime))


def _built(build: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, Noted]:
    """What a builder makes, and what it notes."""
    noted: Noted = []
    token = _noted.set(noted)
    try:
        return build(*arguments, **options), noted
    finally:
        _noted.reset(token)


def explained(build: Callable[..., Any], *arguments: Any, detail: bool = False, **options: Any) -> Explanation:
    """Call a function, and say what its builders plan; the memory is that of the plan nearest to its limit."""
    found, noted = _built(build, *arguments, **options)
    arrays = found if isinstance(found, (tuple, list)) else (found,)
    if not all(map(is_dask_collection, arrays)):
        raise TypeError(f"{build.__name__} makes no Dask array, and has no plan: give a function such as sort")
    given = flatten([arguments, list(options.values())], container=(list, tuple))
    inputs = [da.asanyarray(one) for one in given if is_dask_collection(one)]
    alone = Runtime.of((inputs or arrays)[0])
    stated = [(states.stated, runtime or alone) for states, runtime in noted]
    memories = [Memory.of(plan, runtime) for plan, runtime in stated if plan.steps] or [Memory.of(Plan(), alone)]
    memory = max(memories, key=lambda one: (one.share, one.peak or 0))
    runtime = stated[0][1] if stated else alone
    notes = [text for plan, _ in stated for text in plan.notes]
    if runtime.client is None:
        who = "the GPU of this process" if runtime.workers.devices else ALONE[runtime.kind]
        notes.insert(0, f"for {who}, without a Client")
    if any(math.isnan(array.size) for array in inputs):
        notes.append("sizes of chunks are unknown: call compute_chunk_sizes() first")
    if not memory.fits and memory.peak is not None:
        notes.append(f"over the memory: use {remedy(runtime.workers.threads if runtime.workers.devices else 0)}")
    exchange = next((plan.exchange for plan, _ in stated if plan.exchange), None)
    layers = (name for array in arrays for name in getattr(array.__dask_graph__(), "layers", ()))
    total, made = (sum(one.size * one.dtype.itemsize for one in each) for each in (inputs, arrays))
    stages = ("source", total), *unique(chain(*(plan.stages for plan, _ in stated))), ("result", made)
    return Explanation(
        fits=memory.fits,
        peak=memory.peak,
        limit=memory.limit,
        whose=memory.whose,
        reads=max((plan.reads for plan, _ in stated), default=1),
        # Dask's rechunk by P2P writes files, too.
        disk=any(plan.exchange == "runs" for plan, _ in stated) or any("p2p" in name for name in layers),
        tasks=count_tasks(arrays, inputs),
        chunks=(math.prod(inputs[0].numblocks) if inputs else 0, math.prod(arrays[0].numblocks)),
        exchange=exchange,
        stages=tuple((name, _known(size)) for name, size in stages),
        notes=tuple(unique(notes)),
        detail="\n".join(filter(None, unique(plan.text for plan, _ in stated))),
        full=detail,
    )


class Memory(NamedTuple):
    """Hold the peak of a plan, and what it is compared with."""

    whose: str
    peak: int | None  # None if unknown
    limit: int | None
    over: bool

    @classmethod
    def of(cls, plan: Plan, runtime: Runtime) -> Memory:
        """The memory of a plan."""
        whose, limit = _memory_of(runtime, plan.scope)
        return cls(whose, _known(plan.peak), limit, plan.over)

    @property
    def fits(self) -> bool:
        """Whether the peak is known, and within the limit if there is one."""
        return self.share <= 1 and not self.over

    @property
    def share(self) -> float:
        """The peak as a share of the limit."""
        return math.inf if self.peak is None else self.peak / (self.limit or math.inf)


def _memory_of(runtime: Runtime, scope: Scope) -> tuple[str, int | None]:
    """Whose memory it is, and its bytes; None if unknown."""
    workers = runtime.workers
    threads = workers.threads
    # Processes of this machine share its memory, too.
    memory = host_memory() if runtime.kind == "processes" else runtime.memory
    own = workers.memory or (memory or math.nan) / threads
    if workers.devices:
        several = "all GPUs together" if scope == "all" else "each GPU"
        return "the GPU" if threads == 1 else several, _known(own * (threads if scope == "all" else 1))
    if runtime.one_process and scope != "thread":
        return "this process", _known(own * threads)
    names = {"thread": "each thread", "process": "each worker", "all": "all workers together"}
    share = {"thread": 1, "process": threads / max(workers.processes, 1), "all": threads}
    return names[scope], _known(own * share[scope])


def count_tasks(found: Sequence[Any], inputs: Sequence[Any]) -> int:
    """Tasks of some arrays without those of their inputs, before Dask optimizes the graph."""
    made, given = (merge(dict(array.__dask_graph__()) for array in arrays) for arrays in (found, inputs))
    return len(made.keys() - given.keys())
