"""What a call will do: a builder notes the plans that it makes, and who explains it tells the first of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from dask.base import is_dask_collection
from tlz import merge

from ..plan.terms import Projection, Scope, remedy
from .explanation import Explanation
from .runtime import Runtime

#: The scheduler that a plan is for, without a Client.
ALONE = {
    "threads": "the threads of this process",
    "synchronous": "one thread",
    "processes": "processes of this machine",
}


def _known(size: float) -> int | None:
    """Bytes as users read them: None for nan, or for no limit."""
    return int(size) if math.isfinite(size) else None


#: Tells a plan; it is given what finds the first plan of a kind among those of the steps.
Describe: TypeAlias = Callable[[Callable[[type], Any]], Projection]
#: A plan, how it is told, and who will run it.
Noted: TypeAlias = list[tuple[Any, Describe, Runtime | None]]

#: What builders note in this context, while one is explained.
_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)


def note(plan: Any, describe: Describe, runtime: Runtime | None = None) -> None:
    """Note a plan, how it is told, and who runs it if not who computes the input; what is said of that has no plan."""
    if (noted := _noted.get()) is not None:
        noted.append((plan, describe, runtime))


def _built(build: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, Noted]:
    """What a builder makes, and what it notes."""
    noted: Noted = []
    token = _noted.set(noted)
    try:
        return build(*arguments, **options), noted
    finally:
        _noted.reset(token)


def explained(build: Callable[..., Any], *arguments: Any, detail: bool = False, **options: Any) -> Explanation:
    """Call a builder, and tell the first plan that it makes, behind what is said of its input."""
    found, noted = _built(build, *arguments, **options)
    first = next(number for number, (plan, *_) in enumerate(noted) if plan is not None)
    inputs = [one for one in arguments if is_dask_collection(one)]
    arrays = found if isinstance(found, tuple) else (found,)

    def step(kind: type) -> Any:
        return next((plan for plan, *_ in noted[first + 1 :] if isinstance(plan, kind)), None)

    *before, projected = (describe(step) for _, describe, _ in noted[: first + 1])
    runtime = noted[first][2] or Runtime.of(inputs[0])
    peak, (whose, limit) = _known(projected.peak), _memory_of(runtime, projected.scope)
    fits = None if peak is None or limit is None else peak <= limit and not projected.over
    given, result = (sum(one.size * one.dtype.itemsize for one in each) for each in (inputs, arrays))
    stages = ("source", given), *projected.stages, ("result", result)
    notes = [text for one in (*before, projected) for text in one.notes]
    layers = (name for array in arrays for name in getattr(array.__dask_graph__(), "layers", ()))
    if runtime.client is None:
        who = "the GPU of this process" if runtime.workers.devices else ALONE[runtime.kind]
        notes.insert(0, f"for {who}, without a Client")
    if any(math.isnan(array.size) for array in inputs):
        notes.append("sizes of chunks are unknown: call compute_chunk_sizes() first")
    if fits is False:
        devices = runtime.workers.threads if runtime.workers.devices else 0
        notes.append(f"over the memory: use {remedy(devices)}")
    return Explanation(
        fits=fits if projected.whole or fits is False else None,
        peak=peak,
        limit=limit,
        whose=whose,
        reads=projected.reads,
        # Dask's rechunk by P2P writes files, too.
        disk=projected.exchange == "runs" or any("p2p" in name for name in layers),
        tasks=count_tasks(arrays, inputs),
        chunks=(math.prod(inputs[0].numblocks), math.prod(arrays[0].numblocks)),
        exchange=projected.exchange,
        stages=tuple((name, _known(size)) for name, size in stages),
        notes=tuple(notes),
        detail="\n".join(filter(None, (one.text for one in (*before, projected)))),
        full=detail,
    )


def _memory_of(runtime: Runtime, scope: Scope) -> tuple[str, int | None]:
    """Whose memory it is, and its bytes; None if unknown."""
    workers = runtime.workers
    threads = workers.threads
    own = workers.memory or (runtime.memory or math.nan) / threads
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
