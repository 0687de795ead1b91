"""What a call will do: a builder notes the plans that it makes, and who explains it tells the first of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Made:
    """Hold what a builder makes."""

    inputs: Sequence[Any]  # Dask arrays
    found: Sequence[Any]  # the arrays that are made from them
    steps: Sequence[Any]  # plans of the sorts and the like that are part of it

    @cached_property
    def tasks(self) -> int:
        """Tasks of the arrays without those of their inputs, before Dask optimizes the graph."""
        return count_tasks(self.found, self.inputs)

    @property
    def given_chunks(self) -> int:
        """Chunks of the first input."""
        return math.prod(self.inputs[0].numblocks)

    @property
    def found_chunks(self) -> int:
        """Chunks of the first array that is made."""
        return math.prod(self.found[0].numblocks)

    def step(self, kind: type) -> Any:
        """The first plan of a kind, None if there is none."""
        return next((plan for plan in self.steps if isinstance(plan, kind)), None)


def _known(size: float) -> int | None:
    """Bytes as users read them: None for nan, or for no limit."""
    return int(size) if math.isfinite(size) else None


Describe: TypeAlias = Callable[[Made], Projection]
#: A plan, how it is told, and who will run it.
Noted: TypeAlias = list[tuple[Any, Describe, Runtime | None]]

#: What builders note in this context, while one is explained.
_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)


def note(plan: Any, describe: Describe, runtime: Runtime | None = None) -> None:
    """Note a plan, how it is told, and who will run it; what is said of the input has no plan, and none of these."""
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


def plans_of(build: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
    """The plans that a builder makes: its own, then those of its steps."""
    _, noted = _built(build, *arguments, **options)
    return [plan for plan, *_ in noted if plan is not None]


def explained(build: Callable[..., Any], *arguments: Any, detail: bool = False, **options: Any) -> Explanation:
    """Call a builder, and tell the first plan that it makes, behind what is said of its input."""
    found, noted = _built(build, *arguments, **options)
    first = next(number for number, (plan, *_) in enumerate(noted) if plan is not None)
    made = Made(
        inputs=[one for one in arguments if is_dask_collection(one)],
        found=found if isinstance(found, tuple) else (found,),
        steps=[plan for plan, *_ in noted[first + 1 :]],
    )
    *before, projected = (describe(made) for _, describe, _ in noted[: first + 1])
    runtime = noted[first][2] or Runtime.of(made.inputs[0])
    peak, (whose, limit) = _known(projected.peak), _memory_of(runtime, projected.scope)
    fits = None if peak is None or limit is None else peak <= limit and not projected.over
    given, result = (sum(one.size * one.dtype.itemsize for one in arrays) for arrays in (made.inputs, made.found))
    stages = ("source", given), *projected.stages, ("result", result)
    notes = [text for one in (*before, projected) for text in one.notes]
    if runtime.client is None:
        who = "the GPU of this process" if runtime.workers.devices else ALONE[runtime.kind]
        notes.insert(0, f"built without a Client: for {who}")
    if any(math.isnan(array.size) for array in made.inputs):
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
        disk=projected.exchange == "runs" or any(map(_is_p2p, made.found)),
        tasks=made.tasks,
        chunks=(made.given_chunks, made.found_chunks),
        exchange=projected.exchange,
        stages=tuple((name, _known(size)) for name, size in stages),
        notes=tuple(notes),
        detail="\n".join(filter(None, (one.text for one in (*before, projected)))),
        full=detail,
    )


def _memory_of(runtime: Runtime, scope: Scope) -> tuple[str, int | None]:
    """Whose memory it is, and its bytes; None if unknown."""
    workers = runtime.workers
    threads, processes = workers.threads, max(workers.processes, 1)
    own = workers.memory or (runtime.memory or math.nan) / threads
    if workers.devices:
        together = scope == "all" and threads > 1
        whose = "all GPUs together" if together else "the GPU" if threads == 1 else "each GPU"
        return whose, _known(own * (threads if together else 1))
    names = {"thread": "each thread", "process": "each worker", "all": "all workers together"}
    share = {"thread": 1, "process": threads / processes, "all": threads}[scope]
    alone = runtime.one_process and scope != "thread"
    return "this process" if alone else names[scope], _known(own * share)


def _is_p2p(array: Any) -> bool:
    return any("p2p" in name for name in getattr(array.__dask_graph__(), "layers", ()))


def count_tasks(found: Sequence[Any], inputs: Sequence[Any]) -> int:
    """Tasks of some arrays without those of their inputs, before Dask optimizes the graph."""
    made, given = (merge(dict(array.__dask_graph__()) for array in arrays) for arrays in (found, inputs))
    return len(made.keys() - given.keys())
