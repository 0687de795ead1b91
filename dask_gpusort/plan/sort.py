"""The plan of a sort: all decisions, made before anything runs, from shapes, dtypes and the scheduler in use.

Its cost, with n keys of w bytes (with companions) in P sorted runs, G groups, s samples a run in entries of e bytes,
and c candidates, before which all runs count their keys if P and G are large::

    stage      bytes read and written           besides the keys
    sort       2 n w                            P tasks
    count      P s e, and 8 P c                 one task reads P summaries, or P tasks count, and a tree adds up
    exchange   0, 2 n w or 4 n w                messages: none (gather), bundles x G (tasks, device, gang)
                                                or at most (workers - 1) G (runs)
    merge      2 n w                            P G pieces, G tasks
    output     0, views of groups               output chunks

Unresolved keys are sent to two groups (at most the share `SortPlan.unresolved`); they are counted once here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..chunk.memory import step_bytes
from ..order import Order
from . import counting
from .memory import Turns, tied_bytes
from .plan import Plan, StepBytes
from .terms import BY_TASKS, Exchange, Runs, Size, format_count, format_size

#: Reads and writes of every key between the sort of its chunk and the merge of its group: views of the sorted chunks,
#: shards written to disk and read back, or shards in memory.
CROSSINGS: dict[Exchange, int] = {"join": 0, "gather": 0, "runs": 4, "tasks": 2, "device": 2, "gang": 2}
#: Why one task sorts all.
SHARED = "the chunks share one memory, which holds the sort"
#: Bytes of a kept run's handle, in the task that lists all.
HANDLE_BYTES = 512
#: Seconds of a thread for a small slice of a run in a file; below so many bytes, and from so many slices on, a plan
#: tells them: a sort takes some 10 s a GiB.
SLICE_SECONDS, SMALL_SLICE, MANY_SLICES = 40e-6, 1 << 14, 1 << 18
#: Seconds of the scheduler for a task, and from how many on, in all, a plan tells them.
TASK_SECONDS, LONG_SECONDS = 0.6e-3, 30.0


@dataclass(frozen=True)
class SortPlan:
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
    key_bytes: tuple[float, float]  # for each key, that the sort of a run takes, and the merge of a group
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
    may_tie: bool = False  # whether keys that tie take more, on the host (see `memory.tied_bytes`)
    on_devices: bool = False  # whether the chunks are on GPUs

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
    def messages(self) -> int:
        """Separate messages that the exchange sends from task to task; of runs, the most that it may send."""
        senders = len(self.sources)
        if self.exchange == "runs":  # those of one worker come together; on the same host files need none
            senders = min(len(self.runs), self.processes - 1) if self.processes else len(self.runs)
        return senders * len(self.groups)

    @property
    def moved_bytes(self) -> float:
        """Bytes read and written by all tasks, nan if sizes are unknown."""
        return (4 + CROSSINGS[self.exchange]) * sum(self.sizes) * self.row_bytes

    @property
    def counted_bytes(self) -> float:
        """Most bytes that the counting tasks receive, in all rounds."""
        if not self.candidates:
            return self.table_bytes
        runs = len(self.runs)
        drawn = runs * self.samples * (self.order.transit_dtype.itemsize + counting.ENTRY_BYTES)
        return drawn + (runs + counting.count_sums(runs)) * 8 * self.candidates

    @property
    def steps(self) -> tuple[StepBytes, ...]:
        """Bytes of one thread: copies of the longest run, and of a group with its unresolved keys."""
        # Of a join, of an exchange by tasks on GPUs, and of a gang: the peak of a GPU, beside an input that is kept.
        if self.exchange == "join":
            return (StepBytes("sort-local", 0, 0, stays=self.joined_bytes),)
        bundles = [sum(self.run_sizes[run] for run in source) for source in self.sources]
        if self.turns is not None:
            divided = max((self.chunks[first] for first, _, _, parts in self.groups if parts > 1), default=0)
            groups = [(1 + self.unresolved) * size for size in self._group_sizes]
            most = self.turns.peak(bundles, groups, divided, cut_first=self.cut_first)
            return (StepBytes("all turns", 0, 0, stays=most),)
        if self.exchange == "gang":
            return (StepBytes("sort-gang", 0, 0, stays=self._member_bytes(max(bundles))),)
        group = (1 + self.unresolved) * max(self._group_sizes, default=0)
        return (
            StepBytes("sort-local", self._longest, self.row_bytes, 0, self.key_bytes[0], self._tied(self._longest)),
            StepBytes("sort-merge", group, self.row_bytes, 0, self.key_bytes[1], self._tied(group)),
        )

    @property
    def stated(self) -> Plan:
        """What is decided, and what it takes."""
        moved, joins = sum(self.sizes) * self.row_bytes, self.exchange == "join"
        over = self.turns is not None and not self.turns.fits
        counted = [] if joins else [("count", float(self.table_bytes)), (self.exchange, moved)]
        notes = (f"exchange {self.exchange} in place of {self.instead_of}",) * bool(self.instead_of)
        notes += ("over half of the memory is kept, and the GPU's pool may run out",) * over
        notes += self._many
        return Plan(
            given={"keys": f"{self.order.kind}, {self._direction}{', stable' if self.order.stable else ''}"},
            more=self._decisions,
            driver=self.exchange,
            steps=self.steps,
            scope="process" if self.exchange in ("join", "gang") else "thread",
            stages=(("sort chunks", moved), *counted),
            over=over,
            notes=notes,
        )

    @property
    def _many(self) -> tuple[str, ...]:
        """What is so many of kept runs that it takes long."""
        slices, runs, groups = len(self.runs) * len(self.groups), len(self.runs), len(self.groups)
        # Those of the source too.
        tasks = len(self.sizes) + len(self.chunks) + runs * (1 + bool(self.candidates))
        tasks += groups * (groups != len(self.chunks))
        size, found = sum(self.sizes) * self.row_bytes / max(slices, 1), list[str]()
        if slices > MANY_SLICES and size < SMALL_SLICE:
            seconds = f"{SLICE_SECONDS * 2**30 / max(size, 1):.1f} s of a thread a GiB"
            found.append(f"{slices:,} slices of {format_size(size)} take some {seconds}: use larger chunks")
        if tasks * TASK_SECONDS > LONG_SECONDS:
            found.append(f"its tasks take some {tasks * TASK_SECONDS:,.0f} s of the scheduler: use larger chunks")
        return tuple(found) if self.exchange == "runs" else ()

    @property
    def step_bytes(self) -> float:
        """Bytes of the GPU that one step of a staged sort takes at its peak, nan if unknown."""
        largest = max((1 + self.unresolved) * self.group_bytes / self.row_bytes, self._longest)
        return step_bytes(self.order, largest, self.row_bytes - self.order.transit_dtype.itemsize)

    def _tied(self, rows: float) -> float:
        on_host = not self.on_devices and self.staging_memory is None
        return tied_bytes(rows, self.order.transit_dtype.itemsize) if self.may_tie and on_host else 0

    def _member_bytes(self, bundle: float) -> float:
        """Count peak bytes of a member of a gang with so many keys."""
        # It has its sorted keys, which are kept until all shards have arrived; shards that are copied before they are
        # sent, at most as many bytes; and what others send. When these are freed, the merge needs the outputs, and the
        # group twice if there are more than two runs.
        made = max(self._group_sizes)
        group = (1 + self.unresolved) * made
        arrives = group * (1 - 1 / len(self.sources))
        if self.on_devices:
            return (bundle + arrives + max(bundle, made + group)) * self.row_bytes
        # On the host, the last run is sorted beside the others. The merge joins what has arrived, and others may not
        # have fetched their shards yet. Chunks are copied out of a merged group.
        run, merged = self.key_bytes
        sorts = (bundle - self._longest) * self.row_bytes + self._longest * run + self._tied(self._longest)
        unsent = bundle * (1 - 1 / len(self.sources))
        merges = max(group * merged + self._tied(group), 2 * made * self.row_bytes)
        return max(sorts, (2 * bundle + arrives) * self.row_bytes, (unsent + group) * self.row_bytes + merges)

    @property
    def _group_sizes(self) -> list[float]:
        """Keys in each group."""
        return [sum(self.chunks[first:last]) / parts for first, last, _, parts in self.groups]

    @property
    def _longest(self) -> float:
        """Keys of the longest run."""
        return max(self.run_sizes, default=0)

    @property
    def _direction(self) -> str:
        if self.order.less is not None:
            return "by a comparison"
        return "descending" if self.order.descending else "ascending"

    @property
    def _decisions(self) -> dict[str, str]:
        """Decisions, by name; empty ones are left out."""
        joins, table = self.exchange == "join", f"at most {format_size(self.table_bytes)}"
        counts = f", counts before {self.candidates:,}" * bool(self.candidates)
        joined = f" as {format_count(len(self.runs), 'run')}" * (not joins and len(self.runs) < len(self.sizes))
        unknown = "" if self.known else ", sizes unknown"
        sizes = f"{len(self.sizes):,} in{joined}, {len(self.chunks):,} out{unknown}"
        for_task = "" if self.sorts_last else f" for a task, {self.unresolved:.1%} of the keys unresolved"
        device = format_size(self.staging_memory or 0)
        messages = f"{'at most ' * (self.exchange == 'runs')}{format_count(self.messages, 'message')}"
        moved = "an unknown number of bytes" if math.isnan(self.moved_bytes) else format_size(self.moved_bytes)
        return {
            "path": self._path,
            "samples": "" if joins or self.sorts_last else f"{self.samples:,} keys a run{counts}",
            "table": "" if joins else table + for_task,
            "chunks": sizes,
            "groups": "" if joins else f"{len(self.groups):,} of at most {format_size(self.group_bytes)}",
            "exchange": self.exchange + (self._bundles if self.sources else f": {SHARED}" * joins),
            "step": ""
            if self.staging_memory is None
            else f"{format_size(self.step_bytes)} of the GPU's {device}, several side by side",
            "cost": f"{moved} read and written, {messages}, {format_size(self.counted_bytes)} counted",
        }

    @property
    def _path(self) -> str:
        if self.exchange == "join":
            return "one sort of all chunks: nothing is cut, so the method has no effect"
        if self.sorts_last:
            return "splitters from samples: chunks are divided there, and each group is sorted once"
        if len(self.groups) == 1:
            return "one group of all keys: nothing is cut, so the method has no effect"
        if self.radix_bits:
            return f"radix: {self.radix_bits}-bit digit histograms, column-major scan"
        return f"merge: {'counts before drawn keys' if self.candidates else 'ranks of regular samples'}"

    @property
    def _bundles(self) -> str:
        runs = format_count(len(self.runs), "run")
        if self.exchange == "gang":
            return f": {len(self.sources):,} members sort {runs}, exchange and merge, in one task each"
        first = ", all cut before a group is finished" if self.cut_first else ""
        # On several devices there is no join.
        join = f": a join would take {format_size(self.joined_bytes)} beside the input" if self.joined_bytes else ""
        return f", of {format_count(len(self.sources), 'bundle')} of {runs}{first}{join}"
