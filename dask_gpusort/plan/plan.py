"""The plan of a sort: all decisions, made before anything runs, from shapes, dtypes and the scheduler in use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..chunk.memory import step_bytes
from ..order import Order
from . import counting
from .memory import GROUP_COPIES, RUN_COPIES, Turns
from .terms import BY_TASKS, Exchange, Projection, Runs, Scope, Size, format_count, format_size

#: Bytes of a kept run's handle, in the task that lists all.
HANDLE_BYTES = 512


@dataclass(frozen=True)
class Plan:
    """Say how one array is sorted along one chunked axis."""

    order: Order
    exchange: Exchange
    sizes: tuple[Size, ...]  # keys in each input chunk, nan where unknown
    chunks: tuple[Size, ...]  # keys in each output chunk, nan where unknown
    #: (first output chunk, last + 1, part, parts): some output chunks, or one of several equal parts of one.
    groups: tuple[tuple[int, int, int, int], ...]
    radix_bits: int  # bits of the digits counted in each run; 0 if samples alone bound the cuts
    samples: int  # keys in the summary of a run, or drawn from it
    candidates: int  # keys before which all runs count theirs, in a second round; 0 without one
    row_bytes: int  # bytes of one key in transit and its companions
    #: Input chunks that are sorted as one: every chunk once, in the order of the runs' first chunks. From here on a run
    #: plays the role of a chunk. They are neighbours, except in an exchange by tasks (see `runs.join_chunks`).
    runs: Runs
    sources: Runs = ()  # runs that one task sorts, for an exchange by tasks or a gang; else empty
    #: Whether an exchange by tasks cuts all runs before it finishes any group (see `turns.Turns.cuts_first`).
    cut_first: bool = False
    joined_bytes: float = 0  # that a join takes beside its input; 0 if the chunks are on several workers
    turns: Turns | None = None  # memory of an exchange on GPUs of known size
    #: The worker of each bundle on several such GPUs: its address if it holds the chunks, else a number, modulo the
    #: number of workers. In other exchanges Dask chooses the worker.
    bundle_workers: tuple[str | int, ...] = ()
    staging_memory: int | None = None  # as in `Workers`
    instead_of: str = ""  # the exchange in whose place this one is, and why; else empty
    processes: int = 0  # as in `Workers`
    sorts_last: bool = False  # whether chunks are divided at splitters, and groups alone are sorted

    @property
    def by_tasks(self) -> bool:
        """Whether the exchange has the graph of `BY_TASKS`."""
        return self.exchange in BY_TASKS

    @property
    def known(self) -> bool:
        """Whether all chunk sizes are known."""
        return not any(map(math.isnan, (*self.sizes, *self.chunks)))

    @property
    def run_sizes(self) -> tuple[Size, ...]:
        """Keys in each run, nan where unknown."""
        return tuple(sum(self.sizes[chunk] for chunk in run) for run in self.runs)

    @property
    def unresolved(self) -> float:
        """Largest share of the keys that is sent to two groups."""
        if self.candidates:  # expected: candidates are drawn
            return 2 * len(self.groups) / self.candidates
        return 0.0 if self.sorts_last else counting.unresolved_share(len(self.groups), self.samples)

    @property
    def table_bytes(self) -> int:
        """Bytes of the largest table that one task of the counting receives."""
        runs, groups = len(self.runs), len(self.groups)
        entry = self.order.transit_dtype.itemsize + counting.ENTRY_BYTES
        if self.exchange == "join":
            return 0
        if self.sorts_last:
            return 8 * runs * (groups + 1)
        if self.candidates:
            counts = (runs if self.exchange == "gather" else counting.FAN_IN) * 8 * self.candidates
            return max(runs * self.samples * entry, counts, runs * HANDLE_BYTES)
        return runs * self.samples * entry

    @property
    def turn_size(self) -> int:
        """Groups that are finished at once: one for each GPU if memory is short, else all."""
        several = self.cut_first and self.turns is not None and self.turns.devices > 1
        return self.turns.devices if several and self.turns is not None else len(self.groups)

    @property
    def group_bytes(self) -> float:
        """Bytes of the largest group's keys and companions, nan if unknown."""
        return max(self._group_sizes, default=0) * self.row_bytes

    @property
    def projected_bytes(self) -> float:
        """Peak bytes of one thread: copies of a group with its unresolved keys, or of the longest run."""
        # Of a join, of an exchange by tasks on GPUs, and of a gang: the peak of a GPU, beside an input that is kept.
        if self.exchange == "join":
            return self.joined_bytes
        bundles = [sum(self.run_sizes[run] for run in source) for source in self.sources]
        if self.turns is not None:
            divided = max((self.chunks[first] for first, _, _, parts in self.groups if parts > 1), default=0)
            groups = [(1 + self.unresolved) * size for size in self._group_sizes]
            return self.turns.peak(bundles, groups, divided, cut_first=self.cut_first)
        if self.exchange == "gang":
            return self._member_bytes(max(bundles))
        copies = RUN_COPIES if self.sorts_last else GROUP_COPIES
        group = copies * (1 + self.unresolved) * self.group_bytes
        return max(group, RUN_COPIES * self._longest * self.row_bytes)

    @property
    def step_bytes(self) -> float:
        """Bytes of the GPU that one step of a staged sort takes at its peak, nan if unknown."""
        largest = max((1 + self.unresolved) * self.group_bytes / self.row_bytes, self._longest)
        return step_bytes(self.order, largest, self.row_bytes - self.order.transit_dtype.itemsize)

    def _member_bytes(self, bundle: float) -> float:
        """Count peak bytes of a member of a gang with so many keys."""
        # It has its sorted keys, which are kept until all shards have arrived; shards that are copied before they are
        # sent, at most as many bytes; and what others send. When these are freed, the merge needs the outputs, and the
        # group twice if there are more than two runs.
        made = max(self._group_sizes)
        group = (1 + self.unresolved) * made
        return (bundle + group * (1 - 1 / len(self.sources)) + max(bundle, made + group)) * self.row_bytes

    @property
    def _group_sizes(self) -> list[float]:
        """Keys in each group."""
        return [sum(self.chunks[first:last]) / parts for first, last, _, parts in self.groups]

    @property
    def _longest(self) -> float:
        """Keys of the longest run."""
        return max(self.run_sizes, default=0)


def describe(plan: Plan) -> Projection:
    """What the plan decides and takes."""
    order = plan.order
    path = (
        f"radix: {plan.radix_bits}-bit digit histograms, column-major scan"
        if plan.radix_bits
        else f"merge: {'counts before drawn keys' if plan.candidates else 'ranks of regular samples'}"
    )
    if len(plan.groups) == 1:
        path = "one group of all keys: nothing is cut, so the method has no effect"
    direction = "descending" if order.descending else "ascending"
    if order.less is not None:
        direction = "by a comparison"
    rows = {
        "keys": f"{order.kind}, {direction}{', stable' if order.stable else ''}",
        "path": path,
        "samples": f"{plan.samples:,} keys a run" + f", counts before {plan.candidates:,}" * bool(plan.candidates),
        "table": f"at most {format_size(plan.table_bytes)} for a task, {plan.unresolved:.1%} of the keys unresolved",
        "chunks": f"{len(plan.sizes):,} in{_runs_of(plan)}, {len(plan.chunks):,} out"
        + ("" if plan.known else ", sizes unknown"),
        "groups": f"{len(plan.groups):,} of at most {format_size(plan.group_bytes)}",
        "exchange": plan.exchange + (_bundles_of(plan) if plan.sources else ""),
    }
    if plan.sorts_last:
        del rows["samples"]
        rows["path"] = "splitters from samples: chunks are divided there, and each group is sorted once"
        rows["table"] = f"at most {format_size(plan.table_bytes)}"
    if plan.exchange == "join":
        del rows["samples"], rows["table"], rows["groups"]
        rows["path"] = "one sort of all chunks: nothing is cut, so the method has no effect"
        rows["exchange"] = "join: the chunks share one memory, which holds the sort"
    if plan.staging_memory is not None:
        device = format_size(plan.staging_memory)
        rows["step"] = f"{format_size(plan.step_bytes)} of the GPU's {device}, several side by side"
    moved = sum(plan.sizes) * plan.row_bytes
    counted = [] if plan.exchange == "join" else [("count", float(plan.table_bytes)), (plan.exchange, moved)]
    scope: Scope = "process" if plan.exchange in ("join", "gang") else "thread"
    over = plan.turns is not None and not plan.turns.fits
    notes = (f"exchange {plan.exchange} in place of {plan.instead_of}",) * bool(plan.instead_of)
    notes += ("over half of the memory is kept, and the GPU's pool may run out",) * over
    return Projection(
        rows, plan.projected_bytes, scope, plan.exchange, (("sort chunks", moved), *counted), over=over, notes=notes
    )


def _runs_of(plan: Plan) -> str:
    return (
        f" as {format_count(len(plan.runs), 'run')}"
        if plan.exchange != "join" and len(plan.runs) < len(plan.sizes)
        else ""
    )


def _bundles_of(plan: Plan) -> str:
    if plan.exchange == "gang":
        runs = format_count(len(plan.runs), "run")
        return f": {len(plan.sources):,} members sort {runs}, exchange and merge, in one task each"
    first = ", all cut before a group is finished" if plan.cut_first else ""
    # On several devices there is no join.
    instead = f": a join would take {format_size(plan.joined_bytes)} beside the input" if plan.joined_bytes else ""
    bundles, runs = format_count(len(plan.sources), "bundle"), format_count(len(plan.runs), "run")
    return f", of {bundles} of {runs}{first}{instead}"
