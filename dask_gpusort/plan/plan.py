"""The plan of a sort: all decisions, made before anything runs, from shapes, dtypes and the scheduler in use."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dask.utils import format_bytes

from ..chunk.device_memory import step_bytes
from ..order import Order
from ..plan import counting
from .gang import count_pieces, gang_bundles, lay_out_members, member_chunks
from .groups import GROUPS_PER_THREAD, count_groups, exceeds_exchange, groups_of_threads, lay_out_groups
from .join import join_bytes
from .runs import bundle_chunks, join_chunks, join_small_chunks
from .staging import count_staged_groups
from .terms import BY_BUNDLES, BY_TASKS, Exchange, InputChunks, Path, Runs, Size, Workers, chunks_of_workers
from .turns import FETCHED_GROUPS, Turns, make_turns

#: Most runs for which each task of an exchange by tasks finds the cuts itself: one task less on the critical path.
SELF_SCANNED_RUNS = 16
#: Runs that one task counts on threads. A task costs about 0.3 ms. It divides `counting.FAN_IN`, because whole bundles
#: are added up together.
BUNDLE_RUNS = 16
#: Least tasks of a round of counting on threads, if there are as many runs: the last runs to be sorted are counted
#: while no thread sorts.
COUNTING_TASKS = 16


@dataclass(frozen=True)
class Plan:
    """How one array is sorted along one chunked axis.

    Attributes
    ----------
    order : Order
    path : {"radix", "merge"}
        Whether digit histograms or ranks of samples alone give the first brackets.
    exchange : {"join", "gather", "p2p", "tasks", "device", "gang"}
    sizes : tuple of int
        Keys in each input chunk, nan where unknown.
    chunks : tuple of int
        Keys in each output chunk, nan where unknown.
    groups : tuple of (first output chunk, last + 1, part, parts)
        Contents of each group: some output chunks, or one of several equal parts of one.
    radix_bits : int
        Bits of the digits counted in each run, 0 on the merge path.
    samples, kept_samples : int
        Keys in the summary of a run in one round; and keys kept when summaries are added up.
    fan_in : int
        Summaries that one counting task adds up.
    rounds : int
        Rounds that bracket the cuts, before the one that counts the keys up to the ends of the brackets.
    row_bytes : int
        Bytes of one key in transit and its companions.
    runs : tuple of tuples of int
        Input chunks that are sorted as one: every chunk once, in the order of the runs' first chunks. From here on a
        run plays the role of a chunk. They are neighbours, except in an exchange by tasks (see `runs.join_chunks`).
    sources : tuple of tuples of int
        Runs that one task sorts, for an exchange by tasks or a gang; else empty.
    cut_first : bool
        Whether an exchange by tasks cuts all runs before it finishes any group (see `turns.Turns.cuts_first`).
    joined_bytes : float
        Bytes that a join takes beside its input (see `join.join_bytes`); 0 if the chunks are on several workers.
    turns : Turns or None
        Memory of an exchange on GPUs of known size.
    bundle_workers : tuple of str or int
        The worker of each bundle on several such GPUs: its address if it holds the chunks, else a number, modulo the
        number of workers. In other exchanges Dask chooses the worker.
    staging_memory : int or None
        As in `Workers`.
    """

    order: Order
    path: Path
    exchange: Exchange
    sizes: tuple[Size, ...]
    chunks: tuple[Size, ...]
    groups: tuple[tuple[int, int, int, int], ...]
    radix_bits: int
    samples: int
    kept_samples: int
    fan_in: int
    rounds: int
    row_bytes: int
    runs: Runs
    sources: Runs = ()
    cut_first: bool = False
    joined_bytes: float = 0
    turns: Turns | None = None
    bundle_workers: tuple[str | int, ...] = ()
    staging_memory: int | None = None

    @property
    def staged(self) -> bool:
        """Whether chunks and groups of the host are sorted on a GPU."""
        return self.staging_memory is not None

    @property
    def by_tasks(self) -> bool:
        """Whether the exchange has the graph of `BY_TASKS`."""
        return self.exchange in BY_TASKS

    @property
    def by_bundles(self) -> bool:
        """Whether one task sorts a bundle, and one round of counting bounds the cuts."""
        return self.exchange in BY_BUNDLES

    @property
    def member_groups(self) -> tuple[range, ...]:
        """The groups that each member of a gang finishes."""
        firsts = [first for first, *_ in self.groups]
        return tuple(range(*(bisect_left(firsts, end) for end in (own.start, own.stop))) for own in self.member_chunks)

    @property
    def member_chunks(self) -> tuple[range, ...]:
        """The output chunks that each member of a gang makes."""
        return member_chunks(self.chunks, len(self.sources))

    @property
    def members_are_chunks(self) -> bool:
        """Whether each member of a gang makes one output chunk."""
        return all(len(own) == 1 for own in self.member_chunks)

    @property
    def known(self) -> bool:
        """Whether all chunk sizes are known."""
        return not any(map(math.isnan, (*self.sizes, *self.chunks)))

    @property
    def run_sizes(self) -> tuple[Size, ...]:
        """Keys in each run, nan where unknown."""
        return _run_sizes(self.runs, self.sizes)

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Ranges of runs that one task counts: of several runs only if that moves none of them."""
        count, width = len(self.runs), min(BUNDLE_RUNS, self.fan_in) if self.exchange == "gather" else 1
        while width % 2 == 0 and count < COUNTING_TASKS * width:
            width //= 2
        return tuple((first, min(first + width, count)) for first in range(0, count, width))

    @property
    def tree(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """How summaries are added up (see `counting_tree`)."""
        return counting.counting_tree(len(self.runs), self.fan_in)

    @property
    def unresolved(self) -> float:
        """Largest share of the keys that is sent to two groups."""
        if len(self.groups) == 1:
            return 0.0
        if self.by_bundles:
            return counting.unresolved_share(len(self.groups), self.samples, 1, 0)
        dropped = len(self.tree) - 1
        return counting.unresolved_share(len(self.groups), self.samples, self.kept_samples, dropped) ** self.rounds

    @property
    def table_bytes(self) -> int:
        """Bytes of the largest table that one task of the counting receives."""
        runs, groups = len(self.runs), len(self.groups)
        entry = self.order.transit_dtype.itemsize + counting.ENTRY_BYTES
        if self.exchange == "join":
            return 0
        if self.by_bundles:
            return runs * self.samples * entry
        summaries = min(runs, self.fan_in)
        samples = self.samples if runs <= self.fan_in else max(self.samples, self.kept_samples)
        received = summaries * (samples + counting.ENDS_PER_GROUP * groups) * entry
        listed = runs * counting.CUT_BYTES * (groups + 1) if self.exchange == "gather" else 0
        return max(received + 8 * runs, listed)

    @property
    def scans(self) -> bool:
        """Whether one task of an exchange by tasks finds the cuts for all others."""
        return not self.known or len(self.runs) > SELF_SCANNED_RUNS

    @property
    def whole_chunks(self) -> dict[int, int]:
        """In an exchange by tasks, each group that is exactly one output chunk, and the number of that chunk."""
        if not self.by_tasks:
            return {}
        groups = enumerate(self.groups)
        return {group: first for group, (first, last, _, parts) in groups if last - first == parts == 1}

    @property
    def turn_size(self) -> int:
        """Groups of a turn: one for each GPU, if their shards wait for an earlier turn to be finished; else all."""
        several = self.cut_first and self.turns is not None and self.turns.devices > 1
        return self.turns.devices if several and self.turns is not None else len(self.groups)

    def awaited_by(self, group: int) -> range:
        """The groups that are finished before the shards of a group move, so that few shards are held twice."""
        width = self.turn_size
        first = (group // width - FETCHED_GROUPS) * width
        return range(max(first, 0), max(first + width, 0))

    @property
    def awaited(self) -> range:
        """The groups that other groups wait for."""
        return range(self.awaited_by(len(self.groups) - 1).stop if self.groups else 0)

    @property
    def num_tasks(self) -> int:
        """Tasks of a sort with one output array, without those that make the input."""
        runs, groups = len(self.runs), len(self.groups)
        if self.exchange == "join":
            return 1 + len(self.chunks)
        if self.exchange == "gang":
            members = 0 if self.members_are_chunks else len(self.sources)
            joined = members if not all(self.member_chunks) else members and not self.known
            return members + joined + len(self.chunks)
        if self.by_tasks:
            merges = groups - len(self.whole_chunks)
            bundles = len(self.sources) * (2 + groups + self.cut_first)
            return bundles + self.scans + merges + len(self.awaited) + len(self.chunks)
        exchange = {
            "gather": 1 + groups,
            "p2p": runs + 1 + groups,
        }[self.exchange]
        nodes = sum(map(len, self.tree))
        return runs + (1 + self.rounds) * (len(self.counted) + nodes) + nodes + exchange + len(self.chunks)

    @property
    def group_bytes(self) -> float:
        """Bytes of the largest group's keys and companions, nan if unknown."""
        return max(self._group_sizes, default=0) * self.row_bytes

    @property
    def projected_bytes(self) -> float:
        """Peak bytes of one thread: three copies of a group with its unresolved keys, or two of the longest run.

        Of a join, of an exchange by tasks on GPUs, and of a gang: the peak of a GPU, beside an input that is kept.
        """
        if self.exchange == "join":
            return self.joined_bytes
        bundles = [sum(self.run_sizes[run] for run in source) for source in self.sources]
        if self.turns is not None:
            divided = max((self.chunks[first] for first, _, _, parts in self.groups if parts > 1), default=0)
            groups = [(1 + self.unresolved) * size for size in self._group_sizes]
            return self.turns.peak(bundles, groups, divided, cut_first=self.cut_first)
        if self.exchange == "gang":
            return self._member_bytes(max(bundles))
        return max(3 * (1 + self.unresolved) * self.group_bytes, 2 * self._longest * self.row_bytes)

    @property
    def step_bytes(self) -> float:
        """Bytes of the GPU that one step of a staged sort takes at its peak, nan if unknown."""
        largest = max((1 + self.unresolved) * self.group_bytes / self.row_bytes, self._longest)
        return step_bytes(self.order, largest, self.row_bytes - self.order.transit_dtype.itemsize)

    def _member_bytes(self, bundle: float) -> float:
        """Peak bytes of a member of a gang with so many keys.

        It has its sorted keys, which are kept until all shards have arrived; shards that are copied before they are
        sent, at most as many bytes; and what others send. A merge needs the outputs, and a group twice if there are
        more than two runs. Only the merge of a single group waits until the sent shards are freed.
        """
        made = max(sum(self.chunks[own.start : own.stop]) for own in self.member_chunks)
        received = (1 + self.unresolved) * made * (1 - 1 / len(self.sources))
        merged = made + (1 + self.unresolved) * self.group_bytes / self.row_bytes
        if max(map(len, self.member_groups)) > 1:
            return (2 * bundle + received + merged) * self.row_bytes
        return (bundle + received + max(bundle, merged)) * self.row_bytes

    @property
    def _group_sizes(self) -> list[float]:
        """Keys in each group."""
        return [sum(self.chunks[first:last]) / parts for first, last, _, parts in self.groups]

    @property
    def _longest(self) -> float:
        """Keys of the longest run."""
        return max(self.run_sizes, default=0)


@dataclass(frozen=True)
class _Counting:
    """The fields of `Plan` about the counting."""

    path: Path
    radix_bits: int
    samples: int
    kept_samples: int
    rounds: int


def make_plan(
    order: Order,
    given: InputChunks,
    chunks: Sequence[Size],
    *,
    method: str,
    exchange: Exchange,
    workers: Workers,
    groups: int | None,
) -> Plan:
    """Decide how an array is sorted.

    Parameters
    ----------
    order : Order
    given : InputChunks
    chunks : sequence of int
        Keys in each output chunk, nan where unknown.
    method : {"auto", "radix", "merge"}
    exchange : {"join", "gather", "p2p", "tasks", "device", "gang"}
    workers : Workers
    groups : int or None
        Number of exchange groups asked for; None chooses it.

    Returns
    -------
    Plan
    """
    # Where the exchange of devices is asked for, NumPy chunks are exchanged as CuPy chunks are.
    workers = replace(workers, devices=workers.devices or exchange == "device")
    path = counting.choose_path(order, method)
    row_bytes = order.transit_dtype.itemsize + given.companion_bytes
    total = sum(given.sizes) * row_bytes
    by_tasks, by_bundles, joins = exchange in BY_TASKS, exchange in BY_BUNDLES, exchange == "join"
    turns = _turns_of(order, given, exchange, workers)
    runs, sources = _runs_and_sources(order, given, exchange, row_bytes, workers, turns)
    if exchange == "gang":
        members = len(sources)
        pieces = math.ceil(groups / members) if groups else count_pieces(total, members, workers)
        laid_out = lay_out_members(chunks, members, pieces)
    else:
        if joins:
            groups = 1
        elif groups is None:
            groups = _choose_groups(order, exchange, total, given, len(runs), chunks, workers)
            if turns is not None:
                groups = max(groups, turns.num_groups(len(sources), len(chunks)))
        laid_out = lay_out_groups(chunks, groups)
    if by_bundles:
        # One round of ranks: each group resolves the remaining keys when it is finished.
        counts = _Counting("merge", 0, counting.choose_task_samples(len(runs), len(laid_out)), 0, 0)
    elif joins:
        counts = _Counting(path, 0, 0, 0, 0)
    else:
        counts = _choose_counting(order, path, _run_sizes(runs, given.sizes), len(laid_out))
    return Plan(
        order=order,
        path=counts.path,
        exchange=exchange,
        sizes=tuple(given.sizes),
        chunks=tuple(chunks),
        groups=laid_out,
        radix_bits=counts.radix_bits,
        samples=counts.samples,
        kept_samples=counts.kept_samples,
        fan_in=counting.FAN_IN,
        rounds=counts.rounds,
        row_bytes=row_bytes,
        runs=runs,
        sources=sources,
        cut_first=by_tasks and cuts_first(total, workers, turns, len(sources), len(laid_out)),
        joined_bytes=join_bytes(order, given) if joins or workers.threads == 1 else 0,
        turns=turns,
        bundle_workers=_bundle_workers(given, tuple(runs[source[0]] for source in sources), turns),
        staging_memory=workers.staging_memory,
    )


def _turns_of(order: Order, given: InputChunks, exchange: Exchange, workers: Workers) -> Turns | None:
    on_devices = exchange in BY_TASKS and workers.devices and workers.staging_memory is None
    if not on_devices or workers.memory is None or any(map(math.isnan, given.sizes)):
        return None
    return make_turns(order, given, workers.memory, workers.threads)


def _bundle_workers(given: InputChunks, first_runs: Runs, turns: Turns | None) -> tuple[str | int, ...]:
    if turns is None or turns.devices == 1:
        return ()
    held = bool(chunks_of_workers(given))
    return tuple((given.workers[chunks[0]] if held else None) or number for number, chunks in enumerate(first_runs))


def cuts_first(total_bytes: float, workers: Workers, turns: Turns | None, num_bundles: int, num_groups: int) -> bool:
    """`Plan.cut_first` of an exchange by tasks."""
    if turns is None:
        return exceeds_exchange(total_bytes, workers)
    return turns.cuts_first(num_bundles, turns.devices * turns.keys / max(1, num_groups))


def _choose_groups(
    order: Order,
    exchange: Exchange,
    total_bytes: float,
    given: InputChunks,
    num_runs: int,
    chunks: Sequence[Size],
    workers: Workers,
) -> int:
    if math.isnan(total_bytes):
        unequal = GROUPS_PER_THREAD * workers.threads
        return min(len(chunks), groups_of_threads(exchange, workers) if exchange in BY_TASKS else unequal)
    if workers.staging_memory is not None:
        return count_staged_groups(order, given, num_runs, chunks, workers.staging_memory)
    groups = count_groups(exchange, total_bytes, num_runs, workers)
    if exchange == "p2p" or (exchange == "tasks" and not workers.devices):
        return groups
    # The parts of an output chunk are copied once more, which pays only if threads or GPUs would lack groups otherwise.
    return min(groups, max(len(chunks), groups_of_threads(exchange, workers)))


def _choose_counting(order: Order, path: Path, sizes: Sequence[Size], num_groups: int) -> _Counting:
    dropped = len(counting.counting_tree(len(sizes), counting.FAN_IN)) - 1
    kept = counting.choose_kept_samples(order, len(sizes), num_groups, dropped)
    samples = counting.choose_samples(sizes, num_groups, kept)
    rounds = 0
    if num_groups > 1:
        rounds = counting.choose_rounds(counting.unresolved_share(num_groups, samples, kept, dropped))
    return _Counting(path, counting.choose_radix_bits(order, path, samples), samples, kept, rounds)


def _run_sizes(runs: Runs, sizes: Sequence[Size]) -> tuple[Size, ...]:
    return tuple(sum(sizes[chunk] for chunk in run) for run in runs)


def _runs_and_sources(
    order: Order, given: InputChunks, exchange: Exchange, row_bytes: int, workers: Workers, turns: Turns | None
) -> tuple[Runs, Runs]:
    """`Plan.runs` and `Plan.sources`; in an exchange by tasks each presorted or staged chunk is a run."""
    if exchange == "join":
        return (tuple(range(len(given.sizes))),), ()
    if exchange not in BY_BUNDLES:
        return join_small_chunks(given, row_bytes, exchange, workers), ()
    gang = exchange == "gang"
    bundles = gang_bundles(given, workers) if gang else bundle_chunks(given, row_bytes, workers, turns)
    if given.presorted or workers.staging_memory is not None:
        return tuple((chunk,) for chunk in range(len(given.sizes))), bundles
    interchangeable = order.coded and not order.has_ties and not given.companion_bytes
    return join_chunks(bundles, given.sizes, interchangeable)


def describe(plan: Plan) -> str:
    """The plan as text, one decision a line."""
    order = plan.order
    path = (
        f"radix: {plan.radix_bits}-bit digit histograms, column-major scan"
        if plan.path == "radix"
        else "merge: ranks of regular samples"
    )
    direction = "descending" if order.descending else "ascending"
    if order.less is not None:
        direction = "by a comparison"
    rows = {
        "keys": f"{order.kind}, {direction}{', stable' if order.stable else ''}",
        "path": path,
        "rounds": f"{plan.rounds} + 1 of counting, {plan.samples:,} keys a run in each",
        "table": f"at most {format_bytes(plan.table_bytes)} for a task, {plan.unresolved:.1%} of the keys unresolved",
        "chunks": f"{len(plan.sizes):,} in{_runs_of(plan)}, {len(plan.chunks):,} out"
        + ("" if plan.known else ", sizes unknown"),
        "groups": f"{len(plan.groups):,} of at most {_bytes(plan.group_bytes)}",
        "exchange": plan.exchange + (_bundles_of(plan) if plan.sources else ""),
        "tasks": f"{plan.num_tasks:,}",
        "peak": f"{_bytes(plan.projected_bytes)} for each thread of a worker",
    }
    if plan.exchange == "join":
        del rows["rounds"], rows["table"], rows["groups"]
        rows["path"] = "one sort of all chunks"
        rows["exchange"] = "join: the chunks share one memory, which holds the sort"
        rows["peak"] = f"{_bytes(plan.projected_bytes)} beside the input"
    if plan.turns is not None:
        without = ", without the input" if plan.turns.held else ""
        alone = plan.turns.devices == 1
        whose = "the GPU's" if alone else "each GPU's"
        rows["peak"] = f"{_bytes(plan.projected_bytes)} of {whose} {_bytes(plan.turns.memory)}{without}"
        if not plan.turns.fits:
            # On a cluster NumPy chunks are exchanged through disk.
            remedy = "NumPy chunks and device='cuda'" if alone else "more GPUs, or NumPy chunks"
            rows["peak"] += f"; over half of it is kept, and the pool may run out: use {remedy}"
    if plan.staging_memory is not None:
        rows["step"] = f"{_bytes(plan.step_bytes)} of the GPU's {_bytes(plan.staging_memory)}, several side by side"
    return "\n".join(f"{name:<9} {text}" for name, text in rows.items())


def _runs_of(plan: Plan) -> str:
    return f" as {len(plan.runs):,} runs" if plan.exchange != "join" and len(plan.runs) < len(plan.sizes) else ""


def _bundles_of(plan: Plan) -> str:
    if plan.exchange == "gang":
        return f": {len(plan.sources):,} members sort {len(plan.runs):,} runs, exchange and merge, in one task each"
    first = ", all cut before a group is finished" if plan.cut_first else ""
    # On several devices there is no join.
    instead = f": a join would take {_bytes(plan.joined_bytes)} beside the input" if plan.joined_bytes else ""
    return f", of {len(plan.sources):,} bundles of {len(plan.runs):,} runs{first}{instead}"


def _bytes(number: float) -> str:
    return "an unknown size" if math.isnan(number) else format_bytes(int(number))
