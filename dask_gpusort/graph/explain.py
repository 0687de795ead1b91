"""What a call will do: a builder notes the plans that it makes, and who explains it tells the first of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, TypeAlias

from dask.base import is_dask_collection
from tlz import merge

from ..plan.terms import Facts, Scope, format_lines, format_size, format_tasks, remedy
from .runtime import Runtime

#: How often the source is read, in words.
TIMES = {0: "not at all", 1: "once", 2: "twice"}
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


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a call will do, before anything runs; printed, it says it in a few lines.

    Attributes
    ----------
    fits : bool or None
        Whether the projected peak is within the limit; None if either is unknown.
    peak : int or None
        Projected peak, in bytes, of the step that takes most; None if unknown. Arrays that are in memory already, and
        what Dask keeps of other tasks, are not counted.
    limit : int or None
        Bytes of the memory that the peak is compared with (see `whose`); None if unknown.
    whose : str
        What has the peak and the limit: "each thread" (with its share of its process or worker), "each worker",
        "this process", "all workers together", or a GPU.
    reads : int
        How often each chunk of the source is read.
    disk : bool
        Whether sorted chunks go to files where memory does not hold them.
    tasks : int
        Tasks that the call adds to the graph, before Dask optimizes it.
    chunks : tuple of int
        Numbers of chunks of the first input, and of the first result.
    exchange : str or None
        How elements leave their chunks, such as "gather", "runs", "tasks", "device", "gang", "join" or "rechunk"; None
        if none do.
    stages : tuple of (str, int or None)
        Steps from the source to the result, and the bytes that each takes in.
    notes : tuple of str
        What to know or to change: a missing Client, an exchange in place of another one, unknown sizes, a remedy.
    detail : str
        All decisions, a line each.
    full : bool
        Whether the printed text ends with `detail`.
    """

    fits: bool | None
    peak: int | None
    limit: int | None
    whose: str
    reads: int
    disk: bool
    tasks: int
    chunks: tuple[int, int]
    exchange: str | None
    stages: tuple[tuple[str, int | None], ...]
    notes: tuple[str, ...]
    detail: str
    full: bool = False

    @property
    def _lines(self) -> dict[str, str]:
        fitting = {True: "fits: ", False: "does not fit: ", None: ""}[self.fits]
        peak, limit = ("unknown" if size is None else format_size(size) for size in (self.peak, self.limit))
        given, made = self.chunks
        lines = {
            "memory": f"{fitting}peak {peak} for {self.whose}, of {limit}",
            "disk": "used for sorted chunks that memory does not hold" if self.disk else "not used",
            "reads": f"the source {TIMES.get(self.reads, f'{self.reads} times')}",
            "chunks": f"{given:,} in, {made:,} out",
            "tasks": format_tasks(self.tasks, given),
            "exchange": self.exchange or "none: elements stay in their chunks",
        }
        return {**lines, **{"note" + " " * number: text for number, text in enumerate(self.notes)}}

    def __str__(self) -> str:
        lines = format_lines(self._lines)
        return f"{lines}\n\n{self.detail}" if self.full else lines

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same as a table, with a bar for the bytes of each stage."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{name.strip()}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self._lines.items()
        )
        most = max((size or 0 for _, size in self.stages), default=0) or 1
        bars = "".join(
            f"<text x='0' y='{22 * row + 15}'>{escape(name)}</text>"
            f"<rect x='130' y='{22 * row + 3}' width='{max(260 * (size or 0) / most, 1):.0f}' height='15'"
            " fill-opacity='0.35'/>"
            f"<text x='400' y='{22 * row + 15}'>{'unknown' if size is None else format_size(size)}</text>"
            for row, (name, size) in enumerate(self.stages)
        )
        height = 22 * len(self.stages)
        # The colour is that of the text around it, light or dark.
        picture = (
            f"<svg role='img' aria-label='bytes of each stage' viewBox='0 0 520 {height}' width='520' height='{height}'"
            f" style='max-width:100%' fill='currentColor' font-size='12'>{bars}</svg>"
        )
        detail = f"<details{' open' * self.full}><summary>Details</summary><pre>{escape(self.detail)}</pre></details>"
        return f"<table style='color:inherit'>{rows}</table>{picture}{detail}"


def _known(size: float) -> int | None:
    """Bytes as users read them: None for nan, or for no limit."""
    return int(size) if math.isfinite(size) else None


Describe: TypeAlias = Callable[[Made], Facts]
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
    *before, facts = (describe(made) for _, describe, _ in noted[: first + 1])
    runtime = noted[first][2] or Runtime.of(made.inputs[0])
    peak, (whose, limit) = _known(facts.peak), _memory_of(runtime, facts.scope)
    fits = None if peak is None or limit is None else peak <= limit and not facts.over
    given, result = (sum(one.size * one.dtype.itemsize for one in arrays) for arrays in (made.inputs, made.found))
    stages = ("source", given), *facts.stages, ("result", result)
    notes = [text for one in (*before, facts) for text in one.notes]
    if runtime.client is None:
        who = "the GPU of this process" if runtime.workers.devices else ALONE[runtime.kind]
        notes.insert(0, f"built without a Client: for {who}")
    if any(math.isnan(array.size) for array in made.inputs):
        notes.append("sizes of chunks are unknown: call compute_chunk_sizes() first")
    if fits is False:
        devices = runtime.workers.threads if runtime.workers.devices else 0
        notes.append(f"over the memory: use {remedy(devices)}")
    return Explanation(
        fits=fits if facts.whole or fits is False else None,
        peak=peak,
        limit=limit,
        whose=whose,
        reads=facts.reads,
        # Dask's rechunk by P2P writes files, too.
        disk=facts.exchange == "runs" or any(map(_is_p2p, made.found)),
        tasks=made.tasks,
        chunks=(made.given_chunks, made.found_chunks),
        exchange=facts.exchange,
        stages=tuple((name, _known(size)) for name, size in stages),
        notes=tuple(notes),
        detail="\n".join(filter(None, (one.text for one in (*before, facts)))),
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
