"""The plan of a sort: everything decided before anything runs, from shapes, dtypes and the scheduler in use alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dask.utils import format_bytes

from ..order import Order
from ..plan import counting
from .groups import GROUPS_PER_THREAD, bundle_chunks, count_groups, holds_apart, join_chunks, lay_out_groups
from .terms import Exchange, Path, Size, Workers

#: Runs up to which each task of the device exchange finds the cuts itself, which saves a step from task to task.
SELF_SCANNED_RUNS = 16
#: Sorted chunks that one task of the "tasks" exchange joins, or counts on threads. A task costs about 0.3 ms. Whole
#: bundles are added up together, so it divides `counting.FAN_IN`.
BUNDLE_CHUNKS = 16


@dataclass(frozen=True)
class Plan:
    """How one array is sorted along one chunked axis.

    Attributes
    ----------
    order : Order
    path : {"radix", "merge"}
        Whether the first brackets come from digit histograms or from ranks of samples alone.
    exchange : {"gather", "p2p", "tasks", "device"}
    sizes : tuple of int
        Keys in each input chunk, nan where unknown.
    chunks : tuple of int
        Keys in each output chunk, nan where unknown.
    groups : tuple of (first output chunk, last + 1, part, parts)
        What each group holds: some output chunks, or one of several equal parts of one.
    radix_bits : int
        Digits counted in each chunk, 0 on the merge path.
    samples, kept_samples : int
        Keys with which a chunk, or a run of several, answers in a round, and those that are kept of several answers.
    fan_in : int
        Answers that one task of the counting adds up.
    rounds : int
        Rounds that bracket the cuts, before the one that counts between which ends of the brackets they fall.
    row_bytes : int
        Bytes of one key in transit and its companions.
    runs : tuple of tuples of int
        Input chunks that are sorted as one, for the device exchange (see `groups.join_chunks`); else empty.
    sources : tuple of tuples of int
        Runs that one task sorts, for the device exchange; else empty.
    apart : bool
        Whether the device exchange cuts all runs up before it finishes any group (see `groups.holds_apart`).
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
    runs: tuple[tuple[int, ...], ...] = ()
    sources: tuple[tuple[int, ...], ...] = ()
    apart: bool = False

    @property
    def known(self) -> bool:
        """Whether all chunk sizes are known."""
        return not any(map(math.isnan, (*self.sizes, *self.chunks)))

    @property
    def bundles(self) -> tuple[tuple[int, int], ...]:
        """Ranges of input chunks that one task may hold together."""
        count, width = len(self.sizes), min(BUNDLE_CHUNKS, self.fan_in)
        return tuple((first, min(first + width, count)) for first in range(0, count, width))

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Ranges of input chunks that one task counts: several where none has to move for it."""
        return self.bundles if self.exchange == "gather" else tuple((a, a + 1) for a in range(len(self.sizes)))

    @property
    def tree(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """How answers are added up (see `counting_tree`)."""
        return counting.counting_tree(len(self.sizes), self.fan_in)

    @property
    def in_question(self) -> float:
        """Of the keys, how many at most are sent to two groups."""
        if len(self.groups) == 1:
            return 0.0
        if self.exchange == "device":
            return counting.left_in_question(len(self.groups), self.samples, 1, 0)
        dropped = len(self.tree) - 1
        return counting.left_in_question(len(self.groups), self.samples, self.kept_samples, dropped) ** self.rounds

    @property
    def table_bytes(self) -> int:
        """Bytes of the largest table that one task of the counting receives."""
        chunks, groups = len(self.sizes), len(self.groups)
        entry = self.order.transit_dtype.itemsize + counting.ENTRY_BYTES
        if self.exchange == "device":
            return len(self.runs) * self.samples * entry
        answers = min(chunks, self.fan_in)
        samples = self.samples if chunks <= self.fan_in else max(self.samples, self.kept_samples)
        told = answers * (samples + counting.ENDS_PER_GROUP * groups) * entry
        listed = chunks * counting.CUT_BYTES * (groups + 1) if self.exchange == "gather" else 0
        return max(told + 8 * chunks, listed)

    @property
    def scans(self) -> bool:
        """Whether the device exchange has a task that finds the cuts for all others."""
        return not self.known or len(self.runs) > SELF_SCANNED_RUNS

    @property
    def whole_chunks(self) -> dict[int, int]:
        """Groups that are one output chunk each, and which, in the device exchange."""
        if self.exchange != "device":
            return {}
        groups = enumerate(self.groups)
        return {group: first for group, (first, last, _, parts) in groups if last - first == parts == 1}

    @property
    def num_tasks(self) -> int:
        """Tasks of one sorted array that is alone, without those that make the input."""
        chunks, groups = len(self.sizes), len(self.groups)
        if self.exchange == "device":
            merges = groups - len(self.whole_chunks)
            return len(self.sources) * (2 + groups + self.apart) + self.scans + merges + len(self.chunks)
        exchange = {
            "gather": 1 + groups,
            "p2p": chunks + 1 + groups,
            "tasks": len(self.bundles) * (1 + groups) + groups,
        }[self.exchange]
        nodes = sum(map(len, self.tree))
        return chunks + (1 + self.rounds) * (len(self.counted) + nodes) + nodes + exchange + len(self.chunks)

    @property
    def group_bytes(self) -> float:
        """Bytes of the largest group's keys and companions, nan if unknown."""
        sizes = [sum(self.chunks[first:last]) / parts for first, last, _, parts in self.groups]
        return max(sizes, default=0) * self.row_bytes

    @property
    def projected_bytes(self) -> float:
        """Peak bytes that one thread holds: three times a group with what it cuts off, or a run and its copy."""
        runs = self.runs or [(chunk,) for chunk in range(len(self.sizes))]
        longest = max((sum(self.sizes[chunk] for chunk in run) for run in runs), default=0)
        return max(3 * (1 + self.in_question) * self.group_bytes, 2 * longest * self.row_bytes)


def make_plan(
    order: Order,
    sizes: Sequence[Size],
    chunks: Sequence[Size],
    *,
    method: str,
    exchange: Exchange,
    workers: Workers,
    groups: int | None,
    companion_bytes: int,
    places: Sequence[str | None] = (),
    presorted: bool = False,
) -> Plan:
    """Decide how an array is sorted.

    Parameters
    ----------
    order : Order
    sizes, chunks : sequence of int
        Keys in each input and each output chunk, nan where unknown.
    method : {"auto", "radix", "merge"}
    exchange : {"gather", "p2p", "tasks", "device"}
    workers : Workers
    groups : int or None
        Number of exchange groups asked for; None chooses it.
    companion_bytes : int
        Bytes that travel with each key.
    places : sequence of str or None
        The worker that holds each input chunk, where that is known.
    presorted : bool
        Whether the chunks are sorted already.

    Returns
    -------
    Plan
    """
    path = counting.choose_path(order, method)
    row_bytes = order.transit_dtype.itemsize + companion_bytes
    total = sum(sizes) * row_bytes
    device = exchange == "device"
    if groups is None and math.isnan(total):
        groups = min(len(chunks), workers.threads if device else GROUPS_PER_THREAD * workers.threads)
    elif groups is None:
        groups = count_groups(exchange, total, len(sizes), workers)
        if device:
            # An output chunk in parts is moved once more, which only GPUs without a group are worth.
            groups = min(groups, max(len(chunks), workers.threads))
    laid_out = lay_out_groups(chunks, groups)
    rounds = 0
    runs: tuple[tuple[int, ...], ...] = ()
    sources: tuple[tuple[int, ...], ...] = ()
    if device:
        sources = bundle_chunks(sizes, row_bytes, workers, places)
        runs, sources = _runs_of(sources, sizes, order, companion_bytes, presorted)
        # One round of ranks: what it leaves in question is settled where a group is finished.
        path, samples, kept, radix_bits = "merge", counting.choose_device_samples(len(runs), len(laid_out)), 0, 0
    else:
        dropped = len(counting.counting_tree(len(sizes), counting.FAN_IN)) - 1
        kept = counting.choose_kept_samples(order, len(sizes), len(laid_out), dropped)
        samples = counting.choose_samples(sizes, len(laid_out), kept)
        radix_bits = counting.choose_radix_bits(order, path, samples)
        if len(laid_out) > 1:
            rounds = counting.choose_rounds(counting.left_in_question(len(laid_out), samples, kept, dropped))
    return Plan(
        order=order,
        path=path,
        exchange=exchange,
        sizes=tuple(sizes),
        chunks=tuple(chunks),
        groups=laid_out,
        radix_bits=radix_bits,
        samples=samples,
        kept_samples=kept,
        fan_in=counting.FAN_IN,
        rounds=rounds,
        row_bytes=row_bytes,
        runs=runs,
        sources=sources,
        apart=device and holds_apart(total, workers),
    )


def _runs_of(
    bundles: Sequence[Sequence[int]], sizes: Sequence[Size], order: Order, companion_bytes: int, presorted: bool
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """What is sorted as one run, and the runs of each bundle; chunks that are sorted already are runs."""
    if presorted:
        return tuple((chunk,) for chunk in range(len(sizes))), tuple(map(tuple, bundles))
    return join_chunks(bundles, sizes, alike=order.coded and not order.has_ties and not companion_bytes)


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
        "rounds": f"{plan.rounds} + 1 of counting, {plan.samples:,} keys a chunk in each",
        "table": f"at most {format_bytes(plan.table_bytes)} for a task, {plan.in_question:.1%} of the keys in question",
        "chunks": f"{len(plan.sizes):,} in, {len(plan.chunks):,} out{'' if plan.known else ', sizes unknown'}",
        "groups": f"{len(plan.groups):,} of at most {_bytes(plan.group_bytes)}",
        "exchange": plan.exchange + (_bundles_of(plan) if plan.sources else ""),
        "tasks": f"{plan.num_tasks:,}",
        "peak": f"{_bytes(plan.projected_bytes)} for each thread of a worker",
    }
    return "\n".join(f"{name:<9} {text}" for name, text in rows.items())


def _bundles_of(plan: Plan) -> str:
    first = ", all cut up before a group is finished" if plan.apart else ""
    return f", of {len(plan.sources):,} bundles of {len(plan.runs):,} runs{first}"


def _bytes(number: float) -> str:
    return "an unknown size" if math.isnan(number) else format_bytes(int(number))
